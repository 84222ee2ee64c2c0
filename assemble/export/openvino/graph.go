package openvino

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/lower"
)

// graph adds the layers of a graph and returns the nodes that cannot be written.
func (w *writer) graph(g *lower.Graph) []lower.Problem {
	for _, v := range g.Inputs {
		w.at[v] = w.convert(w.parameter(v.Name, declared(v), v.Shape), elements[v.Type])
	}
	problems := w.nodes(g)
	for _, v := range g.Outputs {
		w.output(v)
	}
	return problems
}

// parameter adds an input.
func (w *writer) parameter(name string, e elem, shape []int) *result {
	w.node = name
	r := w.add("Parameter", "opset1", e, shape, nil, "shape", open(shape), "element_type", string(e))
	r.names = name
	return r
}

// nodes adds the layers of the nodes and returns those that cannot be written.
func (w *writer) nodes(g *lower.Graph) (problems []lower.Problem) {
	for _, n := range g.Nodes {
		w.node = n.Name
		r, err := w.write(n)
		if err != nil {
			problems = append(problems, lower.Problem{Node: n.Name, Op: string(n.Op), Reason: err.Error()})
			r = &result{elem: elements[n.Out.Type], shape: n.Out.Shape} // later nodes are checked, too
		}
		if err == nil && !equal(r.shape, n.Out.Shape) {
			panic(fmt.Sprintf("node %q (%s): got shape %v, want %v", n.Name, n.Op, r.shape, n.Out.Shape))
		}
		w.at[n.Out] = r
	}
	return problems
}

// output adds an output.
func (w *writer) output(v *lower.Value) {
	w.node = v.Name
	r := w.convert(w.value(v), declared(v))
	if r.names == "" {
		r.names = v.Name
	} else if r.names != v.Name { // a tensor has one name for callers
		r = w.reshape(r, v.Shape)
		r.names = v.Name
	}
	w.node = v.Name + ".result"
	w.add("Result", "opset1", r.elem, r.shape, []*result{r})
}

// narrow are the types of inputs and outputs that the graph widens.
var narrow = map[onnx.DType]elem{onnx.FLOAT16: f16, onnx.BFLOAT16: "bf16", onnx.INT8: i8, onnx.UINT8: "u8", onnx.INT16: "i16", onnx.UINT16: "u16"}

// declared returns the type of an input or output in the model.
func declared(v *lower.Value) elem {
	if e, ok := narrow[v.Declared]; ok {
		return e
	}
	return elements[v.Type]
}

func (w *writer) convert(r *result, e elem) *result {
	if r.elem == e {
		return r
	}
	return w.add("Convert", "opset1", e, r.shape, []*result{r}, "destination_type", string(e))
}

// value returns the result that holds a value.
func (w *writer) value(v *lower.Value) *result {
	if w.at[v] == nil {
		w.at[v] = w.constant(v)
	}
	return w.at[v]
}

func (w *writer) values(list []*lower.Value) []*result {
	out := make([]*result, len(list))
	for i, v := range list {
		out[i] = w.value(v)
	}
	return out
}

// reshape adds a reshape. An open dimension is that of the operand at its place (0),
// or follows from the others (-1).
func (w *writer) reshape(r *result, shape []int) *result {
	to, special := slices.Clone(shape), "false"
	for i, d := range shape {
		if d >= 0 {
			continue
		}
		if to[i] = -1; i < len(r.shape) && r.shape[i] == d {
			to[i], special = 0, "true"
		}
	}
	return w.add("Reshape", "opset1", r.elem, shape, []*result{r, w.ints(to...)}, "special_zero", special)
}

// both adds an operator of two operands.
func (w *writer) both(kind string, e elem, a, b *result) *result {
	data := []string{"auto_broadcast", "numpy"}
	if kind == "Divide" {
		data = append(data, "m_pythondiv", "false") // ONNX truncates quotients of integers
	}
	return w.add(kind, "opset1", e, broadcast(a.shape, b.shape), []*result{a, b}, data...)
}

// broadcast returns the shape of a result of two operands.
func broadcast(a, b []int) []int {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	for i, d := range b {
		if at := len(a) - len(b) + i; out[at] == 1 {
			out[at] = d
		}
	}
	return out
}

func equal(a, b []int) bool { return slices.Equal(a, b) }

// binaries and unaries are operators that differ by name only.
var (
	binaries = map[lower.Op]string{
		lower.Add: "Add", lower.Sub: "Subtract", lower.Mul: "Multiply", lower.Div: "Divide", lower.Pow: "Power", lower.Min: "Minimum", lower.Max: "Maximum",
		lower.Equal: "Equal", lower.Less: "Less", lower.Greater: "Greater", lower.And: "LogicalAnd", lower.Or: "LogicalOr",
	}
	unaries = map[lower.Op][2]string{
		lower.Abs: {"Abs", "opset1"}, lower.Neg: {"Negative", "opset1"}, lower.Exp: {"Exp", "opset1"}, lower.Log: {"Log", "opset1"}, lower.Sqrt: {"Sqrt", "opset1"}, lower.Erf: {"Erf", "opset1"},
		lower.Sin: {"Sin", "opset1"}, lower.Cos: {"Cos", "opset1"}, lower.Floor: {"Floor", "opset1"}, lower.Ceil: {"Ceiling", "opset1"}, lower.Not: {"LogicalNot", "opset1"},
		lower.Relu: {"ReLU", "opset1"}, lower.Sigmoid: {"Sigmoid", "opset1"}, lower.Tanh: {"Tanh", "opset1"}, lower.HardSwish: {"HSwish", "opset4"}, lower.Softplus: {"SoftPlus", "opset4"},
	}
	reductions = map[lower.Op]string{lower.ReduceMean: "ReduceMean", lower.ReduceSum: "ReduceSum", lower.ReduceMax: "ReduceMax", lower.ReduceMin: "ReduceMin"}
)

// fixed are the operators that are written by their sizes.
var fixed = []lower.Op{
	lower.Conv, lower.ConvTranspose, lower.MaxPool, lower.AvgPool, lower.Tile, lower.Pad, lower.Resize, lower.Slice,
}

// opened returns an error if a node needs a size that is open. A slice needs those it
// changes.
func opened(n *lower.Node) error {
	if !slices.Contains(fixed, n.Op) {
		return nil
	}
	for i, d := range n.Out.Shape {
		if d < 0 && (n.Op != lower.Slice || n.In[0].Shape[i] != d || n.Starts[i] != 0 || n.Steps[i] != 1) {
			return fmt.Errorf("open dimension %d", i)
		}
	}
	return nil
}

// write adds the layers of a node.
func (w *writer) write(n *lower.Node) (*result, error) {
	if err := opened(n); err != nil {
		return nil, err
	}
	e, shape := elements[n.Out.Type], n.Out.Shape
	if kind, ok := binaries[n.Op]; ok {
		return w.both(kind, e, w.value(n.In[0]), w.value(n.In[1])), nil
	}
	if kind, ok := unaries[n.Op]; ok {
		return w.add(kind[0], kind[1], e, shape, []*result{w.value(n.In[0])}), nil
	}
	if kind, ok := reductions[n.Op]; ok {
		return w.add(kind, "opset1", e, shape, []*result{w.value(n.In[0]), w.ints(n.Axes...)}, "keep_dims", fmt.Sprint(n.Keep)), nil
	}
	switch n.Op {
	case lower.Conv, lower.ConvTranspose:
		return w.conv(n)
	case lower.MaxPool, lower.AvgPool:
		return w.pool(n), nil
	case lower.MatMul:
		return w.matMul(n), nil
	case attention:
		return w.attended(n), nil
	case lower.LayerNorm:
		return w.layerNorm(n), nil
	case lower.RMSNorm:
		return w.rmsNorm(n), nil
	case lower.Gather:
		return w.add("Gather", "opset8", e, shape, []*result{w.weight(n, n.In[0], n.In[0].Shape), w.value(n.In[1]), w.integer(n.Axis)}, "batch_dims", "0"), nil
	}
	if r := w.activation(n, w.value(n.In[0])); r != nil {
		return r, nil
	}
	return w.shaped(n, w.value(n.In[0]))
}

// activation adds a function of single elements; nil for other operators.
func (w *writer) activation(n *lower.Node, x *result) *result {
	e := elements[n.Out.Type]
	one := func(kind, opset string, data ...string) *result {
		return w.add(kind, opset, e, x.shape, []*result{x}, data...)
	}
	switch n.Op {
	case lower.Gelu:
		return one("Gelu", "opset7", "approximation_mode", map[bool]string{true: "TANH", false: "ERF"}[n.Mode == "tanh"])
	case lower.Round:
		return one("Round", "opset5", "mode", "half_to_even")
	case lower.Reciprocal:
		return w.both("Divide", e, w.number(1), x)
	case lower.Elu:
		return one("Elu", "opset1", "alpha", attribute(n.Alpha))
	case lower.LeakyRelu:
		return w.add("PReLU", "opset1", e, x.shape, []*result{x, w.raw(f32, []int{1}, float(n.Alpha))})
	case lower.HardSigmoid:
		return w.add("HardSigmoid", "opset1", e, x.shape, []*result{x, w.number(n.Alpha), w.number(n.Beta)})
	case lower.Cast:
		return one("Convert", "opset1", "destination_type", string(e))
	case lower.Softmax:
		return one("SoftMax", "opset8", "axis", fmt.Sprint(n.Axis))
	case lower.Clip:
		return w.clip(n, x)
	case lower.Where:
		a, b := w.value(n.In[1]), w.value(n.In[2])
		return w.add("Select", "opset1", e, n.Out.Shape, []*result{x, a, b}, "auto_broadcast", "numpy")
	}
	return nil
}

// clip writes a limit on one side as a minimum or maximum.
func (w *writer) clip(n *lower.Node, x *result) *result {
	low, high := !math.IsInf(float64(n.Low), -1), !math.IsInf(float64(n.High), 1)
	switch {
	case low && high && n.Low <= n.High:
		return w.add("Clamp", "opset1", x.elem, x.shape, []*result{x}, "min", attribute(n.Low), "max", attribute(n.High))
	case !low && !high:
		return w.reshape(x, x.shape)
	}
	if low {
		x = w.both("Maximum", x.elem, x, w.number(n.Low))
	}
	if high {
		x = w.both("Minimum", x.elem, x, w.number(n.High))
	}
	return x
}

// matMul writes a product; four-bit weights are outputs × inputs.
func (w *writer) matMul(n *lower.Node) *result {
	a, b, transposed := w.value(n.In[0]), w.grouped(n), true
	if b == nil {
		b, transposed = w.weight(n, n.In[1], n.In[1].Shape), n.TransposeB
	}
	return w.add("MatMul", "opset1", f32, n.Out.Shape, []*result{a, b}, "transpose_a", "false", "transpose_b", fmt.Sprint(transposed))
}

// layerNorm writes a normalization, a gain and a bias.
func (w *writer) layerNorm(n *lower.Node) *result {
	x := w.value(n.In[0])
	var axes []int
	for i := n.Axis; i < len(x.shape); i++ {
		axes = append(axes, i)
	}
	r := w.add("MVN", "opset6", f32, x.shape, []*result{x, w.ints(axes...)}, "eps", attribute(n.Epsilon), "normalize_variance", "true", "eps_mode", "INSIDE_SQRT")
	r = w.both("Multiply", f32, r, w.value(n.In[1]))
	if len(n.In) > 2 {
		r = w.both("Add", f32, r, w.value(n.In[2]))
	}
	return r
}

// rmsNorm writes x / √(mean x² + ε) · gain.
func (w *writer) rmsNorm(n *lower.Node) *result {
	x := w.value(n.In[0])
	reduced := slices.Clone(x.shape)
	reduced[len(reduced)-1] = 1
	square := w.both("Power", f32, x, w.number(2))
	mean := w.add("ReduceMean", "opset1", f32, reduced, []*result{square, w.ints(len(x.shape) - 1)}, "keep_dims", "true")
	root := w.add("Sqrt", "opset1", f32, reduced, []*result{w.both("Add", f32, mean, w.number(n.Epsilon))})
	return w.both("Multiply", f32, w.both("Divide", f32, x, root), w.value(n.In[1]))
}
