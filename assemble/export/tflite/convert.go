package tflite

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/onnx/lower"
)

// The precisions of weights.
const (
	fp32  = "fp32"
	fp16  = "fp16"
	int8s = "int8"
)

// layout is the order of a tensor's dimensions.
type layout int

// Plain is the order of the model; channelsLast moves the second dimension to the
// end, as windows require.
const (
	plain layout = iota
	channelsLast
)

// converter writes the nodes of a graph. A tensor is kept in the layout in which it
// was computed; the other one is made on its first use.
type converter struct {
	m         Model
	precision string
	delegate  bool // only what NNAPI's delegate takes
	at        map[*lower.Value]*[2]int
	readers   map[*lower.Value]int
	skipped   map[*lower.Node]bool // written with the node before
	bias      map[*lower.Node]*lower.Node
	problems  []lower.Problem
}

// convert writes a graph. The problems are the nodes that cannot be written.
func convert(g *lower.Graph, precision string, delegate bool) (*Model, []lower.Problem) {
	c := &converter{precision: precision, delegate: delegate, at: map[*lower.Value]*[2]int{}, readers: map[*lower.Value]int{}, skipped: map[*lower.Node]bool{}, bias: map[*lower.Node]*lower.Node{}}
	for _, n := range g.Nodes {
		for _, v := range n.In {
			c.readers[v]++
		}
	}
	for _, v := range g.Outputs {
		c.readers[v]++
	}
	c.biases(g)
	for _, v := range g.Inputs {
		t := c.tensor(v.Name, elements[v.Type], v.Shape)
		c.put(v, plain, t)
		c.m.Inputs = append(c.m.Inputs, Port{v.Name, t})
	}
	for _, n := range g.Nodes {
		if c.skipped[n] {
			continue
		}
		if err := c.node(n); err != nil {
			c.problems = append(c.problems, lower.Problem{Node: n.Name, Op: string(n.Op), Reason: err.Error()})
		}
		if len(c.problems) > 0 { // later nodes miss its result
			return nil, c.all(g, n)
		}
	}
	for _, v := range g.Outputs {
		c.m.Outputs = append(c.m.Outputs, Port{v.Name, c.result(v)})
	}
	return &c.m, nil
}

// all adds the later nodes whose operators are not supported.
func (c *converter) all(g *lower.Graph, after *lower.Node) []lower.Problem {
	for _, n := range g.Nodes[slices.Index(g.Nodes, after)+1:] {
		if n.Op == lower.Erf {
			c.problems = append(c.problems, lower.Problem{Node: n.Name, Op: string(n.Op), Reason: "unsupported operator"})
		}
	}
	return c.problems
}

// result returns the tensor of an output: an input or a constant is copied.
func (c *converter) result(v *lower.Value) int {
	t := c.get(v, plain)
	used := slices.ContainsFunc(slices.Concat(c.m.Inputs, c.m.Outputs), func(p Port) bool { return p.Tensor == t })
	if used || c.m.Tensors[t].Data != nil {
		return c.op(Reshape, v.Name, v.Type, v.Shape, []int{t, c.ints(v.Shape...)})
	}
	c.m.Tensors[t].Name = v.Name
	return t
}

// biases finds additions of constants after products and convolutions.
func (c *converter) biases(g *lower.Graph) {
	from := map[*lower.Value]*lower.Node{}
	for _, n := range g.Nodes {
		from[n.Out] = n
		if n.Op != lower.Add {
			continue
		}
		for i, v := range n.In {
			p, b := from[v], n.In[1-i]
			if p != nil && p.Op == lower.MatMul && c.readers[v] == 1 && weighted(p) && b.Const != nil && b.Type == lower.Float32 && len(b.Shape) == 1 && b.Shape[0] == p.Out.Shape[len(p.Out.Shape)-1] {
				c.bias[p], c.skipped[n] = n, true
				break
			}
		}
	}
}

// weighted reports whether a product has a constant matrix.
func weighted(n *lower.Node) bool {
	return n.In[1].Const != nil && len(n.In[1].Shape) == 2 && len(n.In[0].Shape) > 1
}

// elements are the types of a graph's elements: integers have 32 bits.
var elements = [...]Type{lower.Float32: Float32, lower.Int64: Int32, lower.Int32: Int32, lower.Bool: Bool}

// tensor adds a tensor.
func (c *converter) tensor(name string, t Type, shape []int) int {
	c.m.Tensors = append(c.m.Tensors, Tensor{Name: name, Type: t, Shape: shape})
	return len(c.m.Tensors) - 1
}

func (c *converter) put(v *lower.Value, l layout, t int) {
	p := c.at[v]
	if p == nil {
		p = &[2]int{-1, -1}
		c.at[v] = p
	}
	p[l] = t
}

// get returns the tensor of a value in a layout.
func (c *converter) get(v *lower.Value, l layout) int {
	p := c.at[v]
	if p == nil {
		c.put(v, plain, c.constant(v))
		p = c.at[v]
	}
	if p[l] < 0 {
		to, shape := last(len(v.Shape)), permuted(v.Shape, last(len(v.Shape)))
		if l == plain {
			to, shape = first(len(v.Shape)), v.Shape
		}
		p[l] = c.op(Transpose, fmt.Sprintf("%s.layout%d", v.Name, l), v.Type, shape, []int{p[1-l], c.ints(to...)})
	}
	return p[l]
}

// prefers returns the layout in which a value exists.
func (c *converter) prefers(v *lower.Value) layout {
	if p := c.at[v]; p != nil && p[plain] < 0 {
		return channelsLast
	}
	return plain
}

// last returns the permutation to channels at the end; first is its inverse.
func last(rank int) []int {
	perm := []int{0}
	for i := 2; i < rank; i++ {
		perm = append(perm, i)
	}
	return append(perm, 1)
}

func first(rank int) []int {
	perm := []int{0, rank - 1}
	for i := 1; i < rank-1; i++ {
		perm = append(perm, i)
	}
	return perm
}

func permuted(shape, perm []int) []int {
	out := make([]int, len(perm))
	for i, p := range perm {
		out[i] = shape[p]
	}
	return out
}

// op adds an operator with one result and returns it.
func (c *converter) op(code Code, name string, e lower.Element, shape []int, in []int, options ...Option) int {
	return c.versioned(code, 1, name, elements[e], shape, in, options...)
}

func (c *converter) versioned(code Code, version int, name string, t Type, shape []int, in []int, options ...Option) int {
	out := c.tensor(name, t, shape)
	c.m.Operators = append(c.m.Operators, Operator{Code: code, Version: version, Inputs: in, Outputs: []int{out}, Options: options})
	return out
}

// constant adds a constant as it is.
func (c *converter) constant(v *lower.Value) int {
	t := c.tensor(v.Name, elements[v.Type], v.Shape)
	data := []byte{}
	switch {
	case v.Const == nil:
		panic("tflite: value " + v.Name + " is used before it is computed")
	case v.Type == lower.Float32:
		data = export.Float32s(v.Const.Floats)
	case v.Type == lower.Bool:
		for _, i := range v.Const.Ints {
			data = append(data, byte(i))
		}
	default:
		for _, i := range v.Const.Ints {
			data = binary.LittleEndian.AppendUint32(data, uint32(int32(max(math.MinInt32, min(math.MaxInt32, i)))))
		}
	}
	c.m.Tensors[t].Data = data
	return t
}

// ints and floats add constants.
func (c *converter) ints(x ...int) int {
	t := c.tensor(fmt.Sprintf("const.%d", len(c.m.Tensors)), Int32, []int{len(x)})
	data := make([]byte, 0, 4*len(x))
	for _, v := range x {
		data = binary.LittleEndian.AppendUint32(data, uint32(int32(v)))
	}
	c.m.Tensors[t].Data = data
	return t
}

func (c *converter) floats(shape []int, x ...float32) int {
	t := c.tensor(fmt.Sprintf("const.%d", len(c.m.Tensors)), Float32, shape)
	c.m.Tensors[t].Data = export.Float32s(x)
	return t
}

// minWeights is the number of elements from which a constant is narrowed.
const minWeights = 64

// weights adds the weights of an operator in the precision. Scales are along an
// axis; direct reports that the operator takes integers.
func (c *converter) weights(name string, x []float32, shape []int, axis int, direct bool) (int, error) {
	if c.precision == fp32 || len(x) < minWeights {
		t := c.floats(shape, x...)
		c.m.Tensors[t].Name = name
		return t, nil
	}
	if c.precision == fp16 {
		data, ok := export.Float16s(x)
		if !ok {
			return 0, fmt.Errorf("weights %s exceed the range of 16-bit floats", name)
		}
		t := c.tensor(name, Float16, shape)
		c.m.Tensors[t].Data = data
		return c.versioned(Dequantize, 3, name+".float", Float32, shape, []int{t}), nil
	}
	data, scales := export.Int8s(x, shape, axis)
	t := c.tensor(name, Int8, shape)
	c.m.Tensors[t].Data, c.m.Tensors[t].Scales, c.m.Tensors[t].Axis = data, scales, axis
	if direct {
		return t, nil
	}
	return c.versioned(Dequantize, 5, name+".float", Float32, shape, []int{t}), nil
}
