//go:build race

package registry

// raceEnabled excludes the race detector's memory from measurements.
const raceEnabled = true
