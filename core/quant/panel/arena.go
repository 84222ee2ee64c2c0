package panel

import "unsafe"

// Arena allocates memory for the weights of one model consecutively in large
// pieces: on huge pages, if available, address translation costs no bandwidth,
// and weights that are read in sequence are contiguous. The zero value is ready
// for use. An Arena is not safe for concurrent use.
type Arena struct {
	// Release, if not nil, is called with source data that has been packed, so that
	// a mapped file does not stay in memory next to its packed copy.
	Release func(data []byte)

	free []byte
	next int // size of the next piece
}

const (
	firstPiece = 1 << 20
	mostPiece  = 64 << 20
	cacheLine  = 64
)

// alloc returns n zero bytes aligned to a cache line.
func (a *Arena) alloc(n int) []byte {
	if len(a.free) < n {
		a.next = min(max(2*a.next, firstPiece), mostPiece)
		a.free = hugePages(max(a.next, n))
	}
	b := a.free[:n:n]
	a.free = a.free[min(len(a.free), (n+cacheLine-1)/cacheLine*cacheLine):]
	return b
}

// aligned returns n zero bytes aligned to a multiple of align.
func aligned(n, align int) []byte {
	b := make([]byte, n+align)
	off := int(-uintptr(unsafe.Pointer(&b[0])) & uintptr(align-1))
	return b[off : off+n : off+n]
}
