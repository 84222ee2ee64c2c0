//go:build !linux && !purego

package cpu

// tilesPermitted reports false: the AMX registers are only requested on Linux.
func tilesPermitted() bool { return false }
