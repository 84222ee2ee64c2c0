//go:build race

package registry

// raceEnabled: the race detector's own memory is not the store's.
const raceEnabled = true
