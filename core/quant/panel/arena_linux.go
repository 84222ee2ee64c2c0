package panel

import "golang.org/x/sys/unix"

// hugePages gives n zero bytes, on huge pages if there are enough for one.
func hugePages(n int) []byte {
	const size = 2 << 20
	if n < size {
		return aligned(n, cacheLine)
	}
	b := aligned(n, size)
	whole := b[:n&^(size-1)]
	// Memory that was in use before lies on small pages already, which only
	// the second request changes (Linux 6.1). A refusal of either leaves small
	// pages, which work as well.
	_ = unix.Madvise(whole, unix.MADV_HUGEPAGE)
	_ = unix.Madvise(whole, unix.MADV_COLLAPSE)
	return b
}
