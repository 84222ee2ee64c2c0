package product_test

import (
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/op/optest"
)

// The size of a block is a power of two from minBlock to maxBlock.
func TestBlockSize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		size int
		ok   bool
	}{{8, false}, {16, true}, {24, false}, {32, true}, {1 << 16, true}, {1 << 17, false}} {
		n := optest.Node("MatMulNBits", onnx.Int("K", 32), onnx.Int("N", 1), onnx.Int("bits", 4), onnx.Int("block_size", int64(c.size)))
		n.Domain = "com.microsoft"
		count := (32 + c.size - 1) / c.size
		in := []*kernel.Array{optest.Gauss(r, 1, 32), optest.Bytes8(r, onnx.UINT8, 1, count, c.size/2), optest.Gauss(r, count)}
		if _, err := (optest.Trial{Node: n, In: in}).Run(t, 1); (err == nil) != c.ok {
			t.Errorf("block_size %d: %v", c.size, err)
		}
	}
}
