// Package kernel defines the tensors that a graph computes with and the common
// parts of the operators' kernels.
//
// An [Array] has an element type, a shape, and elements in row-major order. An
// [Arena] creates arrays, bounds the bytes that are alive and reuses a buffer
// after the release of the last array that shares it: most graphs use the same
// sizes in each run, so almost nothing is allocated from the second run on.
// Shapes from files are checked with overflow-safe arithmetic before anything is
// allocated.
//
// A [Call] is one application of an operator: the inputs, the attributes, and the
// place of the results. A [Func] checks types and shapes before it computes, so
// that a hostile model ends in an error, and allocates only through the call,
// whose arena bounds the memory. It splits work into threads by the shapes alone
// ([Call.Each]), so results do not depend on the number of threads. The package
// also has the rules of shapes, walks over strided elements, conversions between
// types, and the type of a package's table of [Operators].
//
// A kernel is called with at least its required inputs; package op checks that a
// node uses only supported features.
package kernel

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
)

// Call is one application of an operator.
type Call struct {
	Context context.Context
	Arena   *Arena
	Pool    *pool.Pool
	Node    *onnx.Node
	Opset   int64
	In      []*Array // nil if omitted
	Fixed   []bool   // whether an input is the same in each run
	Out     []*Array
	// Cache holds data that a kernel keeps between runs, such as packed
	// weights. It must depend only on fixed inputs.
	Cache *any
	// Sub runs a graph of the node's attributes; nil if there is none.
	Sub func(attribute string, in []*Array) ([]*Array, error)
	// Steps is the maximum number of iterations of a loop.
	Steps int
	// Lanes are the workspaces of the pool's threads.
	Lanes []Lane
	// Then is an activation fused into a product; nil for none.
	Then func(dst, x []float32)
	// Transposed: the last two dimensions of a product's right factor are read
	// transposed.
	Transposed bool
	// Rows are the workspaces of convolutions.
	Rows []tensor.Row
	// After is the function fused into a convolution; nil for none.
	After *After
}

// Attribute returns an attribute of the node, nil if it is omitted.
func (c *Call) Attribute(name string) *onnx.Attribute {
	for i := range c.Node.Attributes {
		if c.Node.Attributes[i].Name == name {
			return &c.Node.Attributes[i]
		}
	}
	return nil
}

// Int returns an integer attribute, or absent if it is omitted.
func (c *Call) Int(name string, absent int) int {
	if a := c.Attribute(name); a != nil {
		return int(a.Int)
	}
	return absent
}

// Float returns a float32 attribute, or absent if it is omitted.
func (c *Call) Float(name string, absent float32) float32 {
	if a := c.Attribute(name); a != nil {
		return a.Float
	}
	return absent
}

// Text returns a string attribute, or absent if it is omitted.
func (c *Call) Text(name, absent string) string {
	if a := c.Attribute(name); a != nil {
		return string(a.String)
	}
	return absent
}

// Ints returns an attribute of integers; nil if it is omitted.
func (c *Call) Ints(name string) []int {
	a := c.Attribute(name)
	if a == nil {
		return nil
	}
	out := make([]int, len(a.Ints))
	for i, v := range a.Ints {
		out[i] = int(v)
	}
	return out
}

// Input returns input i, nil if it is omitted.
func (c *Call) Input(i int) *Array {
	if i < len(c.In) {
		return c.In[i]
	}
	return nil
}

// Same reports whether input i is the same in each run.
func (c *Call) Same(i int) bool { return i < len(c.Fixed) && c.Fixed[i] }

// Integers returns an input of int32 or int64, such as a shape; nil if it is
// omitted. Numbers beyond 32 bits are clamped.
func (c *Call) Integers(i int) ([]int, error) {
	a := c.Input(i)
	if a == nil {
		return nil, nil
	}
	out := make([]int, a.Len())
	switch a.Type {
	case onnx.INT64:
		for k, v := range Elements[int64](a) {
			if v > math.MaxInt32 || v < -math.MaxInt32 { // "to the end" of a Slice
				v = max(min(v, math.MaxInt32), -math.MaxInt32)
			}
			out[k] = int(v)
		}
	case onnx.INT32:
		for k, v := range Elements[int32](a) {
			out[k] = int(v)
		}
	default:
		return nil, fmt.Errorf("input %d: got type %s, want int32 or int64", i, a.Type)
	}
	return out, nil
}

// Axes returns integers from an attribute, or from an input since the given
// opset.
func (c *Call) Axes(name string, input int, opset int64) ([]int, error) {
	if c.Opset >= opset {
		return c.Integers(input)
	}
	return c.Ints(name), nil
}

// Floats returns the elements of inputs, nil for omitted ones. A type other
// than float32 is an error.
func (c *Call) Floats(inputs ...int) ([][]float32, error) {
	out := make([][]float32, len(inputs))
	for k, i := range inputs {
		a := c.Input(i)
		if a == nil {
			continue
		}
		if a.Type != onnx.FLOAT {
			return nil, fmt.Errorf("input %d: got type %s, want float32", i, a.Type)
		}
		out[k] = Elements[float32](a)
	}
	return out, nil
}

// Doubles returns a required numeric input of any type.
func (c *Call) Doubles(i int) ([]float64, error) {
	if c.Input(i) == nil {
		return nil, fmt.Errorf("missing input %d", i)
	}
	a, err := c.Cast(c.In[i], onnx.DOUBLE)
	if err != nil {
		return nil, err
	}
	defer c.Arena.Release(a)
	return slices.Clone(Elements[float64](a)), nil
}

// Result creates output i, whose elements are unspecified, and releases the
// previous array. If memory is short, it returns an error.
func (c *Call) Result(i int, t onnx.DType, shape ...int) (*Array, error) {
	a, err := c.Arena.New(t, shape...)
	if err != nil {
		return nil, err
	}
	if i < len(c.Out) {
		c.Arena.Release(c.Out[i])
		c.Out[i] = a
	}
	return a, nil
}

// Want checks the type of inputs that are present.
func (c *Call) Want(t onnx.DType, inputs ...int) error {
	for _, i := range inputs {
		if a := c.Input(i); a != nil && a.Type != t {
			return fmt.Errorf("input %d: got type %s, want %s", i, a.Type, t)
		}
	}
	return nil
}

// Lengths checks that inputs, if present, have n elements each.
func (c *Call) Lengths(n int, inputs ...int) error {
	for _, i := range inputs {
		if a := c.Input(i); a != nil && a.Len() != n {
			return fmt.Errorf("input %d: got shape %v, want %d elements", i, a.Shape, n)
		}
	}
	return nil
}

// Nested applies another operator with this node's attributes, of which nothing
// is fixed or fused, and returns its first output.
func (c *Call) Nested(name string, run Func, in ...*Array) (*Array, error) {
	n, sub, none := *c.Node, *c, any(nil)
	n.Op = name
	sub.Node, sub.Cache, sub.Fixed, sub.In, sub.Out = &n, &none, nil, in, make([]*Array, 1)
	sub.Transposed, sub.Then, sub.After = false, nil, nil
	err := run(&sub)
	return sub.Out[0], err
}

// Permuted returns a copy of an array with its dimensions in another order,
// which the caller has checked.
func (c *Call) Permuted(a *Array, perm ...int) (*Array, error) {
	from, shape, strides := Strides(a.Shape), make([]int, len(perm)), make([]int, len(perm))
	for i, k := range perm {
		shape[i], strides[i] = a.Shape[k], from[k]
	}
	out, err := c.Arena.New(a.Type, shape...)
	if err == nil {
		c.Strided(out, a, shape, 0, strides)
	}
	return out, err
}

// Grain is the number of elements of work that justifies a thread.
const Grain = 1 << 14

// Each runs f over [0, n) on the pool, in pieces of about Grain elements if
// each index has size elements. If the context has ended, pieces are skipped,
// because the result is discarded.
func (c *Call) Each(n, size int, f func(thread, lo, hi int)) {
	c.Loop(n, max(1, Grain/max(size, 1)), f)
}

// Loop is Each in pieces of at most chunk.
func (c *Call) Loop(n, chunk int, f func(thread, lo, hi int)) {
	if n <= chunk {
		if n > 0 {
			f(0, 0, n)
		}
		return
	}
	var fault atomic.Pointer[any]
	c.Pool.For(n, chunk, pool.Func(func(thread, lo, hi int) {
		defer func() {
			if r := recover(); r != nil {
				fault.Store(&r)
			}
		}()
		if !c.Ended() && fault.Load() == nil {
			f(thread, lo, hi)
		}
	}))
	if r := fault.Load(); r != nil { // panic in the kernel's goroutine
		panic(*r)
	}
}

// Ended reports whether the context has ended.
func (c *Call) Ended() bool { return c.Context.Err() != nil }
