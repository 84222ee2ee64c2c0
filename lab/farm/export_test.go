package farm

// The limits that tests of the package's users check.
const (
	MaxMapBytes  = maxMapBytes
	MaxMapFiles  = maxMapFiles
	MaxSetName   = maxSetName
	MaxReplicas  = maxReplicas
	MinSetMemory = minSetMemory
)
