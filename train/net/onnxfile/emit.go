package onnxfile

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/train/net"
)

// emitter appends to a model.
type emitter struct {
	net   *net.Net[float32]
	opt   Options
	model *onnx.Model
	held  map[string]bool // existing initializers

	// moves holds the inputs and steps that change between the steps of a flow,
	// still the values of the others. If moves is nil, there is a single step.
	moves map[string]bool
	still map[string]map[form]string
}

// batch returns the first dimension.
func (e *emitter) batch() any {
	if e.opt.Batch > 0 {
		return e.opt.Batch
	}
	return "N"
}

func (e *emitter) node(op, output string, inputs []string, attributes ...onnx.Attribute) string {
	return e.model.Graph.Add(op, inputs, output, attributes...)
}

// half is the suffix of half-precision tensors, which are cast.
const half = ".half"

// leastHalf is the minimum number of elements worth a Cast.
const leastHalf = 1024

// floats returns an initializer, written once.
func (e *emitter) floats(name string, values []float32, dims ...int) string {
	if !e.held[name] {
		wide := make([]int64, len(dims))
		for i, d := range dims {
			wide[i] = int64(d)
		}
		if e.opt.Half && len(values) >= leastHalf && len(dims) > 1 {
			data := make([]byte, 2*len(values))
			tensor.ToF16(data, values)
			e.model.Graph.Constant(onnx.Tensor{Name: name + half, DType: onnx.FLOAT16, Dims: wide, Raw: data})
			e.node("Cast", name, []string{name + half}, onnx.Int("to", int64(onnx.FLOAT)))
		} else {
			e.model.Graph.Constant(onnx.Floats(name, wide, values))
		}
		e.held[name] = true
	}
	return name
}

// number returns an initializer of one number; equal numbers share it.
func (e *emitter) number(v float32) string {
	return e.floats(fmt.Sprintf("/number/%v", v), []float32{v})
}

// ints returns an initializer of integers, a shape or axes; equal lists share
// it.
func (e *emitter) ints(values ...int) string {
	name := "/ints/" + strings.Trim(strings.ReplaceAll(fmt.Sprint(values), " ", ","), "[]")
	if !e.held[name] {
		wide := make([]int64, len(values))
		for i, v := range values {
			wide[i] = int64(v)
		}
		e.model.Graph.Constant(onnx.Ints(name, []int64{int64(len(values))}, wide))
		e.held[name] = true
	}
	return name
}

// reshape keeps the batch, written 0 in dims.
func (e *emitter) reshape(output, x string, dims ...int) string {
	return e.node("Reshape", output, []string{x, e.ints(dims...)})
}

func (e *emitter) transpose(output, x string, perm ...int64) string {
	return e.node("Transpose", output, []string{x}, onnx.IntList("perm", perm...))
}

// affine computes scale·x + offset and omits operators without effect.
func (e *emitter) affine(prefix, x string, scale, offset float32) string {
	if scale != 0 && scale != 1 {
		x = e.node("Mul", prefix+".scaled", []string{x, e.number(scale)})
	}
	if offset != 0 {
		x = e.node("Add", prefix+".offset", []string{x, e.number(offset)})
	}
	return x
}

// input declares an input of the model and returns the network's, [N, Rows,
// Cols].
func (e *emitter) input(p net.Port, in Input) string {
	name, t := in.Name, in.Type
	if name == "" {
		name = p.Name
	}
	if t == 0 {
		t = onnx.FLOAT
	}
	h := max(p.Height, 1)
	var dims []any
	switch in.Layout {
	case Pixels:
		dims = []any{h, p.Rows / h, p.Cols}
	case Planes:
		dims = []any{p.Cols, h, p.Rows / h}
	case Flat:
		dims = []any{p.Rows * p.Cols}
	default:
		dims = []any{p.Rows, p.Cols}
	}
	e.model.Graph.Inputs = append(e.model.Graph.Inputs, onnx.TensorValue(name, t, append([]any{e.batch()}, dims...)...))
	at, x := "/in/"+p.Name, name
	if t != onnx.FLOAT {
		x = e.node("Cast", at+".float", []string{x}, onnx.Int("to", int64(onnx.FLOAT)))
	}
	x = e.affine(at, x, in.Scale, in.Offset)
	switch in.Layout {
	case Planes:
		x = e.transpose(at+".rows", e.reshape(at+".flat", x, 0, p.Cols, p.Rows), 0, 2, 1)
	case Pixels, Flat:
		x = e.reshape(at+".rows", x, 0, p.Rows, p.Cols)
	}
	return x
}

// output declares an output of the model from the network's output.
func (e *emitter) output(network, x string, out Output) {
	p, _ := output(e.net, network)
	name, t := out.Name, out.Type
	if name == "" {
		name = network
	}
	if t == 0 {
		t = onnx.FLOAT
	}
	at := "/out/" + network
	x = e.affine(at, x, out.Scale, out.Offset)
	if t == onnx.UINT8 {
		x = e.node("Round", at+".round", []string{x})
		x = e.node("Clip", at+".clip", []string{x, e.number(0), e.number(255)})
	}
	if t != onnx.FLOAT {
		x = e.node("Cast", at+".cast", []string{x}, onnx.Int("to", int64(t)))
	}
	h, dims := max(p.Height, 1), []any{p.Rows, p.Cols}
	switch out.Layout {
	case Pixels:
		dims = []any{h, p.Rows / h, p.Cols}
		x = e.reshape(at+".pixels", x, 0, h, p.Rows/h, p.Cols)
	case Planes:
		dims = []any{p.Cols, h, p.Rows / h}
		x = e.reshape(at+".planes", e.transpose(at+".columns", x, 0, 2, 1), 0, p.Cols, h, p.Rows/h)
	case Flat:
		dims = []any{p.Rows * p.Cols}
		x = e.reshape(at+".flat", x, 0, p.Rows*p.Cols)
	}
	e.rename(x, name)
	e.model.Graph.Outputs = append(e.model.Graph.Outputs, onnx.TensorValue(name, t, append([]any{e.batch()}, dims...)...))
}

// rename renames a value to an output.
func (e *emitter) rename(from, to string) {
	for i := range e.model.Graph.Nodes {
		n := &e.model.Graph.Nodes[i]
		for j, v := range n.Outputs {
			if v == from {
				n.Outputs[j] = to
			}
		}
		for j, v := range n.Inputs {
			if v == from {
				n.Inputs[j] = to
			}
		}
	}
}

// flow unrolls the steps from noise to a sample.
func (e *emitter) flow(inputs map[string]string) map[string]string {
	f := e.opt.Flow
	state := inputs[f.State]
	if f.Noise != nil {
		p := ports(e.net)[f.State]
		state = e.floats("/noise", f.Noise, 1, p.Rows, p.Cols)
	}
	e.moves, e.still = map[string]bool{f.State: true, f.Time: true}, map[string]map[form]string{}
	for _, s := range e.net.Steps() {
		e.moves[s.Name] = slices.ContainsFunc(s.Takes, func(p net.Port) bool { return e.moves[p.Name] })
	}
	for i := range f.Steps {
		prefix := fmt.Sprintf("/%d/", i)
		inputs[f.State] = state
		inputs[f.Time] = e.floats(fmt.Sprintf("/time/%d", i), []float32{float32(i) / float32(f.Steps)}, 1, 1, 1)
		v, share := e.apply(prefix, inputs)[f.Velocity], 1/float32(f.Steps)
		if f.Sample {
			if i == f.Steps-1 {
				state = v
				break
			}
			v, share = e.node("Sub", prefix+"way", []string{v, state}), 1/float32(f.Steps-i)
		}
		step := e.node("Mul", prefix+"step", []string{v, e.number(share)})
		state = e.node("Add", prefix+"state", []string{state, step})
	}
	return map[string]string{f.Velocity: state}
}
