package executorch

import (
	"encoding/binary"
	"fmt"
	"slices"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/onnx/lower"
)

// converter writes the nodes of a graph as calls.
type converter struct {
	p         *Program
	m         *Method
	precision string
	at        map[*lower.Value]int
	scalars   map[any]int
	wide      map[*lower.Value]int // widened weights
}

// convert adds a graph to the program as a method. The problems are the nodes that
// cannot be written.
func (p *Program) convert(g *lower.Graph, name, precision string) (problems []lower.Problem) {
	c := &converter{p: p, m: &Method{Name: name}, precision: precision, at: map[*lower.Value]int{}, scalars: map[any]int{}, wide: map[*lower.Value]int{}}
	for _, v := range g.Inputs {
		c.at[v] = c.tensor(elements[v.Type], v.Shape)
		c.m.Inputs = append(c.m.Inputs, c.at[v])
	}
	problems = c.nodes(g)
	if len(problems) > 0 {
		return problems
	}
	for _, v := range g.Outputs {
		c.m.Outputs = append(c.m.Outputs, c.output(v))
	}
	c.m.plan()
	p.Methods = append(p.Methods, c.m)
	return nil
}

// nodes writes the nodes of a graph.
func (c *converter) nodes(g *lower.Graph) (problems []lower.Problem) {
	missing := map[*lower.Value]bool{}
	lost := func(n *lower.Node) bool {
		return slices.ContainsFunc(n.In, func(v *lower.Value) bool { return missing[v] })
	}
	for _, s := range c.stages(g.Nodes) {
		if len(problems) > 0 || !worth(s.region) {
			s.region, s.single = nil, slices.Concat(s.region, s.single)
		}
		if len(s.region) > 0 {
			c.delegate(s.region, needed(g, s.region))
		}
		for _, n := range s.single {
			if lost(n) {
				missing[n.Out] = true
				continue
			}
			if err := c.node(n); err != nil {
				problems = append(problems, lower.Problem{Node: n.Name, Op: string(n.Op), Reason: err.Error()})
				missing[n.Out] = true
			}
		}
	}
	return problems
}

// needed returns the values that nodes outside of a region read, and the outputs.
func needed(g *lower.Graph, region []*lower.Node) map[*lower.Value]bool {
	inside, out := map[*lower.Node]bool{}, map[*lower.Value]bool{}
	for _, n := range region {
		inside[n] = true
	}
	for _, v := range g.Outputs {
		out[v] = true
	}
	for _, n := range g.Nodes {
		for _, v := range n.In {
			out[v] = out[v] || !inside[n]
		}
	}
	return out
}

// elements are the types of a graph's elements.
var elements = [...]DType{lower.Float32: Float32, lower.Int64: Int64, lower.Int32: Int32, lower.Bool: Bool}

// output returns the tensor of an output: an input, a constant and another output
// are copied.
func (c *converter) output(v *lower.Value) int {
	at := c.get(v)
	t := c.m.Values[at].(*Tensor)
	shared := func(w int) bool { return c.m.Values[w].(*Tensor).storage == t.storage }
	if t.Constant >= 0 || slices.ContainsFunc(slices.Concat(c.m.Inputs, c.m.Outputs), shared) {
		return c.call("aten::clone.out", t.Type, t.Shape, at, c.none())
	}
	return at
}

// tensor adds a computed tensor.
func (c *converter) tensor(t DType, shape []int) int {
	v := &Tensor{Type: t, Shape: shape, Constant: -1}
	v.storage = &storage{size: max(arenaAlign, v.Bytes()), first: 1, last: 0}
	return c.m.add(v)
}

// alias adds a tensor of another shape with the contents of a value.
func (c *converter) alias(at int, shape []int) int {
	t := *c.m.Values[at].(*Tensor)
	t.Shape = shape
	return c.m.add(&t)
}

func (c *converter) constant(t DType, shape []int, data []byte) int {
	return c.m.add(&Tensor{Type: t, Shape: shape, Constant: c.p.constant(data)})
}

// number32s adds constant numbers, once.
func (c *converter) number32s(x []float32, shape []int) int {
	data := export.Float32s(x)
	key := fmt.Sprint("floats ", shape, c.p.constant(data))
	at, ok := c.scalars[key]
	if !ok {
		at = c.constant(Float32, shape, data)
		c.scalars[key] = at
	}
	return at
}

// get returns the tensor of a value.
func (c *converter) get(v *lower.Value) int {
	if at, ok := c.at[v]; ok {
		return at
	}
	if v.Const == nil {
		panic("executorch: value " + v.Name + " is used before it is computed")
	}
	c.at[v] = c.constant(elements[v.Type], v.Shape, contents(v))
	return c.at[v]
}

// contents returns the bytes of a constant.
func contents(v *lower.Value) (out []byte) {
	switch v.Type {
	case lower.Float32:
		return export.Float32s(v.Const.Floats)
	case lower.Bool:
		for _, i := range v.Const.Ints {
			out = append(out, byte(i))
		}
	case lower.Int32:
		for _, i := range v.Const.Ints {
			out = binary.LittleEndian.AppendUint32(out, uint32(int32(i)))
		}
	default:
		for _, i := range v.Const.Ints {
			out = binary.LittleEndian.AppendUint64(out, uint64(i))
		}
	}
	return out
}

// scalar adds a number, a flag or a text, once.
func (c *converter) scalar(v any) int {
	if at, ok := c.scalars[v]; ok {
		return at
	}
	c.scalars[v] = c.m.add(v)
	return c.scalars[v]
}

func (c *converter) none() int            { return c.scalar(nil) }
func (c *converter) flag(v bool) int      { return c.scalar(v) }
func (c *converter) count(v int) int      { return c.scalar(int64(v)) }
func (c *converter) number(v float64) int { return c.scalar(v) }

// counts adds a list of numbers.
func (c *converter) counts(list ...int) int {
	key := "list " + fmt.Sprint(list)
	at, ok := c.scalars[key]
	if !ok {
		items := Ints{}
		for _, v := range list {
			items = append(items, c.count(v))
		}
		at = c.m.add(items)
		c.scalars[key] = at
	}
	return at
}

// call adds a call with one result and returns that.
func (c *converter) call(operator string, t DType, shape []int, args ...int) int {
	out := c.tensor(t, shape)
	c.m.Calls = append(c.m.Calls, Call{Operator: c.m.operator(operator), Args: append(args, out, out)})
	return out
}

// calls adds a call with further results, which are not used.
func (c *converter) calls(operator string, t DType, shape []int, more []*Tensor, args ...int) int {
	out := Values{c.tensor(t, shape)}
	for _, v := range more {
		out = append(out, c.tensor(v.Type, v.Shape))
	}
	args = append(append(args, out...), c.m.add(out))
	c.m.Calls = append(c.m.Calls, Call{Operator: c.m.operator(operator), Args: args})
	return out[0]
}

// floats calls an operator whose result is float32.
func (c *converter) floats(operator string, shape []int, args ...int) int {
	return c.call(operator, Float32, shape, args...)
}

// cast converts a tensor.
func (c *converter) cast(at int, t DType, shape []int) int {
	return c.call("aten::_to_copy.out", t, shape, at, c.flag(false), c.none())
}
