// Package op holds the operators of ONNX that package core/graph runs.
//
// [Find] gives the kernel of an operator, or says why there is none; a [Call]
// is one application: the inputs as arrays, the attributes, and where results
// go. A kernel judges types and shapes before it computes, so that a hostile
// model ends in an error, and allocates through the call alone, whose arena
// bounds the memory. What it does on several threads it cuts by the shapes
// alone: results do not depend on their number.
//
// The definitions are those of docs/Operators.md of ONNX 1.22.
package op

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"mm-abi.org/mm/core/graph/array"
	"mm-abi.org/mm/core/onnx"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
)

// Array is a tensor.
type Array = array.Array

// Call is one application of an operator.
type Call struct {
	Context context.Context
	Arena   *array.Arena
	Pool    *pool.Pool
	Node    *onnx.Node
	Opset   int64
	In      []*Array // nil for one left out
	Fixed   []bool   // which inputs are the same in each run
	Out     []*Array
	// Cache is what a kernel keeps from one run to the next, such as weights
	// in the order that they are read. It must follow from fixed inputs.
	Cache *any
	// Sub runs a graph of the node's attributes; nil where there is none.
	Sub func(attribute string, in []*Array) ([]*Array, error)
	// Steps is how often a loop may go round.
	Steps int
	// Lanes are the workspaces of the pool's threads.
	Lanes []Lane
	// Then is an activation that was joined to a product; nil for none.
	Then func(dst, x []float32)
	// Transposed says that the last two dimensions of a product's right factor
	// are to be read the other way round.
	Transposed bool
	// Rows are workspaces as well, of convolutions.
	Rows []tensor.Row
	// After is what was joined to a convolution; nil for nothing.
	After *After
}

// Kernel computes the outputs of a call.
type Kernel func(c *Call) error

// operator is a kernel and what it is claimed for.
type operator struct {
	run      Kernel
	since    int64 // the first opset
	min, max int   // inputs
	// raw kernels take 16-bit floats as they are; others are given float32.
	raw bool
}

// many is the number of inputs of operators that take any number.
const many = 1 << 20

// Find gives the kernel of a node in a graph of the given opset. What is not
// claimed is an error that names it.
func Find(n *onnx.Node, opset int64) (Kernel, error) {
	if n.Domain != "" && n.Domain != "ai.onnx" {
		return nil, fmt.Errorf("operator %s of domain %q is not supported", n.Op, n.Domain)
	}
	o, ok := table[n.Op]
	if !ok {
		return nil, fmt.Errorf("operator %s is not supported", n.Op)
	}
	if opset < o.since {
		return nil, fmt.Errorf("operator %s of opset %d is not supported, from %d on it is", n.Op, opset, o.since)
	}
	if len(n.Inputs) < o.min || len(n.Inputs) > o.max {
		return nil, fmt.Errorf("operator %s with %d inputs, it has %d to %d", n.Op, len(n.Inputs), o.min, o.max)
	}
	if why := unclaimed(n); why != "" {
		return nil, fmt.Errorf("operator %s with %s is not supported", n.Op, why)
	}
	run := o.run
	if !o.raw {
		run = widened(run)
	}
	return func(c *Call) error {
		for i := range o.min {
			if c.In[i] == nil && !optional(n.Op, i) {
				return fmt.Errorf("input %d is left out", i)
			}
		}
		return run(c)
	}, nil
}

// Names lists the operators, sorted.
func Names() []string {
	var out []string
	for name := range table {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// optional reports inputs below an operator's least number that may be empty.
func optional(name string, i int) bool { return name == "Clip" && i > 0 || name == "Loop" }

// unclaimed names what a node asks of its operator that is not there.
func unclaimed(n *onnx.Node) string {
	has := func(name string) *onnx.Attribute {
		for i := range n.Attributes {
			if n.Attributes[i].Name == name {
				return &n.Attributes[i]
			}
		}
		return nil
	}
	str := func(name string) string {
		if a := has(name); a != nil {
			return string(a.String)
		}
		return ""
	}
	switch n.Op {
	case "Constant":
		if has("value_string") != nil || has("value_strings") != nil || has("sparse_value") != nil {
			return "strings or a sparse tensor"
		}
	case "Resize":
		if m := str("mode"); m == "cubic" {
			return "mode cubic"
		}
		if a := has("antialias"); a != nil && a.Int != 0 {
			return "antialias"
		}
		if str("coordinate_transformation_mode") == "tf_crop_and_resize" {
			return "tf_crop_and_resize"
		}
	case "LSTM", "GRU", "RNN":
		if has("activations") != nil || has("clip") != nil {
			return "activations or a clip of its own"
		}
	case "Cast", "CastLike", "ConstantOfShape", "EyeLike":
		if a := has("to"); a != nil && array.Size(onnx.DType(a.Int)) == 0 {
			return "to " + onnx.DType(a.Int).String()
		}
	case "QuantizeLinear", "DequantizeLinear":
		if a := has("block_size"); a != nil && a.Int != 0 {
			return "blocks"
		}
	case "MaxPool":
		if a := has("storage_order"); a != nil && a.Int != 0 {
			return "column-major indices"
		}
	case "Dropout", "BatchNormalization":
		if a := has("training_mode"); a != nil && a.Int != 0 {
			return "training mode"
		}
	}
	return ""
}

// attribute finds an attribute.
func (c *Call) attribute(name string) *onnx.Attribute {
	for i := range c.Node.Attributes {
		if c.Node.Attributes[i].Name == name {
			return &c.Node.Attributes[i]
		}
	}
	return nil
}

func (c *Call) int(name string, absent int) int {
	if a := c.attribute(name); a != nil {
		return int(a.Int)
	}
	return absent
}

func (c *Call) float(name string, absent float32) float32 {
	if a := c.attribute(name); a != nil {
		return a.Float
	}
	return absent
}

func (c *Call) text(name, absent string) string {
	if a := c.attribute(name); a != nil {
		return string(a.String)
	}
	return absent
}

func (c *Call) ints(name string) []int {
	a := c.attribute(name)
	if a == nil {
		return nil
	}
	out := make([]int, len(a.Ints))
	for i, v := range a.Ints {
		out[i] = int(v)
	}
	return out
}

// input is input i, nil when it is left out.
func (c *Call) input(i int) *Array {
	if i < len(c.In) {
		return c.In[i]
	}
	return nil
}

// fixed reports whether input i is the same in each run.
func (c *Call) fixed(i int) bool { return i < len(c.Fixed) && c.Fixed[i] }

// integers reads an input of whole numbers, such as a shape.
func (c *Call) integers(i int) ([]int, error) {
	a := c.input(i)
	if a == nil {
		return nil, nil
	}
	out := make([]int, a.Len())
	switch a.Type {
	case onnx.INT64:
		for k, v := range array.Of[int64](a) {
			if v > math.MaxInt32 || v < -math.MaxInt32 { // "to the end" of a Slice
				v = max(min(v, math.MaxInt32), -math.MaxInt32)
			}
			out[k] = int(v)
		}
	case onnx.INT32:
		for k, v := range array.Of[int32](a) {
			out[k] = int(v)
		}
	default:
		return nil, fmt.Errorf("input %d is of %s, not of whole numbers", i, a.Type)
	}
	return out, nil
}

// axes reads an attribute, or from opset on an input, of numbers.
func (c *Call) axes(name string, input int, opset int64) ([]int, error) {
	if c.Opset >= opset {
		return c.integers(input)
	}
	return c.ints(name), nil
}

// axis brings an axis into [0, rank).
func axis(v, rank int) (int, error) {
	if v < -rank || v >= rank {
		return 0, fmt.Errorf("axis %d of %d dimensions", v, rank)
	}
	if v < 0 {
		v += rank
	}
	return v, nil
}

// allAxes brings axes into [0, rank), each once, sorted.
func allAxes(list []int, rank int) ([]int, error) {
	out := make([]int, len(list))
	for i, v := range list {
		k, err := axis(v, rank)
		if err != nil {
			return nil, err
		}
		out[i] = k
	}
	slices.Sort(out)
	if len(slices.Compact(slices.Clone(out))) != len(out) {
		return nil, fmt.Errorf("the axes %v name one twice", list)
	}
	return out, nil
}

// result makes output i.
func (c *Call) result(i int, t onnx.DType, shape ...int) (*Array, error) {
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

// want checks the type of inputs that are there.
func (c *Call) want(t onnx.DType, inputs ...int) error {
	for _, i := range inputs {
		if a := c.input(i); a != nil && a.Type != t {
			return fmt.Errorf("input %d is of %s, wanted is %s", i, a.Type, t)
		}
	}
	return nil
}

// product multiplies dimensions that are known to be sound.
func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// strides are the distances in elements of a row-major array.
func strides(shape []int) []int {
	out := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		out[i] = n
		n *= shape[i]
	}
	return out
}

// grain is how many elements of work are worth a thread's attention.
const grain = 1 << 14

// each runs f over [0, n) on the pool, in pieces that hold about grain
// elements when each index stands for size of them. When the context has ended
// pieces are left out: what the kernel gives is thrown away then.
func (c *Call) each(n, size int, f func(thread, lo, hi int)) {
	c.loop(n, max(1, grain/max(size, 1)), f)
}

// loop is each in pieces of at most chunk.
func (c *Call) loop(n, chunk int, f func(thread, lo, hi int)) {
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
		if !c.ended() && fault.Load() == nil {
			f(thread, lo, hi)
		}
	}))
	if r := fault.Load(); r != nil { // as if the kernel's own goroutine had met it
		panic(*r)
	}
}

// ended reports whether nobody waits for the result any more.
func (c *Call) ended() bool { return c.Context.Err() != nil }

// family is a kernel for each type of numbers, in the order float32, float64,
// int8, int16, int32, int64, uint8, uint16, uint32, uint64; nil for none.
type family [10]Kernel

var order = [10]onnx.DType{onnx.FLOAT, onnx.DOUBLE, onnx.INT8, onnx.INT16, onnx.INT32, onnx.INT64, onnx.UINT8, onnx.UINT16, onnx.UINT32, onnx.UINT64}

// by chooses by the type of the given input.
func (f family) by(input int) Kernel {
	return func(c *Call) error {
		a := c.input(input)
		if a == nil {
			return fmt.Errorf("input %d is left out", input)
		}
		i := slices.Index(order[:], a.Type)
		if i < 0 || f[i] == nil {
			return fmt.Errorf("input %d is of %s, which is not supported", input, a.Type)
		}
		return f[i](c)
	}
}

// number are the types of a family.
type number interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// typeOf is the ONNX type of T.
func typeOf[T array.Elem]() onnx.DType {
	var v T
	switch any(v).(type) {
	case float32:
		return onnx.FLOAT
	case float64:
		return onnx.DOUBLE
	case int8:
		return onnx.INT8
	case int16:
		return onnx.INT16
	case int32:
		return onnx.INT32
	case int64:
		return onnx.INT64
	case uint8:
		return onnx.UINT8
	case uint16:
		return onnx.UINT16
	case uint32:
		return onnx.UINT32
	case uint64:
		return onnx.UINT64
	}
	return onnx.BOOL
}

// widened runs a kernel on 16-bit floats by way of float32.
func widened(k Kernel) Kernel {
	return func(c *Call) error {
		narrow := onnx.DType(0)
		for _, a := range c.In {
			if a != nil && (a.Type == onnx.FLOAT16 || a.Type == onnx.BFLOAT16) {
				narrow = a.Type
			}
		}
		if narrow == 0 {
			return k(c)
		}
		in := c.In
		c.In = slices.Clone(in)
		defer func() {
			for i, a := range c.In {
				if a != in[i] {
					c.Arena.Release(a)
				}
			}
			c.In = in
		}()
		for i, a := range in {
			if a != nil && a.Type == narrow {
				wide, err := c.cast(a, onnx.FLOAT)
				if err != nil {
					return err
				}
				c.In[i] = wide
			}
		}
		if err := k(c); err != nil {
			return err
		}
		for i, a := range c.Out {
			if a == nil || a.Type != onnx.FLOAT {
				continue
			}
			small, err := c.cast(a, narrow)
			if err != nil {
				return err
			}
			c.Arena.Release(a)
			c.Out[i] = small
		}
		return nil
	}
}
