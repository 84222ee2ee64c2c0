package coreml

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/onnx/lower"
)

// unary are the operations of one operand.
var unary = map[lower.Op]string{
	lower.Abs: "abs", lower.Exp: "exp", lower.Sqrt: "sqrt", lower.Erf: "erf", lower.Sin: "sin", lower.Cos: "cos", lower.Floor: "floor", lower.Ceil: "ceil",
	lower.Round: "round", lower.Relu: "relu", lower.Sigmoid: "sigmoid", lower.Tanh: "tanh", lower.Softplus: "softplus", lower.Not: "logical_not",
}

// pairs are those of two operands.
var pairs = map[lower.Op]string{
	lower.Add: "add", lower.Sub: "sub", lower.Mul: "mul", lower.Div: "real_div", lower.Pow: "pow", lower.Min: "minimum", lower.Max: "maximum",
	lower.Equal: "equal", lower.Less: "less", lower.Greater: "greater", lower.And: "logical_and", lower.Or: "logical_or",
}

var reductions = map[lower.Op]string{lower.ReduceMean: "reduce_mean", lower.ReduceSum: "reduce_sum", lower.ReduceMax: "reduce_max", lower.ReduceMin: "reduce_min"}

// x binds the operand x.
func x(name string) Input { return Input{"x", []string{name}} }

// result is the type of a node's result.
func (c *converter) result(n *lower.Node) Type {
	return Type{c.element(n.Out.Type), n.Out.Shape}
}

// node writes a node and returns the name of its result.
func (c *converter) node(n *lower.Node) (string, error) {
	name, t := n.Out.Name, c.result(n)
	for _, v := range n.In {
		if _, ok := c.at[v]; !ok && v.Const == nil {
			return "", fmt.Errorf("%s was not written", v.Name)
		}
	}
	if kind, ok := unary[n.Op]; ok {
		return c.op(kind, name, t, x(c.get(n.In[0]))), nil
	}
	if kind, ok := pairs[n.Op]; ok {
		if n.Op == lower.Div && n.Out.Type != lower.Float32 {
			kind = "floor_div"
		}
		return c.op(kind, name, t, x(c.get(n.In[0])), Input{"y", []string{c.get(n.In[1])}}), nil
	}
	if kind, ok := reductions[n.Op]; ok {
		return c.op(kind, name, t, x(c.get(n.In[0])), c.counts("axes", n.Axes...), c.flag("keep_dims", n.Keep)), nil
	}
	switch n.Op {
	case lower.Conv, lower.ConvTranspose:
		return c.conv(n)
	case lower.MaxPool, lower.AvgPool:
		return c.pool(n)
	case lower.MatMul:
		return c.matMul(n)
	case lower.LayerNorm:
		return c.layerNorm(n)
	case lower.RMSNorm:
		return c.rmsNorm(n), nil
	case lower.Resize:
		return c.resize(n)
	case lower.Pad:
		return c.pad(n)
	}
	if out, ok := c.activation(n); ok {
		return out, nil
	}
	return c.shaped(n)
}

// activation writes functions with parameters.
func (c *converter) activation(n *lower.Node) (string, bool) {
	name, t := n.Out.Name, c.result(n)
	in := func() Input { return x(c.get(n.In[0])) }
	switch n.Op {
	case lower.Neg:
		y := Input{"y", []string{c.floats("y", nil, -1)}}
		if n.Out.Type != lower.Float32 {
			y = c.count("y", -1)
		}
		return c.op("mul", name, t, in(), y), true
	case lower.Log:
		return c.op("log", name, t, in(), c.number("epsilon", 1e-45)), true
	case lower.Reciprocal:
		return c.op("real_div", name, t, c.number("x", 1), Input{"y", []string{c.get(n.In[0])}}), true
	case lower.Gelu:
		mode := map[string]string{"none": "EXACT", "tanh": "TANH_APPROXIMATION"}[n.Mode]
		return c.op("gelu", name, t, in(), c.text("mode", mode)), true
	case lower.LeakyRelu:
		return c.op("leaky_relu", name, t, in(), c.number("alpha", n.Alpha)), true
	case lower.Elu:
		return c.op("elu", name, t, in(), c.number("alpha", n.Alpha)), true
	case lower.HardSigmoid:
		return c.op("sigmoid_hard", name, t, in(), c.number("alpha", n.Alpha), c.number("beta", n.Beta)), true
	case lower.HardSwish:
		gate := c.op("sigmoid_hard", name+"_gate", t, in(), c.number("alpha", 1.0/6), c.number("beta", 0.5))
		return c.op("mul", name, t, in(), Input{"y", []string{gate}}), true
	case lower.Clip:
		if n.Low == 0 && math.IsInf(float64(n.High), 1) {
			return c.op("relu", name, t, in()), true
		}
		low, high := max(n.Low, -math.MaxFloat32), min(n.High, math.MaxFloat32)
		return c.op("clip", name, t, in(), c.number("alpha", low), c.number("beta", high)), true
	case lower.Softmax:
		return c.op("softmax", name, t, in(), c.count("axis", n.Axis)), true
	case lower.Cast:
		if c.element(n.In[0].Type) == t.DType {
			return c.get(n.In[0]), true
		}
		return c.op("cast", name, t, in(), c.text("dtype", t.DType.name())), true
	}
	return "", false
}

// pads interleaves the pads before and after each dimension.
func pads(before, after []int) ([]int, error) {
	var out []int
	for i := range before {
		if before[i] < 0 || after[i] < 0 {
			return nil, fmt.Errorf("negative pads %v, %v", before, after)
		}
		out = append(out, before[i], after[i])
	}
	return out, nil
}

func (c *converter) conv(n *lower.Node) (string, error) {
	pad, err := pads(n.Before, n.After)
	if err != nil {
		return "", err
	}
	if n.In[1].Const == nil || len(n.In) > 2 && n.In[2].Const == nil {
		return "", fmt.Errorf("weights are not constant")
	}
	axis := 0
	if n.Op == lower.ConvTranspose {
		axis = 1
	}
	w := n.In[1]
	in := []Input{x(c.get(n.In[0])), {"weight", []string{c.weights(w.Name, w.Const.Floats, w.Shape, axis)}}, c.counts("strides", n.Strides...), c.text("pad_type", "custom"),
		c.counts("pad", pad...), c.counts("dilations", n.Dilations...), c.count("groups", n.Groups)}
	if len(n.In) > 2 {
		in = append(in, Input{"bias", []string{c.get(n.In[2])}})
	}
	if n.Op == lower.ConvTranspose {
		return c.op("conv_transpose", n.Out.Name, c.result(n), append(in, c.counts("output_shape", n.Out.Shape...))...), nil
	}
	return c.op("conv", n.Out.Name, c.result(n), in...), nil
}

func (c *converter) pool(n *lower.Node) (string, error) {
	pad, err := pads(n.Before, n.After)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(n.Dilations, func(d int) bool { return d != 1 }) {
		return "", fmt.Errorf("dilations %v", n.Dilations)
	}
	kind, in := "max_pool", []Input{x(c.get(n.In[0])), c.counts("kernel_sizes", n.Kernel...), c.counts("strides", n.Strides...), c.text("pad_type", "custom"), c.counts("pad", pad...), c.flag("ceil_mode", false)}
	if n.Op == lower.AvgPool {
		kind, in = "avg_pool", append(in, c.flag("exclude_padding_from_average", !n.Counted))
	}
	return c.op(kind, n.Out.Name, c.result(n), in...), nil
}

// matMul writes a product: with a constant matrix as a layer.
func (c *converter) matMul(n *lower.Node) (string, error) {
	a, b := n.In[0], n.In[1]
	if len(a.Shape) < 2 || len(b.Shape) < 2 {
		return "", fmt.Errorf("product of a vector, shapes %v and %v", a.Shape, b.Shape)
	}
	if b.Const != nil && len(b.Shape) == 2 && len(a.Shape) <= 3 {
		if w, ok := c.nibbles(n); ok {
			return c.op("linear", n.Out.Name, c.result(n), x(c.get(a)), Input{"weight", []string{w}}), nil
		}
		w, shape := b.Const.Floats, b.Shape
		if !n.TransposeB {
			w, shape = swapped(w, shape)
		}
		return c.op("linear", n.Out.Name, c.result(n), x(c.get(a)), Input{"weight", []string{c.weights(b.Name, w, shape, 0)}}), nil
	}
	y := ""
	if b.Const != nil && len(b.Shape) == 2 {
		axis := 1
		if n.TransposeB {
			axis = 0
		}
		y = c.weights(b.Name, b.Const.Floats, b.Shape, axis)
	} else {
		y = c.get(b)
	}
	return c.op("matmul", n.Out.Name, c.result(n), x(c.get(a)), Input{"y", []string{y}}, c.flag("transpose_x", false), c.flag("transpose_y", n.TransposeB)), nil
}

// swapped transposes a matrix.
func swapped(m []float32, shape []int) ([]float32, []int) {
	rows, columns := shape[0], shape[1]
	out := make([]float32, len(m))
	for i := range rows {
		for j := range columns {
			out[j*rows+i] = m[i*columns+j]
		}
	}
	return out, []int{columns, rows}
}

func (c *converter) layerNorm(n *lower.Node) (string, error) {
	shape := n.In[0].Shape[n.Axis:]
	in := []Input{x(c.get(n.In[0]))}
	for i, name := range []string{"gamma", "beta"} {
		if i+1 >= len(n.In) {
			break
		}
		v := n.In[i+1]
		if v.Const == nil || v.Size() != (&lower.Value{Shape: shape}).Size() {
			return "", fmt.Errorf("%s of shape %v is not a constant of %v", name, v.Shape, shape)
		}
		in = append(in, Input{name, []string{c.floats(v.Name, shape, v.Const.Floats...)}})
	}
	var axes []int
	for i := range shape {
		axes = append(axes, n.Axis+i)
	}
	return c.op("layer_norm", n.Out.Name, c.result(n), append(in, c.counts("axes", axes...), c.number("epsilon", n.Epsilon))...), nil
}

// rmsNorm writes RMSNorm by its parts.
func (c *converter) rmsNorm(n *lower.Node) string {
	t, reduced := c.result(n), c.result(n)
	reduced.Shape = slices.Clone(t.Shape)
	reduced.Shape[n.Axis] = 1
	name, in := n.Out.Name, c.get(n.In[0])
	y := func(v string) Input { return Input{"y", []string{v}} }
	v := c.op("mul", name+"_square", t, x(in), y(in))
	v = c.op("reduce_mean", name+"_mean", reduced, x(v), c.counts("axes", n.Axis), c.flag("keep_dims", true))
	v = c.op("add", name+"_more", reduced, x(v), y(c.floats("epsilon", nil, n.Epsilon)))
	v = c.op("sqrt", name+"_root", reduced, x(v))
	v = c.op("real_div", name+"_unit", t, x(in), y(v))
	return c.op("mul", name, t, x(v), y(c.get(n.In[1])))
}

// resize writes Resize of rows and columns by whole factors or bilinear ones.
func (c *converter) resize(n *lower.Node) (string, error) {
	corner, nearest, _ := strings.Cut(n.Corner, " ")
	in, out := n.In[0].Shape, n.Out.Shape
	multiple := out[2]%in[2] == 0 && out[3]%in[3] == 0
	if corner == "pytorch_half_pixel" && out[2] > 1 && out[3] > 1 {
		corner = "half_pixel"
	}
	high, wide := float32(out[2])/float32(in[2]), float32(out[3])/float32(in[3])
	// Factors are 32-bit floats in every precision.
	factor := func(name string, v float32) Input {
		return Input{name, []string{c.constant(name, Const{Type: Type{DType: Float32}, Floats: []float32{v}})}}
	}
	switch {
	case n.Mode == "nearest" && multiple && (corner == "half_pixel" || corner == "asymmetric" && nearest == "floor"):
		return c.op("upsample_nearest_neighbor", n.Out.Name, c.result(n), x(c.get(n.In[0])), factor("scale_factor_height", high), factor("scale_factor_width", wide)), nil
	case n.Mode == "linear" && multiple && (corner == "half_pixel" || corner == "align_corners" || corner == "asymmetric"):
		return c.op("upsample_bilinear", n.Out.Name, c.result(n), x(c.get(n.In[0])), factor("scale_factor_height", high), factor("scale_factor_width", wide),
			c.flag("align_corners", corner == "align_corners"), c.flag("half_pixel_centers", corner == "half_pixel")), nil
	}
	return "", fmt.Errorf("mode %s with %s from %v to %v", n.Mode, n.Corner, in, out)
}

func (c *converter) pad(n *lower.Node) (string, error) {
	all, err := pads(n.Before, n.After)
	if err != nil {
		return "", err
	}
	mode, ok := map[string]string{"constant": "constant", "reflect": "reflect", "edge": "replicate"}[n.Mode]
	if first := slices.IndexFunc(all, func(p int) bool { return p != 0 }); !ok || mode != "constant" && first >= 0 && first/2 < len(n.Before)-2 {
		return "", fmt.Errorf("mode %q with pads %v, %v", n.Mode, n.Before, n.After)
	}
	if mode != "constant" {
		all = all[max(0, len(all)-4):]
	}
	return c.op("pad", n.Out.Name, c.result(n), x(c.get(n.In[0])), c.counts("pad", all...), c.text("mode", mode), c.number("constant_val", n.Low)), nil
}

// shaped writes the operators on shapes.
func (c *converter) shaped(n *lower.Node) (string, error) {
	name, t := n.Out.Name, c.result(n)
	switch n.Op {
	case lower.Reshape:
		if slices.Equal(n.In[0].Shape, n.Out.Shape) {
			return c.get(n.In[0]), nil
		}
		return c.op("reshape", name, t, x(c.get(n.In[0])), c.counts("shape", n.Out.Shape...)), nil
	case lower.Transpose:
		return c.op("transpose", name, t, x(c.get(n.In[0])), c.counts("perm", n.Perm...)), nil
	case lower.Concat:
		var values []string
		for _, v := range n.In {
			values = append(values, c.get(v))
		}
		return c.op("concat", name, t, Input{"values", values}, c.count("axis", n.Axis), c.flag("interleave", false)), nil
	case lower.Slice:
		return c.slice(n), nil
	case lower.Gather:
		return c.gather(n), nil
	case lower.Tile:
		var reps []int
		for i, d := range n.Out.Shape {
			reps = append(reps, d/n.In[0].Shape[i])
		}
		return c.op("tile", name, t, x(c.get(n.In[0])), c.counts("reps", reps...)), nil
	case lower.Where:
		return c.op("select", name, t, Input{"cond", []string{c.full(n.In[0], n.Out.Shape)}}, Input{"a", []string{c.full(n.In[1], n.Out.Shape)}}, Input{"b", []string{c.full(n.In[2], n.Out.Shape)}}), nil
	}
	return "", fmt.Errorf("unsupported operator")
}

// full returns a value in the shape that it is broadcast to, which select does not
// do.
func (c *converter) full(v *lower.Value, shape []int) string {
	if slices.Equal(v.Shape, shape) {
		return c.get(v)
	}
	n, t := (&lower.Value{Shape: shape}).Size(), Type{c.element(v.Type), shape}
	kind, zero := "add", ""
	switch v.Type {
	case lower.Float32:
		zero = c.floats("zeros", shape, make([]float32, n)...)
	case lower.Bool:
		kind, zero = "logical_or", c.constant("zeros", Const{Type: t, Bools: make([]bool, n)})
	default:
		zero = c.constant("zeros", Const{Type: t, Ints: make([]int32, n)})
	}
	return c.op(kind, v.Name+"_full", t, x(c.get(v)), Input{"y", []string{zero}})
}

func (c *converter) slice(n *lower.Node) string {
	ends, masks := make([]int, len(n.Starts)), make([]bool, len(n.Starts))
	for i, from := range n.Starts {
		ends[i] = from + n.Out.Shape[i]*n.Steps[i]
		if ends[i] < 0 {
			ends[i], masks[i] = 0, true
		}
		ends[i] = min(ends[i], n.In[0].Shape[i])
	}
	none := make([]bool, len(masks))
	return c.op("slice_by_index", n.Out.Name, c.result(n), x(c.get(n.In[0])), c.counts("begin", n.Starts...), c.counts("end", ends...), c.counts("stride", n.Steps...),
		c.flags("begin_mask", none), c.flags("end_mask", masks), c.flags("squeeze_mask", none))
}

func (c *converter) gather(n *lower.Node) string {
	data := ""
	if v := n.In[0]; v.Const != nil && v.Type == lower.Float32 && n.Axis == 0 && len(v.Shape) == 2 {
		data = c.weights(v.Name, v.Const.Floats, v.Shape, 0)
	} else {
		data = c.get(v)
	}
	t := c.result(n)
	if n.Out.Type == lower.Bool { // which gather does not take
		data, t.DType = c.cast(data, Type{Int32, n.In[0].Shape}), Int32
	}
	out := c.op("gather", n.Out.Name, t, x(data), Input{"indices", []string{c.get(n.In[1])}}, c.count("axis", n.Axis))
	if n.Out.Type == lower.Bool {
		return c.cast(out, c.result(n))
	}
	return out
}
