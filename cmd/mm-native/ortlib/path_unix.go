//go:build unix

package ortlib

import "unsafe"

// nativePath is a path as the library takes it.
func nativePath(path string) (unsafe.Pointer, error) { return unsafe.Pointer(cString(path)), nil }
