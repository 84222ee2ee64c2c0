package htp

// The limits, for tests.
const (
	MaxMetadata    = maxMetadata
	MaxGraphs      = maxGraphs
	MaxTensors     = maxTensors
	MaxRank        = maxRank
	MaxNotes       = maxNotes
	MaxEntries     = maxEntries
	MaxSubgraphs   = maxSubgraphs
	MaxDispatches  = maxDispatches
	MaxLiteRTRank  = maxLiteRTRank
	MaxMethods     = maxMethods
	MaxProgramRank = maxProgramRank
	MaxText        = maxText
	MaxKeys        = maxKeys
	MaxDirectory   = maxDirectory
	MaxExtra       = maxExtra
	MaxOptions     = maxOptions
)

// Options reads a FlexBuffer.
var Options = options
