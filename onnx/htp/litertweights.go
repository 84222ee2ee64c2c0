package htp

import (
	"cmp"
	"fmt"
)

// weights counts the bytes and the elements of a subgraph's constants.
func (w *walk) weights(root, t table) {
	for i, e := range t.Tables(0) {
		number := e.Uint32(2, 0)
		if number == 0 {
			continue
		}
		b := root.At(fieldBuffers, number)
		if !b.Valid() {
			w.b.Fail(fmt.Errorf("tensor %d of subgraph %d: buffer %d out of range %d", i, w.index, number, root.Len(fieldBuffers)))
			return
		}
		n := w.bytes(b)
		if n == 0 {
			continue
		}
		kind := dtype(e.Uint8(1, 0))
		if w.m.Weights == nil {
			w.m.Weights = map[string]int64{}
		}
		w.m.Weights[kind] += n
		w.m.Parameters += n * 8 / cmp.Or(widths[kind], 8)
	}
}

// widths are the sizes of elements, in bits; of other types, bytes are counted.
var widths = map[string]int64{
	"float32": 32, "float16": 16, "int32": 32, "uint8": 8, "int64": 64, "string": 8, "bool": 8, "int16": 16, "complex64": 64, "int8": 8, "float64": 64,
	"complex128": 128, "uint64": 64, "uint32": 32, "uint16": 16, "int4": 4, "bfloat16": 16, "int2": 2, "uint4": 4,
}

// bytes returns the size of a buffer: in the FlatBuffer, or after it.
func (w *walk) bytes(b table) int64 {
	at, n := b.Uint64(1), b.Uint64(2)
	if at <= 1 {
		_, n := b.vector(0, 1)
		return n
	}
	if at > uint64(w.m.Size) || n > uint64(w.m.Size)-at {
		w.b.Fail(fmt.Errorf("buffer at %d of %d bytes exceeds the file size %d", at, n, w.m.Size))
		return 0
	}
	return int64(n)
}
