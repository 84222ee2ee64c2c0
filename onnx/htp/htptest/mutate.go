package htptest

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
)

// Mutate returns a damaged copy of a file: one position in the first near bytes
// is changed, or bytes are cut, added or moved. The result depends only on the
// seed.
func Mutate(file []byte, near int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 13))
	b := slices.Clone(file)
	near = min(near, len(b)-8)
	if near < 1 {
		return append(b, byte(seed))
	}
	at := r.IntN(near)
	switch r.IntN(8) {
	case 0, 1:
		b[at] ^= 1 << r.IntN(8)
	case 2:
		b[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[r.IntN(5)]
	case 3, 4:
		at &^= 3
		values := []uint32{0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffc, uint32(len(b)), uint32(at), binary.LittleEndian.Uint32(b[at:]) + 4, binary.LittleEndian.Uint32(b[at:]) - 4}
		binary.LittleEndian.PutUint32(b[at:], values[r.IntN(len(values))])
	case 5:
		b = b[:r.IntN(len(b))]
	case 6:
		b = slices.Insert(b, at, make([]byte, 1+r.IntN(16))...)
	case 7:
		n := min(1+r.IntN(64), len(b)-at)
		copy(b[r.IntN(near):], b[at:at+n])
	}
	return b
}
