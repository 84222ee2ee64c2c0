package onnxtest

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/op"
)

// Trial is one application of an operator.
type Trial struct {
	Node    *onnx.Node
	In      []*kernel.Array
	Fixed   []bool
	Outs    int                  // number of outputs; 0 for one
	Change  func(c *kernel.Call) // fusions of the planner
	Prepare bool                 // pack weights first
	Limit   int64                // memory limit in bytes; 0 for none
}

// Floats returns an array of float32.
func Floats(shape []int, v []float32) *kernel.Array {
	a, err := new(kernel.Arena).New(onnx.FLOAT, shape...)
	if err != nil {
		panic(err)
	}
	copy(kernel.Elements[float32](a), v)
	return a
}

// Gauss returns an array of normally distributed numbers.
func Gauss(r *rand.Rand, shape ...int) *kernel.Array {
	n, err := kernel.Count(shape)
	if err != nil {
		panic(err)
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return Floats(shape, v)
}

// Bytes8 returns an array of random bytes of an 8-bit type.
func Bytes8(r *rand.Rand, kind onnx.DType, shape ...int) *kernel.Array {
	a, err := new(kernel.Arena).New(kind, shape...)
	if err != nil {
		panic(err)
	}
	for i := range a.Bytes() {
		a.Bytes()[i] = byte(r.IntN(256))
	}
	return a
}

// Longs returns a list of int64.
func Longs(v ...int64) *kernel.Array {
	a, err := new(kernel.Arena).New(onnx.INT64, len(v))
	if err != nil {
		panic(err)
	}
	copy(kernel.Elements[int64](a), v)
	return a
}

// Node returns an operator with attributes.
func Node(name string, attributes ...onnx.Attribute) *onnx.Node {
	return &onnx.Node{Op: name, Attributes: attributes}
}

// Run applies the operator twice with the same call, so that its cache is used,
// and returns the second results.
func (tr Trial) Run(t *testing.T, threads int) (out []*kernel.Array, err error) {
	t.Helper()
	p := pool.New(threads)
	defer p.Close()
	arena := &kernel.Arena{Limit: tr.Limit}
	if tr.Limit == 0 {
		soil(t, arena)
	}
	tr.Node.Inputs = make([]string, len(tr.In))
	run, err := op.Find(tr.Node, 17)
	if err != nil {
		return nil, err
	}
	var cache any
	c := &kernel.Call{Context: context.Background(), Arena: arena, Pool: p, Node: tr.Node, Opset: 17, Fixed: tr.Fixed, Cache: &cache, Lanes: make([]kernel.Lane, threads), Rows: make([]tensor.Row, threads)}
	c.In = slices.Clone(tr.In)
	if tr.Change != nil {
		tr.Change(c)
	}
	if tr.Prepare {
		packed, err := op.Prepare(c)
		if err != nil {
			return nil, err
		}
		for _, i := range packed {
			c.In[i] = c.In[i].Hollow()
		}
	}
	for range 2 {
		c.Out = make([]*kernel.Array, max(tr.Outs, 1))
		if err := run(c); err != nil {
			return nil, err
		}
	}
	return c.Out, nil
}

// soil leaves nonzero memory in the arena.
func soil(t *testing.T, arena *kernel.Arena) {
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

// Same runs on one thread and on three, whose results must be bit-equal.
func (tr Trial) Same(t *testing.T, name string) []*kernel.Array {
	t.Helper()
	one, err := tr.Run(t, 1)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	three, err := tr.Run(t, 3)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for i := range one {
		if one[i] != nil && !bytes.Equal(one[i].Bytes(), three[i].Bytes()) {
			t.Fatalf("%s: three threads change output %d", name, i)
		}
	}
	return one
}

// Approx compares with the result of naive loops, relative to the largest
// element.
func Approx(t *testing.T, name string, got *kernel.Array, shape []int, want []float64, tol float64) {
	t.Helper()
	if !slices.Equal(got.Shape, shape) || got.Len() != len(want) {
		t.Fatalf("%s: %v of %d elements, want %v of %d", name, got.Shape, got.Len(), shape, len(want))
	}
	most := 1e-30
	for _, v := range want {
		most = max(most, math.Abs(v))
	}
	for i, v := range kernel.Elements[float32](got) {
		if !(math.Abs(float64(v)-want[i]) <= tol*most) {
			t.Fatalf("%s: element %d: got %v, want %v", name, i, v, want[i])
		}
	}
}
