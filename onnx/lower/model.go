package lower

import (
	"encoding/binary"
	"fmt"
	"math"

	"mm-abi.org/mm/onnx"
)

// opset of the models that [Graph.Model] returns.
const opset = 23

// dtypes are ONNX's types of elements.
var dtypes = [...]onnx.DType{Float32: onnx.FLOAT, Int64: onnx.INT64, Int32: onnx.INT32, Bool: onnx.BOOL}

// Model converts the graph to ONNX.
func (g *Graph) Model() *onnx.Model {
	w := &writer{m: onnx.New(g.Name, opset), named: map[*Value]bool{}}
	describe := func(v *Value) onnx.Value {
		dims := make([]any, len(v.Shape))
		for i, d := range v.Shape {
			dims[i] = d
		}
		return onnx.TensorValue(v.Name, dtypes[v.Type], dims...)
	}
	for _, v := range g.Inputs {
		w.m.Graph.Inputs = append(w.m.Graph.Inputs, describe(v))
	}
	for _, n := range g.Nodes {
		w.node(n)
	}
	for _, v := range g.Outputs {
		if v.Const != nil {
			w.name(v)
		}
		w.m.Graph.Outputs = append(w.m.Graph.Outputs, describe(v))
	}
	return w.m
}

type writer struct {
	m     *onnx.Model
	named map[*Value]bool // constants that are written
	count int
}

// name returns the name of a value and writes it if it is constant.
func (w *writer) name(v *Value) string {
	if v.Const != nil && !w.named[v] {
		w.named[v] = true
		var raw []byte
		for _, f := range v.Const.Floats {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f))
		}
		for _, i := range v.Const.Ints {
			switch v.Type {
			case Int32:
				raw = binary.LittleEndian.AppendUint32(raw, uint32(i))
			case Bool:
				raw = append(raw, byte(i))
			default:
				raw = binary.LittleEndian.AppendUint64(raw, uint64(i))
			}
		}
		w.m.Graph.Constant(onnx.RawTensor(v.Name, dtypes[v.Type], dims(v.Shape), raw))
	}
	return v.Name
}

func dims(shape []int) []int64 {
	out := make([]int64, len(shape))
	for i, d := range shape {
		out[i] = int64(d)
	}
	return out
}

// list writes a constant of integers, number one of floats.
func (w *writer) list(values ...int64) string {
	w.count++
	return w.m.Graph.Constant(onnx.Ints(fmt.Sprintf("model.%d", w.count), []int64{int64(len(values))}, values))
}

func (w *writer) number(v float32) string {
	w.count++
	return w.m.Graph.Constant(onnx.Floats(fmt.Sprintf("model.%d", w.count), nil, []float32{v}))
}

// node writes a node.
func (w *writer) node(n *Node) {
	op, in := string(n.Op), make([]string, len(n.In))
	for i, v := range n.In {
		in[i] = w.name(v)
	}
	var attributes []onnx.Attribute
	switch n.Op {
	case Gelu:
		attributes = append(attributes, onnx.String("approximate", n.Mode))
	case LeakyRelu, Elu:
		attributes = append(attributes, onnx.Float("alpha", n.Alpha))
	case HardSigmoid:
		attributes = append(attributes, onnx.Float("alpha", n.Alpha), onnx.Float("beta", n.Beta))
	case Clip:
		in = append(in, w.number(n.Low), w.number(n.High))
	case Cast:
		attributes = append(attributes, onnx.Int("to", int64(dtypes[n.Out.Type])))
	case Conv, ConvTranspose, MaxPool, AvgPool:
		op, attributes = w.window(n)
	case MatMul:
		if n.TransposeB {
			in[1] = w.swapped(n.In[1])
		}
	case Softmax, Concat, Gather:
		attributes = append(attributes, onnx.Int("axis", int64(n.Axis)))
	case LayerNorm, RMSNorm:
		op = map[Op]string{LayerNorm: "LayerNormalization", RMSNorm: "RMSNormalization"}[n.Op]
		attributes = append(attributes, onnx.Int("axis", int64(n.Axis)), onnx.Float("epsilon", n.Epsilon))
	case ReduceMean, ReduceSum, ReduceMax, ReduceMin:
		in = append(in, w.list(dims(n.Axes)...))
		attributes = append(attributes, onnx.Int("keepdims", map[bool]int64{true: 1}[n.Keep]))
	default:
		in, attributes = w.shaped(n, in)
	}
	w.m.Graph.Add(op, in, n.Out.Name, attributes...)
}

// swapped writes the transposition of the last two dimensions.
func (w *writer) swapped(v *Value) string {
	perm := make([]int64, len(v.Shape))
	for i := range perm {
		perm[i] = int64(i)
	}
	r := len(perm)
	perm[r-1], perm[r-2] = perm[r-2], perm[r-1]
	w.count++
	return w.m.Graph.Add("Transpose", []string{v.Name}, fmt.Sprintf("model.%d", w.count), onnx.IntList("perm", perm...))
}

// window returns the operator and the attributes of a sliding window.
func (w *writer) window(n *Node) (string, []onnx.Attribute) {
	before, after, more := dims(n.Before), dims(n.After), make([]int64, len(n.After))
	for i, a := range after {
		more[i], after[i] = max(0, -a), max(0, a)
	}
	out := []onnx.Attribute{onnx.IntList("kernel_shape", dims(n.Kernel)...), onnx.IntList("strides", dims(n.Strides)...), onnx.IntList("pads", append(before, after...)...)}
	switch n.Op {
	case AvgPool:
		return "AveragePool", append(out, onnx.Int("count_include_pad", map[bool]int64{true: 1}[n.Counted]))
	case ConvTranspose:
		out = append(out, onnx.IntList("output_padding", more...))
	}
	out = append(out, onnx.IntList("dilations", dims(n.Dilations)...))
	if n.Op != MaxPool {
		out = append(out, onnx.Int("group", int64(n.Groups)))
	}
	return string(n.Op), out
}

// shaped adds what operators on shapes need.
func (w *writer) shaped(n *Node, in []string) ([]string, []onnx.Attribute) {
	switch n.Op {
	case Reshape:
		return append(in, w.list(dims(n.Out.Shape)...)), nil
	case Transpose:
		return in, []onnx.Attribute{onnx.IntList("perm", dims(n.Perm)...)}
	case Slice:
		var ends, axes []int64
		for i, from := range n.Starts {
			end := int64(from + n.Out.Shape[i]*n.Steps[i])
			if n.Steps[i] < 0 && end < 0 {
				end = math.MinInt64
			}
			ends, axes = append(ends, end), append(axes, int64(i))
		}
		return append(in, w.list(dims(n.Starts)...), w.list(ends...), w.list(axes...), w.list(dims(n.Steps)...)), nil
	case Pad:
		in = append(in, w.list(append(dims(n.Before), dims(n.After)...)...))
		if n.Mode == "constant" {
			in = append(in, w.number(n.Low))
		}
		return in, []onnx.Attribute{onnx.String("mode", n.Mode)}
	case Tile:
		var repeats []int64
		for i, d := range n.Out.Shape {
			repeats = append(repeats, int64(d/max(n.In[0].Shape[i], 1)))
		}
		return append(in, w.list(repeats...)), nil
	case Resize:
		mode, nearest := n.Corner, "round_prefer_floor"
		for i := range mode {
			if mode[i] == ' ' {
				mode, nearest = mode[:i], mode[i+1:]
				break
			}
		}
		return append(in, "", "", w.list(dims(n.Out.Shape)...)), []onnx.Attribute{onnx.String("mode", n.Mode), onnx.String("coordinate_transformation_mode", mode), onnx.String("nearest_mode", nearest)}
	}
	return in, nil
}
