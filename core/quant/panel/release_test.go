package panel

import (
	"bytes"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// Packing in parts releases every byte of the source once, in order, and packs the
// same bytes.
func TestRelease(t *testing.T) {
	threads := pool.New(2)
	defer threads.Close()
	for _, typ := range []tensor.Type{tensor.Q8_0, tensor.F32} {
		const cols = 4096
		rows := 3*releaseBytes/typ.RowBytes(cols) + 5
		data, row := make([]byte, rows*typ.RowBytes(cols)), make([]float32, cols)
		for i := range rows {
			for k := range row {
				row[k] = float32(i*7+k) / 1000
			}
			quant.Quantize(data[i*typ.RowBytes(cols):(i+1)*typ.RowBytes(cols)], row, typ)
		}
		whole, err := New(typ, rows, cols, data, threads, nil)
		if err != nil {
			t.Fatal(err)
		}
		var released, parts int
		arena := &Arena{Release: func(b []byte) {
			if &b[0] != &data[released] {
				t.Errorf("%v: part %d does not follow the one before", typ, parts)
			}
			released += len(b)
			parts++
		}}
		packed, err := New(typ, rows, cols, data, threads, arena)
		if err != nil {
			t.Fatal(err)
		}
		if released != len(data) || parts < 3 {
			t.Errorf("%v: released %d of %d bytes in %d parts", typ, released, len(data), parts)
		}
		if !bytes.Equal(packed.quants, whole.quants) || !bytes.Equal(packed.scales, whole.scales) {
			t.Errorf("%v: packed bytes differ", typ)
		}
	}
}
