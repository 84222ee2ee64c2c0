package product_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/onnxtest"
)

// The size of a block is a power of two from minBlock to maxBlock.
func TestBlockSize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		size int
		ok   bool
	}{{8, false}, {16, true}, {24, false}, {32, true}, {1 << 16, true}, {1 << 17, false}} {
		n := onnxtest.Node("MatMulNBits", onnx.Int("K", 32), onnx.Int("N", 1), onnx.Int("bits", 4), onnx.Int("block_size", int64(c.size)))
		n.Domain = "com.microsoft"
		count := (32 + c.size - 1) / c.size
		in := []*kernel.Array{onnxtest.Gauss(r, 1, 32), onnxtest.Bytes8(r, onnx.UINT8, 1, count, c.size/2), onnxtest.Gauss(r, count)}
		if _, err := (onnxtest.Trial{Node: n, In: in}).Run(t, 1); (err == nil) != c.ok {
			t.Errorf("block_size %d: %v", c.size, err)
		}
	}
}

// Few rows of activations, which are multiplied by the packed weights, and many, for
// which weights are unpacked, have the products of the formula (maxNibbleRows on
// either side).
func TestFewRows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for name, c := range map[string]struct {
		n, k, size int
		zeros      int // 0: none, 1: packed, 2: floats
		bias       bool
	}{
		"plain": {7, 64, 32, 0, false}, "zeros": {5, 160, 32, 1, true}, "offsets": {5, 96, 32, 2, false}, "wide": {9, 256, 128, 1, false},
		"short last block": {6, 72, 32, 1, false}, "small": {6, 64, 16, 1, true},
		"many": {70, 64, 32, 1, true},
	} {
		count := (c.k + c.size - 1) / c.size
		n := onnxtest.Node("MatMulNBits", onnx.Int("K", int64(c.k)), onnx.Int("N", int64(c.n)), onnx.Int("bits", 4), onnx.Int("block_size", int64(c.size)))
		n.Domain = "com.microsoft"
		x := onnxtest.Gauss(r, 17, c.k)
		in := []*kernel.Array{x, onnxtest.Bytes8(r, onnx.UINT8, c.n, count, c.size/2), onnxtest.Gauss(r, c.n*count), nil, nil, nil}
		switch c.zeros {
		case 1:
			in[3] = onnxtest.Bytes8(r, onnx.UINT8, c.n*((count+1)/2))
		case 2:
			in[3] = onnxtest.Gauss(r, c.n*count)
		}
		if c.bias {
			in[5] = onnxtest.Gauss(r, c.n)
		}
		weight := func(j, i int) float64 {
			at := j*count + i/c.size
			q, zero := float64(in[1].Bytes()[at*c.size/2+i%c.size/2]>>(i%2*4)&15), 8.0
			switch b := i / c.size; c.zeros {
			case 1:
				zero = float64(in[3].Bytes()[j*((count+1)/2)+b/2] >> (b % 2 * 4) & 15)
			case 2:
				zero = float64(kernel.Elements[float32](in[3])[at])
			}
			return (q - zero) * float64(kernel.Elements[float32](in[2])[at])
		}
		for _, rows := range []int{1, 4, 5, 17} {
			few := onnxtest.Gauss(r, rows, c.k)
			copy(kernel.Elements[float32](few), kernel.Elements[float32](x))
			in[0] = few
			got, err := (onnxtest.Trial{Node: n, In: in}).Run(t, 1)
			if err != nil {
				t.Fatal(err)
			}
			for at, v := range kernel.Elements[float32](got[0]) {
				row, j, want := at/c.n, at%c.n, 0.0
				for i := range c.k {
					want += weight(j, i) * float64(kernel.Elements[float32](x)[row*c.k+i])
				}
				if c.bias {
					want += float64(kernel.Elements[float32](in[5])[j])
				}
				if math.Abs(float64(v)-want) > 1e-5*float64(c.k) {
					t.Fatalf("%s, %d rows, row %d, column %d: got %v, want %v", name, rows, row, j, v, want)
				}
			}
		}
	}
}
