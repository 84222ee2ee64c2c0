package panel

import (
	"math"
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// A NaN in any position propagates to the result.
func TestNaNStays(t *testing.T) {
	p := pool.New(1)
	defer p.Close()
	w := make([]float32, 32*64)
	for i := range w {
		w[i] = 1
	}
	data := make([]byte, tensor.Q8_0.RowBytes(len(w)))
	quant.Quantize(data, w, tensor.Q8_0)
	m, err := New(tensor.Q8_0, 32, 64, data, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	for at := range 64 {
		var b Batch
		b.Resize(1, 64)
		for i := range b.Row(0) {
			b.Row(0)[i] = 1
		}
		b.Row(0)[at] = float32(math.NaN())
		b.Prepare(0)
		y := make([]float32, 32)
		var s Scratch
		m.Mul(y, 32, &b, 0, 32, &s)
		if y[0] == y[0] {
			t.Errorf("NaN at %d: got product %v", at, y[0])
		}
	}
}

// A NaN scale makes its row NaN and no other; a NaN activation makes all
// outputs of its row NaN.
func TestNaNScale(t *testing.T) {
	p := pool.New(1)
	defer p.Close()
	const n, k = 48, 512
	r := rand.New(rand.NewPCG(5, 6))
	for _, typ := range allTypes {
		for _, at := range halves[typ] {
			data := randomRows(r, typ, n, k)
			const bad = 19
			row := data[bad*typ.RowBytes(k):]
			le.PutUint16(row[(k/typ.BlockSize()-1)*typ.BlockBytes()+at:], 0x7e00)
			m, err := New(typ, n, k, data, p, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, T := range []int{1, 3, 8, pairRows} {
				b := randomBatch(r, T, k)
				y := make([]float32, pairRows*64)
				m.Mul(y, 64, b, 0, n, &Scratch{})
				for i := range T {
					for j := range n {
						if v := y[i*64+j]; (v != v) != (j == bad) {
							t.Errorf("%v, byte %d: y[%d][%d] of %d : got %v", typ, at, i, j, T, v)
						}
					}
				}
				b.Row(T - 1)[k-1] = float32(math.NaN())
				b.Prepare(b.Tiles() - 1)
				m.Mul(y, 64, b, 0, n, &Scratch{})
				for i := range T {
					for j := range n {
						if v := y[i*64+j]; (v != v) != (j == bad || i == T-1) {
							t.Errorf("%v: y[%d][%d] of %d : got %v with a NaN activation", typ, i, j, T, v)
						}
					}
				}
			}
		}
	}
}
