package pack

import (
	"math"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// What is no number stays none, wherever it stands.
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
			t.Errorf("no number at %d: the product is %v", at, y[0])
		}
	}
}
