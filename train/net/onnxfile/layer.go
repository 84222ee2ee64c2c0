package onnxfile

import (
	"math"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/nn"
)

// form is the layout of a value after the batch dimension.
type form int

const (
	rows   form = iota // [Rows, Cols]
	lines              // [Cols, Rows]
	planes             // [Cols, H, W]
)

// values holds the values of one application of the network, each in the forms
// requested so far.
type values struct {
	*emitter
	prefix string
	forms  map[string]map[form]string
	ports  map[string]net.Port
}

// apply appends the network's steps on the named inputs and returns its
// outputs.
func (e *emitter) apply(prefix string, inputs map[string]string) map[string]string {
	v := &values{e, prefix, map[string]map[form]string{}, ports(e.net)}
	for name, value := range inputs {
		v.forms[name] = map[form]string{rows: value}
	}
	for i := range e.net.Steps() {
		s := &e.net.Steps()[i]
		v.ports[s.Name] = s.Gives
		if forms, ok := e.still[s.Name]; ok {
			v.forms[s.Name] = forms
			continue
		}
		v.forms[s.Name] = map[form]string{}
		v.step(s)
		if e.still != nil && !e.moves[s.Name] {
			e.still[s.Name] = v.forms[s.Name]
		}
	}
	out := map[string]string{}
	for _, name := range e.net.Config().Outputs {
		step, _ := e.net.Output(name)
		out[name] = v.get(step, rows)
	}
	return out
}

// has reports whether a value is available in a form but not as rows.
func (v *values) has(name string, f form) bool {
	_, asRows := v.forms[name][rows]
	_, ok := v.forms[name][f]
	return ok && !asRows
}

// get returns a value in a form.
func (v *values) get(name string, f form) string {
	have := v.forms[name]
	if x, ok := have[f]; ok {
		return x
	}
	p, at := v.ports[name], v.prefix+name
	x, ok := have[lines]
	if !ok {
		if picture, planar := have[planes]; planar {
			x = v.reshape(at+".lines", picture, 0, p.Cols, p.Rows)
		} else {
			x = v.transpose(at+".lines", have[rows], 0, 2, 1)
		}
		have[lines] = x
	}
	switch f {
	case rows:
		have[rows] = v.transpose(at+".rows", x, 0, 2, 1)
	case planes:
		have[planes] = v.reshape(at+".planes", x, 0, p.Cols, p.Height, p.Rows/p.Height)
	}
	return have[f]
}

// set names the output of a step.
func (v *values) set(s *net.Step, f form, x string) { v.forms[s.Name][f] = x }

// weight returns a tensor as an initializer with dimensions dims.
func (v *values) weight(name string, dims ...int) string {
	return v.floats(name, v.net.Params().Tensor(name).Data, dims...)
}

// product computes x·Wᵀ + b.
func (v *values) product(name, output, x string) string {
	w := v.net.Params().Tensor(name + ".weight")
	out, in := w.Shape[0], w.Shape[1]
	x = v.node("MatMul", output, []string{x, v.floats(w.Name, turned(w.Data, out, in), in, out)})
	if v.net.Params().Tensor(name+".bias") != nil {
		x = v.node("Add", output+".biased", []string{x, v.weight(name+".bias", out)})
	}
	return x
}

// turned returns the transpose of [rows, cols].
func turned(x []float32, rows, cols int) []float32 {
	y := make([]float32, len(x))
	for r := range rows {
		for c := range cols {
			y[c*rows+r] = x[r*cols+c]
		}
	}
	return y
}

// residual adds the residual of the step.
func (v *values) residual(s *net.Step, x string) string {
	if s.Residual == "" {
		return x
	}
	return v.node("Add", v.prefix+s.Name+".sum", []string{v.in(s, len(s.Takes)-1), x})
}

// in returns an input of a step as rows.
func (v *values) in(s *net.Step, i int) string { return v.get(s.Takes[i].Name, rows) }

// step appends a layer.
func (v *values) step(s *net.Step) {
	at := v.prefix + s.Name
	switch s.Kind {
	case "linear":
		v.set(s, rows, v.residual(s, v.product(s.Name, at, v.in(s, 0))))
	case "mlp":
		h := v.act(s.Activation, at+".act", v.product(s.Name+".up", at+".up", v.in(s, 0)))
		v.set(s, rows, v.residual(s, v.product(s.Name+".down", at+".down", h)))
	case "attention", "cross_attention":
		v.set(s, rows, v.residual(s, v.attention(s)))
	case "layer_norm":
		v.set(s, rows, v.layerNorm(s))
	case "rms_norm":
		x := v.in(s, 0)
		square := v.node("Mul", at+".square", []string{x, x})
		mean := v.node("ReduceMean", at+".mean", []string{square}, onnx.IntList("axes", -1))
		root := v.node("Sqrt", at+".root", []string{v.node("Add", at+".eps", []string{mean, v.number(float32(s.Eps))})})
		unit := v.node("Div", at+".unit", []string{x, root})
		v.set(s, rows, v.node("Mul", at, []string{unit, v.weight(s.Name+".gain", s.Gives.Cols)}))
	case "modulate":
		C := s.Gives.Cols
		gain := v.node("Add", at+".gain", []string{v.slice(at+".factor", v.in(s, 1), 2, s.From, s.From+C), v.number(1)})
		shift := v.slice(at+".shift", v.in(s, 1), 2, s.From+C, s.From+2*C)
		v.set(s, rows, v.node("Add", at, []string{v.node("Mul", at+".scaled", []string{v.in(s, 0), gain}), shift}))
	case "gate":
		by := v.slice(at+".factor", v.in(s, 2), 2, s.From, s.From+s.Gives.Cols)
		v.set(s, rows, v.node("Add", at, []string{v.in(s, 0), v.node("Mul", at+".gated", []string{v.in(s, 1), by})}))
	case "conv1d", "conv2d", "conv1d_transpose", "conv2d_transpose":
		v.convolve(s)
	case "position":
		v.set(s, rows, v.node("Add", at, []string{v.in(s, 0), v.weight(s.Name+".weight", s.Gives.Rows, s.Gives.Cols)}))
	case "queries":
		v.set(s, rows, v.queries(s))
	case "embedding":
		ids := v.node("Cast", at+".ids", []string{v.reshape(at+".flat", v.in(s, 0), 0, s.Gives.Rows)}, onnx.Int("to", int64(onnx.INT64)))
		table := v.weight(s.Name+".weight", s.Count, s.Gives.Cols)
		v.set(s, rows, v.node("Gather", at, []string{table, ids}, onnx.Int("axis", 0)))
	case "time":
		v.set(s, rows, v.time(s))
	default:
		v.arrange(s)
	}
}

// act appends an activation.
func (v *values) act(a nn.Activation, at, x string) string {
	switch a {
	case nn.GELU:
		bent := v.node("Erf", at+".erf", []string{v.node("Div", at+".root", []string{x, v.number(math.Sqrt2)})})
		twice := v.node("Mul", at+".twice", []string{x, v.node("Add", at+".one", []string{bent, v.number(1)})})
		return v.node("Mul", at, []string{twice, v.number(0.5)})
	case nn.SiLU:
		return v.node("Mul", at, []string{x, v.node("Sigmoid", at+".sigmoid", []string{x})})
	case nn.ReLU:
		return v.node("Relu", at, []string{x})
	case nn.Tanh:
		return v.node("Tanh", at, []string{x})
	}
	return v.node("Sigmoid", at, []string{x})
}

func (v *values) layerNorm(s *net.Step) string {
	C, gain, bias := s.Gives.Cols, "", ""
	if s.NoAffine {
		ones := make([]float32, C)
		for i := range ones {
			ones[i] = 1
		}
		gain, bias = v.floats(s.Name+".gain", ones, C), v.floats(s.Name+".bias", make([]float32, C), C)
	} else {
		gain, bias = v.weight(s.Name+".gain", C), v.weight(s.Name+".bias", C)
	}
	return v.node("LayerNormalization", v.prefix+s.Name, []string{v.in(s, 0), gain, bias}, onnx.Int("axis", -1), onnx.Float("epsilon", float32(s.Eps)))
}

// slice returns the part [from, to) of an axis.
func (v *values) slice(output, x string, axis, from, to int) string {
	return v.node("Slice", output, []string{x, v.ints(from), v.ints(to), v.ints(axis)})
}

// queries returns the table for every sample: a single one if the layers that
// use it broadcast it over the batch.
func (v *values) queries(s *net.Step) string {
	at, table := v.prefix+s.Name, v.weight(s.Name+".weight", 1, s.Gives.Rows, s.Gives.Cols)
	if v.opt.Batch == 1 {
		return v.node("Identity", at, []string{table})
	}
	samples := v.slice(at+".samples", v.node("Shape", at+".shape", []string{v.in(s, 0)}), 0, 0, 1)
	shape := v.node("Concat", at+".size", []string{samples, v.ints(s.Gives.Rows, s.Gives.Cols)}, onnx.Int("axis", 0))
	return v.node("Expand", at, []string{table, shape})
}

func (v *values) time(s *net.Step) string {
	at, waves := v.prefix+s.Name, s.Gives.Cols/2
	frequencies := make([]float32, waves)
	for i, f := range s.Frequencies() {
		frequencies[i] = float32(f)
	}
	angles := v.node("Mul", at+".angles", []string{v.in(s, 0), v.floats(s.Name+".frequencies", frequencies, waves)})
	return v.node("Concat", at, []string{v.node("Cos", at+".cos", []string{angles}), v.node("Sin", at+".sin", []string{angles})}, onnx.Int("axis", 2))
}

// attention computes softmax(q·kᵀ/√D)·v per head. The factor is applied to the
// queries, which are fewer than the scores.
func (v *values) attention(s *net.Step) string {
	at, C, H := v.prefix+s.Name, s.Gives.Cols, s.Heads
	heads := func(name, x string, n int, perm ...int64) string {
		return v.transpose(at+name+".heads", v.reshape(at+name+".split", x, 0, n, H, C/H), perm...)
	}
	R, M := s.Gives.Rows, s.Takes[0].Rows
	var q, k, w string
	if s.Kind == "attention" {
		qkv := v.product(s.Name+".qkv", at+".qkv", v.in(s, 0))
		q, k, w = v.slice(at+".q", qkv, 2, 0, C), v.slice(at+".k", qkv, 2, C, 2*C), v.slice(at+".v", qkv, 2, 2*C, 3*C)
	} else {
		M = s.Takes[1].Rows
		q = v.product(s.Name+".q", at+".q", v.in(s, 0))
		kv := v.product(s.Name+".kv", at+".kv", v.in(s, 1))
		k, w = v.slice(at+".k", kv, 2, 0, C), v.slice(at+".v", kv, 2, C, 2*C)
	}
	q = v.node("Mul", at+".q.scaled", []string{heads(".q", q, R, 0, 2, 1, 3), v.number(float32(1 / math.Sqrt(float64(C/H))))})
	scores := v.node("MatMul", at+".scores", []string{q, heads(".k", k, M, 0, 2, 3, 1)})
	shares := v.node("Softmax", at+".shares", []string{scores}, onnx.Int("axis", -1))
	mixed := v.node("MatMul", at+".mixed", []string{shares, heads(".v", w, M, 0, 2, 1, 3)})
	mixed = v.reshape(at+".joined", v.transpose(at+".mixed.rows", mixed, 0, 2, 1, 3), 0, R, C)
	return v.product(s.Name+".out", at+".out", mixed)
}
