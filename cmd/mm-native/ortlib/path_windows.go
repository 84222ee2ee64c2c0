package ortlib

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// nativePath converts a path for the library, to UTF-16.
func nativePath(path string) (unsafe.Pointer, error) {
	p, err := windows.UTF16PtrFromString(path)
	return unsafe.Pointer(p), err
}
