package pack

import "golang.org/x/sys/unix"

// hugePages gives n zero bytes, on huge pages if there are enough for one.
func hugePages(n int) []byte {
	const size = 2 << 20
	if n < size {
		return aligned(n, cacheLine)
	}
	b := aligned(n, size)
	// A refusal leaves small pages, which work as well.
	_ = unix.Madvise(b[:n&^(size-1)], unix.MADV_HUGEPAGE)
	return b
}
