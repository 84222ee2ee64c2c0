package coreml

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/onnx/lower"
)

// The precisions of weights. Except with fp32, values are 16-bit floats. Int4 has
// groups of 32 inputs for linear layers, and eight bits elsewhere.
const (
	fp32  = "fp32"
	fp16  = "fp16"
	int8s = "int8"
	int4s = "int4"
)

// converter writes the nodes of a graph.
type converter struct {
	f         Function
	w         *weights
	kept      map[string]string // inputs that are states, to the outputs that replace them
	precision string
	float     DType
	at        map[*lower.Value]string
	names     map[string]bool
	err       error // the first
}

// convert writes a graph as a function over weights. Inputs that are keys of kept are
// states, which the outputs under their names replace. The problems are the nodes that
// cannot be written.
func convert(w *weights, g *lower.Graph, name, precision string, kept map[string]string) (*Function, []lower.Problem, error) {
	c := &converter{f: Function{Name: name}, w: w, kept: kept, precision: precision, float: Float32, at: map[*lower.Value]string{}, names: map[string]bool{}}
	if precision != fp32 {
		c.float = Float16
	}
	c.ports(g)
	var problems []lower.Problem
	for _, n := range g.Nodes {
		out, err := c.node(n)
		if err == nil {
			err, c.err = c.err, nil
		}
		if err != nil {
			problems = append(problems, lower.Problem{Node: n.Name, Op: string(n.Op), Reason: err.Error()})
		}
		c.at[n.Out] = out
	}
	if len(problems) > 0 {
		return nil, problems, nil
	}
	for i, v := range c.outputs(g) {
		c.output(c.f.Outputs[i], v)
	}
	c.keep(g)
	return &c.f, nil, c.err
}

// outputs returns those outputs of the graph that do not replace a state.
func (c *converter) outputs(g *lower.Graph) []*lower.Value {
	return slices.DeleteFunc(slices.Clone(g.Outputs), func(v *lower.Value) bool {
		for _, out := range c.kept {
			if out == v.Name {
				return true
			}
		}
		return false
	})
}

// keep ends the function with the new contents of its states.
func (c *converter) keep(g *lower.Graph) {
	for _, state := range c.f.States {
		for _, v := range g.Outputs {
			if v.Name != c.kept[state.Name] {
				continue
			}
			x := c.get(v)
			if c.element(v.Type) != state.Type.DType {
				x = c.cast(x, state.Type)
			}
			c.f.Operations = append(c.f.Operations, Operation{
				Type: "write_state", Inputs: []Input{{"input", []string{state.Name}}, {"data", []string{x}}}, Output: Value{Name: c.unique(state.Name + "_write")},
			})
		}
	}
}

// ports declares the inputs and reserves the names of the outputs. Elements are
// 32-bit floats or integers.
func (c *converter) ports(g *lower.Graph) {
	port := func(v *lower.Value) Value {
		t := Type{Int32, v.Shape}
		if v.Type == lower.Float32 {
			t.DType = Float32
		}
		return Value{c.unique(v.Name), t}
	}
	for _, v := range g.Inputs {
		if c.kept[v.Name] != "" {
			c.state(v)
			continue
		}
		p := port(v)
		c.f.Inputs = append(c.f.Inputs, p)
		c.at[v] = p.Name
		if want := c.element(v.Type); want != p.Type.DType {
			c.at[v] = c.cast(p.Name, Type{want, v.Shape})
		}
	}
	for _, v := range c.outputs(g) {
		c.f.Outputs = append(c.f.Outputs, port(v))
	}
}

// state declares an input as a state, of 16-bit floats as all states, and reads it.
func (c *converter) state(v *lower.Value) {
	s := Value{c.unique(v.Name), Type{Float16, v.Shape}}
	c.f.States = append(c.f.States, s)
	c.at[v] = c.op("read_state", s.Name+"_read", s.Type, Input{"input", []string{s.Name}})
	if c.float != Float16 {
		c.at[v] = c.cast(c.at[v], Type{c.float, v.Shape})
	}
}

// output ends the program with a copy under the name of the output.
func (c *converter) output(p Value, v *lower.Value) {
	x := c.get(v)
	o := Operation{Type: "identity", Inputs: []Input{{"x", []string{x}}}, Output: p}
	if c.element(v.Type) != p.Type.DType {
		o.Type, o.Inputs = "cast", append(o.Inputs, c.text("dtype", p.Type.DType.name()))
	}
	c.f.Operations = append(c.f.Operations, o)
}

// element returns the type of elements.
func (c *converter) element(e lower.Element) DType {
	switch e {
	case lower.Float32:
		return c.float
	case lower.Bool:
		return Bool
	}
	return Int32
}

// unique returns a name for a value: letters, digits and underscores.
func (c *converter) unique(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, name)
	if clean == "" || clean[0] >= '0' && clean[0] <= '9' {
		clean = "_" + clean
	}
	out := clean
	for i := 1; c.names[out]; i++ {
		out = fmt.Sprintf("%s_%d", clean, i)
	}
	c.names[out] = true
	return out
}

// op adds an operation and returns the name of its result.
func (c *converter) op(kind, name string, t Type, in ...Input) string {
	v := Value{c.unique(name), t}
	c.f.Operations = append(c.f.Operations, Operation{Type: kind, Inputs: in, Output: v})
	return v.Name
}

func (c *converter) cast(x string, t Type) string {
	return c.op("cast", x+"_cast", t, Input{"x", []string{x}}, c.text("dtype", t.DType.name()))
}

// constant adds a constant under a name.
func (c *converter) constant(name string, k Const) string {
	v := Value{c.unique(name), k.Type}
	c.f.Operations = append(c.f.Operations, Operation{Type: "const", Attributes: []Attribute{{"val", k}}, Output: v})
	return v.Name
}

// text, flag, number, numbers, count and counts bind parameters to new constants.
func (c *converter) text(name, v string) Input {
	return Input{name, []string{c.constant(name, Const{Type: Type{DType: String}, Text: v})}}
}

func (c *converter) flag(name string, v bool) Input {
	return Input{name, []string{c.constant(name, Const{Type: Type{DType: Bool}, Bools: []bool{v}})}}
}

func (c *converter) number(name string, v float32) Input {
	return Input{name, []string{c.floats(name, nil, v)}}
}

func (c *converter) count(name string, v int) Input {
	return Input{name, []string{c.constant(name, Const{Type: Type{DType: Int32}, Ints: []int32{int32(v)}})}}
}

func (c *converter) counts(name string, v ...int) Input {
	return Input{name, []string{c.constant(name, Const{Type: Type{Int32, []int{len(v)}}, Ints: narrow(v)})}}
}

func narrow(v []int) []int32 {
	out := make([]int32, len(v))
	for i, x := range v {
		out[i] = int32(x)
	}
	return out
}

func (c *converter) flags(name string, v []bool) Input {
	return Input{name, []string{c.constant(name, Const{Type: Type{Bool, []int{len(v)}}, Bools: v})}}
}

// minBlob is the number of elements from which a constant is in the file of weights.
const minBlob = 16

// floats adds a constant of floats.
func (c *converter) floats(name string, shape []int, x ...float32) string {
	t := Type{c.float, shape}
	data := export.Float32s(x)
	if c.float == Float16 {
		half, ok := export.Float16s(x)
		if !ok {
			x, half = clamped(x), nil
			half, _ = export.Float16s(x)
		}
		data = half
	}
	switch {
	case len(x) >= minBlob:
		return c.constant(name, Const{Type: t, Blob: c.w.add(c.float, data)})
	case c.float == Float16:
		return c.constant(name, Const{Type: t, Bytes: data})
	}
	return c.constant(name, Const{Type: t, Floats: x})
}

// largestHalf is the largest 16-bit float.
const largestHalf = 65504

// clamped limits numbers to 16-bit floats: those beyond are masks.
func clamped(x []float32) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = max(-largestHalf, min(largestHalf, v))
	}
	return out
}

// unrounded adds weights as floats, which must be in their range.
func (c *converter) unrounded(name string, shape []int, x []float32) string {
	if _, ok := export.Float16s(x); !ok && c.float == Float16 {
		c.err = fmt.Errorf("weights %s exceed the range of 16-bit floats", name)
	}
	return c.floats(name, shape, x...)
}

// weights adds the weights of an operation in the precision, with a scale for each
// index along an axis.
func (c *converter) weights(name string, x []float32, shape []int, axis int) string {
	const minWeights = 64
	if c.precision != int8s && c.precision != int4s || len(x) < minWeights {
		return c.unrounded(name, shape, x)
	}
	data, scales := export.Int8s(x, shape, axis)
	half, ok := halves(scales)
	if !ok {
		return c.unrounded(name, shape, x)
	}
	out := Value{c.unique(name), Type{Float16, shape}}
	c.f.Operations = append(c.f.Operations, Operation{Type: "constexpr_affine_dequantize", Output: out, Attributes: []Attribute{
		{"quantized_data", Const{Type: Type{Int8, shape}, Blob: c.w.add(Int8, data)}},
		{"zero_point", Const{Type: Type{DType: Int8}, Bytes: []byte{0}}},
		{"scale", Const{Type: Type{Float16, []int{len(scales)}}, Blob: c.w.add(Float16, half)}},
		{"axis", Const{Type: Type{DType: Int32}, Ints: []int32{int32(axis)}}},
	}})
	return out.Name
}

// halves returns scales as 16-bit floats; ok is false if one is too small or too
// large.
func halves(scales []float32) (half []byte, ok bool) {
	half, ok = export.Float16s(scales)
	for i := range scales {
		ok = ok && binary.LittleEndian.Uint16(half[2*i:])&0x7fff >= 0x400 // not subnormal
	}
	return half, ok
}

// nibbles adds the weights of a linear layer in four bits, outputs × inputs; ok is
// false if they are not stored so.
func (c *converter) nibbles(n *lower.Node) (name string, ok bool) {
	if c.precision != int4s {
		return "", false
	}
	q, ok := export.Int4s(n)
	if !ok {
		return "", false
	}
	half, ok := halves(q.Scales)
	if !ok {
		return "", false
	}
	_, axis := export.Weights(n)
	rows, columns := n.In[1].Shape[axis], n.In[1].Shape[1-axis]
	out := Value{c.unique(n.In[1].Name), Type{Float16, []int{rows, columns}}}
	c.f.Operations = append(c.f.Operations, Operation{Type: "constexpr_blockwise_shift_scale", Output: out, Given: []Attribute{
		{"data", Const{Type: Type{Int4, []int{rows, columns}}, Blob: c.w.add(Int4, q.Data)}},
		{"scale", Const{Type: Type{Float16, []int{rows, columns / export.Int4Group}}, Blob: c.w.add(Float16, half)}},
	}})
	return out.Name, true
}

// get returns the name of a value, and adds a constant on its first use.
func (c *converter) get(v *lower.Value) string {
	if name, ok := c.at[v]; ok {
		return name
	}
	name := ""
	switch {
	case v.Type == lower.Float32:
		name = c.floats(v.Name, v.Shape, v.Const.Floats...)
	case v.Type == lower.Bool:
		flags := make([]bool, len(v.Const.Ints))
		for i, x := range v.Const.Ints {
			flags[i] = x != 0
		}
		name = c.constant(v.Name, Const{Type: Type{Bool, v.Shape}, Bools: flags})
	default:
		ints := make([]int32, len(v.Const.Ints))
		for i, x := range v.Const.Ints {
			ints[i] = int32(max(math.MinInt32, min(math.MaxInt32, x)))
		}
		name = c.constant(v.Name, Const{Type: Type{Int32, v.Shape}, Ints: ints})
	}
	c.at[v] = name
	return name
}
