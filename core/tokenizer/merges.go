package tokenizer

import "math/bits"

// pairTable maps a pair of symbols to their union. It is a hash table with open
// addressing: a lookup costs one cache line, a Go map several; encoding and
// training do little else.
type pairTable struct {
	slots []pairSlot // a power of two
	shift uint
	used  int
}

type pairSlot struct {
	key   uint64 // left<<32 | right, plus 1; 0 is empty
	rank  int32
	union int32
}

func newPairTable(n int) *pairTable {
	size := 1 << bits.Len(uint(max(n, 8))*3/2)
	return &pairTable{slots: make([]pairSlot, size), shift: 64 - uint(bits.TrailingZeros(uint(size)))}
}

func pairKey(left, right int32) uint64 { return (uint64(uint32(left))<<32 | uint64(uint32(right))) + 1 }

// slot returns the slot of key, or a free one.
func (t *pairTable) slot(key uint64) *pairSlot {
	mask := len(t.slots) - 1
	i := int(key * 0x9e3779b97f4a7c15 >> t.shift)
	for {
		s := &t.slots[i&mask]
		if s.key == key || s.key == 0 {
			return s
		}
		i++
	}
}

// put inserts a pair unless it is present: the first has the better rank. The
// table must have room.
func (t *pairTable) put(left, right, rank, union int32) {
	key := pairKey(left, right)
	if s := t.slot(key); s.key == 0 {
		*s = pairSlot{key, rank, union}
		t.used++
	}
}

// noRank is the rank of a pair that does not merge.
const noRank = int32(1<<31 - 1)

// get returns rank and union of a pair, or noRank.
func (t *pairTable) get(left, right int32) (rank, union int32) {
	s := t.slot(pairKey(left, right))
	if s.key == 0 {
		return noRank, None
	}
	return s.rank, s.union
}

// queue is a heap of candidates with the smallest key first.
type queue []candidate

// candidate is a pair of neighbors that could merge. Its key is the rank, then
// the position, so that equal ranks merge from the left.
type candidate struct {
	key   uint64
	right int32 // position of the right symbol
	size  int32 // bytes of both together, to detect a stale candidate
}

func (q *queue) push(c candidate) {
	h := append(*q, c)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].key <= c.key {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = c
	*q = h
}

func (q *queue) pop() candidate {
	h := *q
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].key < h[child].key {
			child++
		}
		if h[child].key >= last.key {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = last
	return top
}
