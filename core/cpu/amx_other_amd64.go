//go:build !linux && !purego

package cpu

// tilesPermitted: how the registers of AMX are had is known on Linux alone.
func tilesPermitted() bool { return false }
