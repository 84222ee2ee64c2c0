package device

const (
	MaxContext = maxContext
	MaxLibs    = maxLibs
	MaxRaw     = maxRaw
	MaxLines   = maxLines
)

var (
	Ready   = (*Device).ready
	Thermal = thermal
)
