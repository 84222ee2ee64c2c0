//go:build !unix

package qnn

// logCallback is none: the library keeps its log.
func logCallback() uintptr { return 0 }
