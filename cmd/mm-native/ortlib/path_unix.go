//go:build unix

package ortlib

import "unsafe"

// nativePath converts a path for the library.
func nativePath(path string) (unsafe.Pointer, error) { return unsafe.Pointer(cString(path)), nil }
