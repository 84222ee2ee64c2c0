// Package optest applies operators in tests: a [Trial] runs one by its name,
// again with what it has kept, on memory that is not zero, and on one thread
// and several, whose results have to be the same.
package optest

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
	"mm-abi.org/mm/onnx/engine/array"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/op"
)

// Trial is one application of an operator.
type Trial struct {
	Node    *onnx.Node
	In      []*array.Array
	Fixed   []bool
	Outs    int                  // how many outputs; 0 for one
	Change  func(c *kernel.Call) // what a plan joins to the node
	Prepare bool                 // weights are packed first
	Limit   int64                // of memory, in bytes; 0 for none
}

// Floats is an array of float32.
func Floats(shape []int, v []float32) *array.Array {
	a, err := new(array.Arena).New(onnx.FLOAT, shape...)
	if err != nil {
		panic(err)
	}
	copy(array.Of[float32](a), v)
	return a
}

// Gauss is an array of normally distributed numbers.
func Gauss(r *rand.Rand, shape ...int) *array.Array {
	n, err := array.Count(shape)
	if err != nil {
		panic(err)
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return Floats(shape, v)
}

// Bytes8 is an array of random bytes of an 8-bit type.
func Bytes8(r *rand.Rand, kind onnx.DType, shape ...int) *array.Array {
	a, err := new(array.Arena).New(kind, shape...)
	if err != nil {
		panic(err)
	}
	for i := range a.Bytes() {
		a.Bytes()[i] = byte(r.IntN(256))
	}
	return a
}

// Longs is a list of int64.
func Longs(v ...int64) *array.Array {
	a, err := new(array.Arena).New(onnx.INT64, len(v))
	if err != nil {
		panic(err)
	}
	copy(array.Of[int64](a), v)
	return a
}

// Node is an operator with attributes.
func Node(name string, attributes ...onnx.Attribute) *onnx.Node {
	return &onnx.Node{Op: name, Attributes: attributes}
}

// Run applies the operator twice with the same call, so that what it keeps is
// used, and gives the second results.
func (tr Trial) Run(t *testing.T, threads int) (out []*array.Array, err error) {
	t.Helper()
	p := pool.New(threads)
	defer p.Close()
	arena := &array.Arena{Limit: tr.Limit}
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
		c.Out = make([]*array.Array, max(tr.Outs, 1))
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

// Same runs on one thread and on three, whose bits must be the same.
func (tr Trial) Same(t *testing.T, name string) []*array.Array {
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
			t.Fatalf("%s: three threads give another output %d", name, i)
		}
	}
	return one
}

// Approx compares with what naive loops give, relative to the largest.
func Approx(t *testing.T, name string, got *array.Array, shape []int, want []float64, tol float64) {
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
