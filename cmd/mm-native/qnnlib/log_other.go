//go:build !unix

package qnnlib

// logCallback returns 0: the library discards its log.
func logCallback() uintptr { return 0 }
