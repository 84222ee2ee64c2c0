package op_test

import (
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/onnxtest"
)

// An invalid model ends in an error, never in a panic.
func TestHostile(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	perm := func(v ...int64) onnx.Attribute { return onnx.IntList("perm", v...) }
	swapped := func(c *kernel.Call) { c.Transposed = true }
	for i, tr := range []onnxtest.Trial{
		{Node: onnxtest.Node("MatMul"), In: []*kernel.Array{onnxtest.Gauss(r, 2, 3), onnxtest.Gauss(r, 4, 5)}},
		{Node: onnxtest.Node("MatMul"), In: []*kernel.Array{onnxtest.Gauss(r), onnxtest.Gauss(r, 4, 5)}},
		{Node: onnxtest.Node("MatMul"), In: []*kernel.Array{onnxtest.Gauss(r, 2, 3), onnxtest.Gauss(r, 4, 5)}, Fixed: []bool{false, true}, Prepare: true},
		{Node: onnxtest.Node("MatMul"), In: []*kernel.Array{onnxtest.Gauss(r), onnxtest.Gauss(r, 4, 5)}, Fixed: []bool{false, true}, Prepare: true},
		{Node: onnxtest.Node("MatMul"), In: []*kernel.Array{onnxtest.Gauss(r, 2, 3), onnxtest.Gauss(r, 3)}, Change: swapped},
		{Node: onnxtest.Node("MatMul"), In: []*kernel.Array{onnxtest.Gauss(r, 2, 3), onnxtest.Longs(1, 2, 3)}, Change: swapped},
		{Node: onnxtest.Node("MatMul"), In: []*kernel.Array{onnxtest.Longs(1, 2, 3), onnxtest.Gauss(r, 3)}, Change: swapped},
		{Node: onnxtest.Node("MatMul"), In: []*kernel.Array{onnxtest.Gauss(r, 2, 4), onnxtest.Gauss(r, 4, 5)}, Change: func(c *kernel.Call) { c.In = append(c.In, onnxtest.Gauss(r, 4)) }},
		{Node: onnxtest.Node("MatMul"), In: []*kernel.Array{onnxtest.Gauss(r, 2, 4), onnxtest.Gauss(r, 4, 1)}, Change: func(c *kernel.Call) { c.In = append(c.In, onnxtest.Gauss(r)) }},
		{Node: onnxtest.Node("Gemm"), In: []*kernel.Array{onnxtest.Gauss(r, 2, 3), onnxtest.Gauss(r, 4, 5)}},
		{Node: onnxtest.Node("Gemm"), In: []*kernel.Array{onnxtest.Gauss(r, 2, 3, 1), onnxtest.Gauss(r, 3, 5)}},
		{Node: onnxtest.Node("Gemm"), In: []*kernel.Array{onnxtest.Gauss(r, 2, 3), onnxtest.Gauss(r, 3, 5), onnxtest.Gauss(r, 4)}},
		{Node: onnxtest.Node("Gemm"), In: []*kernel.Array{onnxtest.Gauss(r, 2, 3), onnxtest.Gauss(r, 4, 5)}, Fixed: []bool{false, true}, Prepare: true},
		{Node: onnxtest.Node("MatMulInteger"), In: []*kernel.Array{onnxtest.Bytes8(r, onnx.UINT8, 2, 3), onnxtest.Bytes8(r, onnx.UINT8, 4, 5)}},
		{Node: onnxtest.Node("MatMulInteger"), In: []*kernel.Array{onnxtest.Bytes8(r, onnx.UINT8, 2, 3), onnxtest.Bytes8(r, onnx.UINT8, 3, 5), onnxtest.Bytes8(r, onnx.UINT8, 5)}},
		{Node: onnxtest.Node("MatMulInteger"), In: []*kernel.Array{onnxtest.Bytes8(r, onnx.UINT8, 3), onnxtest.Bytes8(r, onnx.UINT8, 3, 5), onnxtest.Bytes8(r, onnx.UINT8, 2)}},
		{Node: onnxtest.Node("ConvInteger"), In: []*kernel.Array{onnxtest.Bytes8(r, onnx.UINT8, 1, 2, 4), onnxtest.Bytes8(r, onnx.UINT8, 2, 3, 3)}},
		{Node: onnxtest.Node("LSTM"), In: []*kernel.Array{onnxtest.Gauss(r, 3, 1, 4), onnxtest.Gauss(r, 1, 8, 4), onnxtest.Gauss(r, 1, 8, 3)}},
		{Node: onnxtest.Node("LSTM"), In: []*kernel.Array{onnxtest.Gauss(r, 3, 1, 4), onnxtest.Gauss(r, 1, 8, 4), onnxtest.Gauss(r, 1, 8, 3)}, Fixed: []bool{false, true, true}, Prepare: true},
		{Node: onnxtest.Node("LSTM"), In: []*kernel.Array{onnxtest.Gauss(r, 3, 1, 0), onnxtest.Gauss(r, 1, 8, 0), onnxtest.Gauss(r, 1, 8, 2)}},
		{Node: onnxtest.Node("GRU"), In: []*kernel.Array{onnxtest.Gauss(r, 3, 1, 4), onnxtest.Gauss(r, 2, 6, 4), onnxtest.Gauss(r, 1, 6, 2)}, Fixed: []bool{false, true, true}, Prepare: true},
		{Node: onnxtest.Node("GRU"), In: []*kernel.Array{onnxtest.Gauss(r, 3, 1, 4), onnxtest.Gauss(r, 1, 8, 4), onnxtest.Gauss(r, 1, 8, 2)}, Fixed: []bool{false, true, true}, Prepare: true},
		{Node: onnxtest.Node("Transpose", perm(0, 0)), In: []*kernel.Array{onnxtest.Gauss(r, 2, 3)}},
		{Node: onnxtest.Node("Transpose", perm(0)), In: []*kernel.Array{onnxtest.Gauss(r, 2, 3)}},
		{Node: onnxtest.Node("Transpose", perm(0, 7)), In: []*kernel.Array{onnxtest.Gauss(r, 2, 3)}},
		{Node: onnxtest.Node("Add"), In: []*kernel.Array{onnxtest.Gauss(r, 2, 3), onnxtest.Gauss(r, 4)}},
		{Node: onnxtest.Node("Add"), In: []*kernel.Array{onnxtest.Gauss(r, 2, 3), onnxtest.Longs(1)}},
		{Node: onnxtest.Node("Pow"), In: []*kernel.Array{onnxtest.Gauss(r, 2, 3), onnxtest.Gauss(r, 4)}},
		{Node: onnxtest.Node("LayerNormalization"), In: []*kernel.Array{onnxtest.Gauss(r, 2, 3), onnxtest.Gauss(r, 2)}},
		{Node: onnxtest.Node("LayerNormalization"), In: []*kernel.Array{onnxtest.Gauss(r), onnxtest.Gauss(r)}},
		{Node: onnxtest.Node("MatMul"), In: []*kernel.Array{onnxtest.Gauss(r, 1<<10, 1), onnxtest.Gauss(r, 1, 1<<10)}, Limit: 1 << 20},
		{Node: onnxtest.Node("MatMul"), In: []*kernel.Array{onnxtest.Gauss(r, 1, 1<<9), onnxtest.Gauss(r, 1<<9, 1<<9)}, Fixed: []bool{false, true}, Prepare: true, Limit: 1 << 19},
		{Node: onnxtest.Node("LSTM"), In: []*kernel.Array{onnxtest.Gauss(r, 1, 1, 1), onnxtest.Gauss(r, 1, 512, 1), onnxtest.Gauss(r, 1, 512, 128)}, Fixed: []bool{false, true, true}, Prepare: true, Limit: 1 << 16},
		{Node: onnxtest.Node("MatMulInteger"), In: []*kernel.Array{onnxtest.Bytes8(r, onnx.INT8, 1, 1<<9), onnxtest.Bytes8(r, onnx.INT8, 1<<9, 1<<9)}, Fixed: []bool{false, true}, Limit: 1 << 19},
	} {
		if out, err := tr.Run(t, 1); err == nil {
			t.Errorf("case %d, %s: got %v, want an error", i, tr.Node.Op, out[0].Shape)
		}
	}
}
