package op

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"mm-abi.org/mm/core/graph/array"
	"mm-abi.org/mm/core/graph/kernel"
	"mm-abi.org/mm/core/onnx"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
)

// trial is one application of an operator.
type trial struct {
	node    *onnx.Node
	opset   int64
	in      []*array.Array
	fixed   []bool
	outs    int
	change  func(c *kernel.Call) // what a plan joins to the node
	prepare bool
	limit   int64
}

var heap array.Arena // what tests make

func floats(shape []int, v []float32) *array.Array {
	a, err := heap.New(onnx.FLOAT, shape...)
	if err != nil {
		panic(err)
	}
	copy(array.Of[float32](a), v)
	return a
}

func gauss(r *rand.Rand, shape ...int) *array.Array {
	n, err := array.Count(shape)
	if err != nil {
		panic(err)
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return floats(shape, v)
}

func bytes8(r *rand.Rand, kind onnx.DType, shape ...int) *array.Array {
	a, err := heap.New(kind, shape...)
	if err != nil {
		panic(err)
	}
	for i := range a.Bytes() {
		a.Bytes()[i] = byte(r.IntN(256))
	}
	return a
}

func longs(v ...int64) *array.Array {
	a, err := heap.New(onnx.INT64, len(v))
	if err != nil {
		panic(err)
	}
	copy(array.Of[int64](a), v)
	return a
}

// node is an operator with attributes.
func node(name string, attributes ...onnx.Attribute) *onnx.Node {
	return &onnx.Node{Op: name, Attributes: attributes}
}

// run applies the operator twice with the same call, so that what it keeps is
// used, and gives the second results.
func (tr trial) run(t *testing.T, threads int) (out []*array.Array, err error) {
	t.Helper()
	p := pool.New(threads)
	defer p.Close()
	arena := &array.Arena{Limit: tr.limit}
	if tr.limit == 0 {
		soil(t, arena)
	}
	tr.node.Inputs = make([]string, len(tr.in))
	run, err := Find(tr.node, max(tr.opset, 17))
	if err != nil {
		return nil, err
	}
	var cache any
	c := &kernel.Call{Context: context.Background(), Arena: arena, Pool: p, Node: tr.node, Opset: max(tr.opset, 17), Fixed: tr.fixed, Cache: &cache, Lanes: make([]kernel.Lane, threads), Rows: make([]tensor.Row, threads)}
	c.In = slices.Clone(tr.in)
	if tr.change != nil {
		tr.change(c)
	}
	if tr.prepare {
		packed, err := Prepare(c)
		if err != nil {
			return nil, err
		}
		for _, i := range packed {
			c.In[i] = c.In[i].Hollow()
		}
	}
	for range 2 {
		c.Out = make([]*array.Array, max(tr.outs, 1))
		if err := run(c); err != nil {
			return nil, err
		}
	}
	return c.Out, nil
}

// soil leaves memory behind that is anything but zero.
func soil(t *testing.T, arena *array.Arena) {
	t.Helper()
	for words := 1; words <= 1024; words += max(1, words/16) {
		a, err := arena.New(onnx.UINT64, words)
		if err != nil {
			t.Fatal(err)
		}
		for i := range a.Bytes() {
			a.Bytes()[i] = 0xa5
		}
		arena.Release(a)
	}
}

// same runs on one thread and on three, whose bits must be the same.
func (tr trial) same(t *testing.T, name string) []*array.Array {
	t.Helper()
	one, err := tr.run(t, 1)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	three, err := tr.run(t, 3)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for i := range one {
		if one[i] != nil && !bytes.Equal(one[i].Bytes(), three[i].Bytes()) {
			t.Fatalf("%s: three threads give another output %d", name, i)
		}
	}
	return one
}

// approx compares with what naive loops give, relative to the largest.
func approx(t *testing.T, name string, got *array.Array, shape []int, want []float64, tol float64) {
	t.Helper()
	if !slices.Equal(got.Shape, shape) || got.Len() != len(want) {
		t.Fatalf("%s: %v of %d elements, want %v of %d", name, got.Shape, got.Len(), shape, len(want))
	}
	most := 1e-30
	for _, v := range want {
		most = max(most, math.Abs(v))
	}
	for i, v := range array.Of[float32](got) {
		if !(math.Abs(float64(v)-want[i]) <= tol*most) {
			t.Fatalf("%s: element %d is %v, want %v", name, i, v, want[i])
		}
	}
}

// A model that is wrong ends in an error, and never in a panic.
func TestHostile(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	perm := func(v ...int64) onnx.Attribute { return onnx.IntList("perm", v...) }
	swapped := func(c *kernel.Call) { c.Transposed = true }
	for i, tr := range []trial{
		{node: node("MatMul"), in: []*array.Array{gauss(r, 2, 3), gauss(r, 4, 5)}},
		{node: node("MatMul"), in: []*array.Array{gauss(r), gauss(r, 4, 5)}},
		{node: node("MatMul"), in: []*array.Array{gauss(r, 2, 3), gauss(r, 4, 5)}, fixed: []bool{false, true}, prepare: true},
		{node: node("MatMul"), in: []*array.Array{gauss(r), gauss(r, 4, 5)}, fixed: []bool{false, true}, prepare: true},
		{node: node("MatMul"), in: []*array.Array{gauss(r, 2, 3), gauss(r, 3)}, change: swapped},
		{node: node("MatMul"), in: []*array.Array{gauss(r, 2, 3), longs(1, 2, 3)}, change: swapped},
		{node: node("MatMul"), in: []*array.Array{longs(1, 2, 3), gauss(r, 3)}, change: swapped},
		{node: node("MatMul"), in: []*array.Array{gauss(r, 2, 4), gauss(r, 4, 5)}, change: func(c *kernel.Call) { c.In = append(c.In, gauss(r, 4)) }},
		{node: node("MatMul"), in: []*array.Array{gauss(r, 2, 4), gauss(r, 4, 1)}, change: func(c *kernel.Call) { c.In = append(c.In, gauss(r)) }},
		{node: node("Gemm"), in: []*array.Array{gauss(r, 2, 3), gauss(r, 4, 5)}},
		{node: node("Gemm"), in: []*array.Array{gauss(r, 2, 3, 1), gauss(r, 3, 5)}},
		{node: node("Gemm"), in: []*array.Array{gauss(r, 2, 3), gauss(r, 3, 5), gauss(r, 4)}},
		{node: node("Gemm"), in: []*array.Array{gauss(r, 2, 3), gauss(r, 4, 5)}, fixed: []bool{false, true}, prepare: true},
		{node: node("MatMulInteger"), in: []*array.Array{bytes8(r, onnx.UINT8, 2, 3), bytes8(r, onnx.UINT8, 4, 5)}},
		{node: node("MatMulInteger"), in: []*array.Array{bytes8(r, onnx.UINT8, 2, 3), bytes8(r, onnx.UINT8, 3, 5), bytes8(r, onnx.UINT8, 5)}},
		{node: node("MatMulInteger"), in: []*array.Array{bytes8(r, onnx.UINT8, 3), bytes8(r, onnx.UINT8, 3, 5), bytes8(r, onnx.UINT8, 2)}},
		{node: node("ConvInteger"), in: []*array.Array{bytes8(r, onnx.UINT8, 1, 2, 4), bytes8(r, onnx.UINT8, 2, 3, 3)}},
		{node: node("LSTM"), in: []*array.Array{gauss(r, 3, 1, 4), gauss(r, 1, 8, 4), gauss(r, 1, 8, 3)}},
		{node: node("LSTM"), in: []*array.Array{gauss(r, 3, 1, 4), gauss(r, 1, 8, 4), gauss(r, 1, 8, 3)}, fixed: []bool{false, true, true}, prepare: true},
		{node: node("LSTM"), in: []*array.Array{gauss(r, 3, 1, 0), gauss(r, 1, 8, 0), gauss(r, 1, 8, 2)}},
		{node: node("GRU"), in: []*array.Array{gauss(r, 3, 1, 4), gauss(r, 2, 6, 4), gauss(r, 1, 6, 2)}, fixed: []bool{false, true, true}, prepare: true},
		{node: node("GRU"), in: []*array.Array{gauss(r, 3, 1, 4), gauss(r, 1, 8, 4), gauss(r, 1, 8, 2)}, fixed: []bool{false, true, true}, prepare: true},
		{node: node("Transpose", perm(0, 0)), in: []*array.Array{gauss(r, 2, 3)}},
		{node: node("Transpose", perm(0)), in: []*array.Array{gauss(r, 2, 3)}},
		{node: node("Transpose", perm(0, 7)), in: []*array.Array{gauss(r, 2, 3)}},
		{node: node("Add"), in: []*array.Array{gauss(r, 2, 3), gauss(r, 4)}},
		{node: node("Add"), in: []*array.Array{gauss(r, 2, 3), longs(1)}},
		{node: node("Pow"), in: []*array.Array{gauss(r, 2, 3), gauss(r, 4)}},
		{node: node("LayerNormalization"), in: []*array.Array{gauss(r, 2, 3), gauss(r, 2)}},
		{node: node("LayerNormalization"), in: []*array.Array{gauss(r), gauss(r)}},
		{node: node("MatMul"), in: []*array.Array{gauss(r, 1<<10, 1), gauss(r, 1, 1<<10)}, limit: 1 << 20},
		{node: node("MatMul"), in: []*array.Array{gauss(r, 1, 1<<9), gauss(r, 1<<9, 1<<9)}, fixed: []bool{false, true}, prepare: true, limit: 1 << 19},
		{node: node("LSTM"), in: []*array.Array{gauss(r, 1, 1, 1), gauss(r, 1, 512, 1), gauss(r, 1, 512, 128)}, fixed: []bool{false, true, true}, prepare: true, limit: 1 << 16},
		{node: node("MatMulInteger"), in: []*array.Array{bytes8(r, onnx.INT8, 1, 1<<9), bytes8(r, onnx.INT8, 1<<9, 1<<9)}, fixed: []bool{false, true}, limit: 1 << 19},
	} {
		if out, err := tr.run(t, 1); err == nil {
			t.Errorf("case %d, %s: no error, but %v", i, tr.node.Op, out[0].Shape)
		}
	}
}

func shapeName(a, b []int) string { return fmt.Sprintf("%v times %v", a, b) }

// A fault on another thread is the caller's, and an ended context leaves the
// rest out.
func TestEach(t *testing.T) {
	p := pool.New(3)
	defer p.Close()
	ctx, cancel := context.WithCancel(context.Background())
	c := &kernel.Call{Context: ctx, Pool: p}
	func() {
		defer func() {
			if r := recover(); r != "a fault" {
				t.Errorf("the caller meets %v", r)
			}
		}()
		c.Each(100, kernel.Grain, func(_, lo, _ int) {
			if lo >= 40 { // not on the caller's own part alone
				panic("a fault")
			}
		})
	}()
	var done atomic.Int64
	c.Each(100, kernel.Grain, func(_, lo, hi int) { done.Add(int64(hi - lo)) })
	if done.Load() != 100 {
		t.Errorf("%d of 100 done", done.Load())
	}
	done.Store(0)
	c.Each(1000, kernel.Grain, func(_, lo, hi int) {
		if done.Add(int64(hi-lo)) == 10 {
			cancel()
		}
	})
	if n := done.Load(); n < 10 || n > 20 {
		t.Errorf("%d done, the context ended at 10", n)
	}
}

// Each operator stands in one table.
func TestParts(t *testing.T) {
	n := 0
	for _, part := range parts() {
		n += len(part)
	}
	if got := len(Names()); got != n {
		t.Errorf("%d operators of %d entries", got, n)
	}
}
