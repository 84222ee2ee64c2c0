package panel

import "golang.org/x/sys/unix"

// hugePages returns n zero bytes, on huge pages if n is large enough.
func hugePages(n int) []byte {
	const size = 2 << 20
	if n < size {
		return aligned(n, cacheLine)
	}
	b := aligned(n, size)
	full := b[:n&^(size-1)]
	// Reused memory is already backed by small pages, which only the second
	// request changes (Linux 6.1). If either is refused, small pages work as
	// well.
	_ = unix.Madvise(full, unix.MADV_HUGEPAGE)
	_ = unix.Madvise(full, unix.MADV_COLLAPSE)
	return b
}
