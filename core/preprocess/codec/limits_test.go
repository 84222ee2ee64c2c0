package codec

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
)

// bitWriter writes bits from the lowest of each byte on.
type bitWriter struct {
	b []byte
	n int
}

func (w *bitWriter) put(v uint32, n int) {
	for i := range n {
		if w.n%8 == 0 {
			w.b = append(w.b, 0)
		}
		w.b[w.n/8] |= byte(v>>i&1) << (w.n % 8)
		w.n++
	}
}

// book is a codebook with ordered words of one length, and a lookup of kind 1.
func book(dimensions, entries int) *bits {
	var w bitWriter
	w.put(0x564342, 24)
	w.put(uint32(dimensions), 16)
	w.put(uint32(entries), 24)
	w.put(1, 1) // ordered
	w.put(7, 5)
	wide := 0
	for left := entries; left > 0; left >>= 1 {
		wide++
	}
	w.put(uint32(entries), wide)
	w.put(1, 4)
	for range 1 << 12 {
		w.put(0, 32)
	}
	return &bits{data: w.b}
}

// TestLimits has a value at each limit, and one beyond it.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: streams at the limits")
	}
	raw := func(header string, frames int) bool {
		b := []byte(header + strings.Repeat("FRAME\nx", frames))
		_, err := NewY4MReader(bytes.NewReader(b), int64(len(b)))
		return err == nil
	}
	const header = Y4MMagic + " W1 H1 F25:1 Cmono"
	judged := func(dimensions, entries, entriesLeft, numbersLeft int) bool {
		_, _, err := judgeBook(book(dimensions, entries), entriesLeft, numbersLeft)
		return err == nil
	}
	for _, c := range []struct {
		name  string
		limit int
		ok    func(n int) bool
	}{
		{"MaxPixels", MaxPixels / 8192, func(n int) bool {
			h := Y4MHeader{}
			var err error
			h, err = ParseY4MHeader(Y4MMagic + " W8192 F25:1 H" + strconv.Itoa(n))
			return err == nil && h.H == n
		}},
		{"MaxPixels of one row", MaxPixels, func(n int) bool {
			_, err := ParseY4MHeader(Y4MMagic + " H1 F25:1 W" + strconv.Itoa(n))
			return err == nil
		}},
		{"MaxFrames", MaxFrames, func(n int) bool { return raw(header+"\n", n) }},
		{"maxLine", maxLine, func(n int) bool { return raw(header+" X"+strings.Repeat("x", n-len(header)-3)+"\n", 1) }},
		{"maxDimensions", maxDimensions, func(n int) bool { return judged(n, 2, maxEntries, maxNumbers) }},
		{"maxEntries", maxEntries, func(n int) bool { return judged(1, n, maxEntries, maxNumbers) }},
		{"maxNumbers", maxNumbers / 64, func(n int) bool { return judged(64, n, maxEntries, maxNumbers) }},
		{"maxSample", maxSample, func(n int) bool { return (&sink{channels: 1}).put(float64(n)) == nil }},
		{"maxPacket", maxPacket, func(n int) bool {
			o := &ogg{part: make([]byte, n-255), parted: true}
			return o.packets([]byte{255}, make([]byte, 255), 0) == nil
		}},
	} {
		if !c.ok(c.limit) {
			t.Errorf("%s: %d is refused", c.name, c.limit)
		}
		if c.ok(c.limit + 1) {
			t.Errorf("%s: %d is accepted", c.name, c.limit+1)
		}
	}
	// The data of a frame may begin up to maxBack bytes before it, and no more is kept.
	p := &packer{}
	h := mp3Header(0xfff3_6040)
	if err := p.add(h, make([]byte, h.side()+2*maxBack)); err != nil || len(p.seen) != maxBack {
		t.Errorf("%d bytes are kept, limit %d: %v", len(p.seen), maxBack, err)
	}
}
