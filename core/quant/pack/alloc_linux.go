package pack

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const hugePage = 2 << 20

// alloc gives n zero bytes whose address is a multiple of 64. Larger pieces
// lie on huge pages where the kernel has some: weights are read front to back
// each token, and address translation would cost a tenth of the bandwidth.
func alloc(n int) []byte {
	if n < hugePage {
		return aligned(n, 64)
	}
	b := aligned(n, hugePage)
	// A refusal leaves small pages, which work as well.
	_ = unix.Madvise(b[:n&^(hugePage-1)], unix.MADV_HUGEPAGE)
	return b
}

func aligned(n, align int) []byte {
	b := make([]byte, n+align)
	off := int(-uintptr(unsafe.Pointer(&b[0])) & uintptr(align-1))
	return b[off : off+n : off+n]
}
