package htp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"
)

// sample is a table {0: 7 uint32, 1: "text", 2: [{0: 1}, {0: 2}], 3: [5, 6],
// 5: 9 uint64} with the identifier TEST.
func sample() []byte {
	b := flatbuffers.NewBuilder(256)
	text := b.CreateString("text")
	var tables []flatbuffers.UOffsetT
	for i := range uint32(2) {
		b.StartObject(1)
		b.PrependUint32(i + 1)
		b.Slot(0)
		tables = append(tables, b.EndObject())
	}
	b.StartVector(4, 2, 4)
	b.PrependUOffsetT(tables[1])
	b.PrependUOffsetT(tables[0])
	list := b.EndVector(2)
	b.StartVector(4, 2, 4)
	b.PrependUint32(6)
	b.PrependUint32(5)
	words := b.EndVector(2)
	b.StartObject(6)
	b.PrependUint64(9)
	b.Slot(5)
	b.PrependUint32(7)
	b.Slot(0)
	for i, o := range []flatbuffers.UOffsetT{text, list, words} {
		b.PrependUOffsetT(o)
		b.Slot(i + 1)
	}
	b.FinishWithFileIdentifier(b.EndObject(), []byte("TEST"))
	return b.FinishedBytes()
}

func open(b []byte) *buffer { return newBuffer(bytes.NewReader(b), 0, int64(len(b))) }

func TestFields(t *testing.T) {
	for _, before := range []int{0, 3, 4090, 5000} { // across pages, and unaligned
		file := append(make([]byte, before), sample()...)
		b := newBuffer(bytes.NewReader(file), int64(before), int64(len(file)-before))
		r := b.Root()
		var list []uint32
		for _, e := range r.Tables(2) {
			list = append(list, e.Uint32(0, 99))
		}
		if b.Identifier() != "TEST" || r.Uint32(0, 0) != 7 || r.Text(1) != "text" || len(list) != 2 || list[0] != 1 || list[1] != 2 || r.Uint64(5) != 9 {
			t.Errorf("%q %d %q %v %d", b.Identifier(), r.Uint32(0, 0), r.Text(1), list, r.Uint64(5))
		}
		if w := r.Uint32s(3); len(w) != 2 || w[0] != 5 || w[1] != 6 {
			t.Errorf("%v", w)
		}
		if r.Has(4) || r.Uint32(4, 3) != 3 || r.Uint32(50, 4) != 4 || r.Text(4) != "" || r.Table(4).Valid() || r.At(2, 2).Valid() || r.At(2, 1).Uint32(0, 0) != 2 {
			t.Error("an absent field is there")
		}
		if b.Err() != nil {
			t.Error(b.Err())
		}
	}
}

// list returns the offset of the root's vtable.
func list(b []byte) int {
	root := binary.LittleEndian.Uint32(b)
	return int(root) - int(int32(binary.LittleEndian.Uint32(b[root:])))
}

// The first error is kept, and every value is empty from then on.
func TestFaults(t *testing.T) {
	good := sample()
	for name, change := range map[string]func(b []byte) []byte{
		"cut":              func(b []byte) []byte { return b[:len(b)-6] },
		"empty":            func([]byte) []byte { return nil },
		"root of 0":        func(b []byte) []byte { copy(b, make([]byte, 4)); return b },
		"root beyond":      func(b []byte) []byte { copy(b, []byte{255, 255, 255, 255}); return b },
		"an odd list":      func(b []byte) []byte { b[list(b)]++; return b },
		"a list without":   func(b []byte) []byte { copy(b[list(b):], []byte{2, 0}); return b },
		"a field beyond":   func(b []byte) []byte { copy(b[list(b)+4:], []byte{0, 1}); return b },
		"a NUL in a text":  func(b []byte) []byte { return bytes.Replace(b, []byte("text"), []byte("t\x00xt"), 1) },
		"a text of latin1": func(b []byte) []byte { return bytes.Replace(b, []byte("text"), []byte("t\xe4xt"), 1) },
		"a long text": func(b []byte) []byte {
			return bytes.Replace(b, []byte("\x04\x00\x00\x00text"), []byte("\xff\xff\xff\x7ftext"), 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(change(bytes.Clone(good)))
			r := b.Root()
			_, _ = r.Uint32(0, 0), r.Text(1)
			for _, e := range r.Tables(2) {
				_ = e.Uint32(0, 0)
			}
			_, _ = r.Uint32s(3), r.Uint64(5)
			if !errors.Is(b.Err(), ErrMalformed) {
				t.Fatal(b.Err())
			}
			if r.Uint32(0, 11) != 11 || r.Text(1) != "" || r.Len(2) != 0 || b.Root().Valid() {
				t.Error("a value after a fault")
			}
		})
	}
}

// A vector that names one table many times stays within the budget.
func TestBudget(t *testing.T) {
	const n = 1 << 17
	b := flatbuffers.NewBuilder(1 << 22)
	text := b.CreateString(strings.Repeat("n", 1000))
	b.StartObject(1)
	b.PrependUOffsetT(text)
	b.Slot(0)
	one := b.EndObject()
	b.StartVector(4, n, 4)
	for range n {
		b.PrependUOffsetT(one)
	}
	list := b.EndVector(n)
	b.StartObject(1)
	b.PrependUOffsetT(list)
	b.Slot(0)
	b.Finish(b.EndObject())
	buf := open(b.FinishedBytes())
	read := 0
	for _, e := range buf.Root().Tables(0) {
		read += len(e.Text(0))
	}
	if buf.Err() == nil || !strings.Contains(buf.Err().Error(), "unfolds") || read > budget {
		t.Errorf("%d bytes, %v", read, buf.Err())
	}
}

// failing cannot read beyond its first bytes.
type failing struct{ b []byte }

func (f failing) ReadAt(p []byte, at int64) (int, error) {
	if at >= 16 {
		return 0, io.ErrClosedPipe
	}
	return copy(p, f.b[at:]), nil
}

// A read error is not reported as malformed.
func TestReadError(t *testing.T) {
	b := newBuffer(failing{sample()[:8]}, 0, 4096)
	b.Root()
	if b.Err() == nil || errors.Is(b.Err(), ErrMalformed) {
		t.Error(b.Err())
	}
}

// FuzzTable reads every field as every type.
func FuzzTable(f *testing.F) {
	f.Add(sample())
	f.Fuzz(func(t *testing.T, file []byte) {
		b := open(file)
		var walk func(x table, deep int)
		walk = func(x table, deep int) {
			for i := range 8 {
				_, _, _, _ = x.Uint8(i, 0), x.Uint32(i, 0), x.Uint64(i), x.Words(i, 3)
				if deep < 4 {
					walk(x.Table(i), deep+1)
				}
			}
		}
		walk(b.Root(), 0)
		for i := range 8 {
			c := open(file)
			r := c.Root()
			_, _, _ = r.Text(i), r.Uint32s(i), r.Bytes(i, 100)
			for range r.Tables(i) {
			}
		}
	})
}
