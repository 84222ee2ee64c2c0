//go:build !unix

package qnnlib

// logCallback is none: the library keeps its log.
func logCallback() uintptr { return 0 }
