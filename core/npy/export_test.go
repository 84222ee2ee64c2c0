package npy

// The limits, for tests.
const (
	MaxHeader  = maxHeader
	MaxRank    = maxRank
	MaxEntries = maxEntries
)
