//go:build !linux

package pack

import "unsafe"

// alloc gives n zero bytes whose address is a multiple of 64.
func alloc(n int) []byte {
	const align = 64
	b := make([]byte, n+align)
	off := int(-uintptr(unsafe.Pointer(&b[0])) & uintptr(align-1))
	return b[off : off+n : off+n]
}
