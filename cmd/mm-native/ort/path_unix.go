//go:build unix

package ort

import "unsafe"

// nativePath is a path as the library takes it.
func nativePath(path string) (unsafe.Pointer, error) { return unsafe.Pointer(cString(path)), nil }
