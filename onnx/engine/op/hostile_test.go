package op_test

import (
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/op/optest"
)

// An invalid model ends in an error, never in a panic.
func TestHostile(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	perm := func(v ...int64) onnx.Attribute { return onnx.IntList("perm", v...) }
	swapped := func(c *kernel.Call) { c.Transposed = true }
	for i, tr := range []optest.Trial{
		{Node: optest.Node("MatMul"), In: []*kernel.Array{optest.Gauss(r, 2, 3), optest.Gauss(r, 4, 5)}},
		{Node: optest.Node("MatMul"), In: []*kernel.Array{optest.Gauss(r), optest.Gauss(r, 4, 5)}},
		{Node: optest.Node("MatMul"), In: []*kernel.Array{optest.Gauss(r, 2, 3), optest.Gauss(r, 4, 5)}, Fixed: []bool{false, true}, Prepare: true},
		{Node: optest.Node("MatMul"), In: []*kernel.Array{optest.Gauss(r), optest.Gauss(r, 4, 5)}, Fixed: []bool{false, true}, Prepare: true},
		{Node: optest.Node("MatMul"), In: []*kernel.Array{optest.Gauss(r, 2, 3), optest.Gauss(r, 3)}, Change: swapped},
		{Node: optest.Node("MatMul"), In: []*kernel.Array{optest.Gauss(r, 2, 3), optest.Longs(1, 2, 3)}, Change: swapped},
		{Node: optest.Node("MatMul"), In: []*kernel.Array{optest.Longs(1, 2, 3), optest.Gauss(r, 3)}, Change: swapped},
		{Node: optest.Node("MatMul"), In: []*kernel.Array{optest.Gauss(r, 2, 4), optest.Gauss(r, 4, 5)}, Change: func(c *kernel.Call) { c.In = append(c.In, optest.Gauss(r, 4)) }},
		{Node: optest.Node("MatMul"), In: []*kernel.Array{optest.Gauss(r, 2, 4), optest.Gauss(r, 4, 1)}, Change: func(c *kernel.Call) { c.In = append(c.In, optest.Gauss(r)) }},
		{Node: optest.Node("Gemm"), In: []*kernel.Array{optest.Gauss(r, 2, 3), optest.Gauss(r, 4, 5)}},
		{Node: optest.Node("Gemm"), In: []*kernel.Array{optest.Gauss(r, 2, 3, 1), optest.Gauss(r, 3, 5)}},
		{Node: optest.Node("Gemm"), In: []*kernel.Array{optest.Gauss(r, 2, 3), optest.Gauss(r, 3, 5), optest.Gauss(r, 4)}},
		{Node: optest.Node("Gemm"), In: []*kernel.Array{optest.Gauss(r, 2, 3), optest.Gauss(r, 4, 5)}, Fixed: []bool{false, true}, Prepare: true},
		{Node: optest.Node("MatMulInteger"), In: []*kernel.Array{optest.Bytes8(r, onnx.UINT8, 2, 3), optest.Bytes8(r, onnx.UINT8, 4, 5)}},
		{Node: optest.Node("MatMulInteger"), In: []*kernel.Array{optest.Bytes8(r, onnx.UINT8, 2, 3), optest.Bytes8(r, onnx.UINT8, 3, 5), optest.Bytes8(r, onnx.UINT8, 5)}},
		{Node: optest.Node("MatMulInteger"), In: []*kernel.Array{optest.Bytes8(r, onnx.UINT8, 3), optest.Bytes8(r, onnx.UINT8, 3, 5), optest.Bytes8(r, onnx.UINT8, 2)}},
		{Node: optest.Node("ConvInteger"), In: []*kernel.Array{optest.Bytes8(r, onnx.UINT8, 1, 2, 4), optest.Bytes8(r, onnx.UINT8, 2, 3, 3)}},
		{Node: optest.Node("LSTM"), In: []*kernel.Array{optest.Gauss(r, 3, 1, 4), optest.Gauss(r, 1, 8, 4), optest.Gauss(r, 1, 8, 3)}},
		{Node: optest.Node("LSTM"), In: []*kernel.Array{optest.Gauss(r, 3, 1, 4), optest.Gauss(r, 1, 8, 4), optest.Gauss(r, 1, 8, 3)}, Fixed: []bool{false, true, true}, Prepare: true},
		{Node: optest.Node("LSTM"), In: []*kernel.Array{optest.Gauss(r, 3, 1, 0), optest.Gauss(r, 1, 8, 0), optest.Gauss(r, 1, 8, 2)}},
		{Node: optest.Node("GRU"), In: []*kernel.Array{optest.Gauss(r, 3, 1, 4), optest.Gauss(r, 2, 6, 4), optest.Gauss(r, 1, 6, 2)}, Fixed: []bool{false, true, true}, Prepare: true},
		{Node: optest.Node("GRU"), In: []*kernel.Array{optest.Gauss(r, 3, 1, 4), optest.Gauss(r, 1, 8, 4), optest.Gauss(r, 1, 8, 2)}, Fixed: []bool{false, true, true}, Prepare: true},
		{Node: optest.Node("Transpose", perm(0, 0)), In: []*kernel.Array{optest.Gauss(r, 2, 3)}},
		{Node: optest.Node("Transpose", perm(0)), In: []*kernel.Array{optest.Gauss(r, 2, 3)}},
		{Node: optest.Node("Transpose", perm(0, 7)), In: []*kernel.Array{optest.Gauss(r, 2, 3)}},
		{Node: optest.Node("Add"), In: []*kernel.Array{optest.Gauss(r, 2, 3), optest.Gauss(r, 4)}},
		{Node: optest.Node("Add"), In: []*kernel.Array{optest.Gauss(r, 2, 3), optest.Longs(1)}},
		{Node: optest.Node("Pow"), In: []*kernel.Array{optest.Gauss(r, 2, 3), optest.Gauss(r, 4)}},
		{Node: optest.Node("LayerNormalization"), In: []*kernel.Array{optest.Gauss(r, 2, 3), optest.Gauss(r, 2)}},
		{Node: optest.Node("LayerNormalization"), In: []*kernel.Array{optest.Gauss(r), optest.Gauss(r)}},
		{Node: optest.Node("MatMul"), In: []*kernel.Array{optest.Gauss(r, 1<<10, 1), optest.Gauss(r, 1, 1<<10)}, Limit: 1 << 20},
		{Node: optest.Node("MatMul"), In: []*kernel.Array{optest.Gauss(r, 1, 1<<9), optest.Gauss(r, 1<<9, 1<<9)}, Fixed: []bool{false, true}, Prepare: true, Limit: 1 << 19},
		{Node: optest.Node("LSTM"), In: []*kernel.Array{optest.Gauss(r, 1, 1, 1), optest.Gauss(r, 1, 512, 1), optest.Gauss(r, 1, 512, 128)}, Fixed: []bool{false, true, true}, Prepare: true, Limit: 1 << 16},
		{Node: optest.Node("MatMulInteger"), In: []*kernel.Array{optest.Bytes8(r, onnx.INT8, 1, 1<<9), optest.Bytes8(r, onnx.INT8, 1<<9, 1<<9)}, Fixed: []bool{false, true}, Limit: 1 << 19},
	} {
		if out, err := tr.Run(t, 1); err == nil {
			t.Errorf("case %d, %s: got %v, want an error", i, tr.Node.Op, out[0].Shape)
		}
	}
}
