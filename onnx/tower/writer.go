package tower

import (
	"errors"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
)

// writer writes a model and keeps the first errors of its tensors.
type writer struct {
	c     Config
	names names
	t     Weights
	m     *onnx.Model
	g     *onnx.Graph
	tower string // prefix of its tensors

	cos, sin string // 1×P×1×D, of the rotation of queries and keys; "": none

	err     error
	written map[string]bool // constants
	zeros   int             // numbers of tensors that cannot be read
}

func newWriter(c Config, t Weights, name string) *writer {
	w := &writer{c: c, names: c.names, t: t, m: onnx.New(name, opset), written: map[string]bool{}}
	at := t.find(c.names.embed+c.names.patch+".weight", append(towerPrefixes(), "audio_tower.", "model.audio_tower.")...)
	w.tower = at
	for _, name := range []*string{&w.names.embed, &w.names.pre, &w.names.post, &w.names.layer} {
		if *name != "" {
			*name = at + *name
		}
	}
	w.names.projector = t.find(projectorPart(c.Family), c.names.projector, "model."+c.names.projector)
	w.g = &w.m.Graph
	return w
}

// maxZeros is the limit of numbers that replace a tensor that cannot be read, so
// that further faults are found: a configuration may state any size.
const maxZeros = 1 << 22

// halt ends the writing of a model.
type halt struct{}

// halted recovers from a halt, whose error is recorded.
func (w *writer) halted(m **onnx.Model, err *error) {
	if v := recover(); v != nil {
		if _, ok := v.(halt); !ok {
			panic(v)
		}
		*m, *err = nil, w.err
	}
}

// read returns a tensor, or zeros if it cannot be read.
func (w *writer) read(name string, dims ...int) []float32 {
	x, err := w.t.floats(name, dims...)
	if err != nil {
		w.err = errors.Join(w.err, err)
		n := 1
		for _, d := range dims {
			if n *= d; n > maxZeros {
				panic(halt{})
			}
		}
		if w.zeros += n; w.zeros > maxZeros {
			panic(halt{})
		}
		return make([]float32, n)
	}
	return x
}

// constant writes a tensor under its own name.
func (w *writer) constant(name string, dims ...int) string {
	if w.written[name] {
		return name
	}
	return w.floats(name, w.read(name, dims...), dims...)
}

// floats writes numbers, once.
func (w *writer) floats(name string, v []float32, dims ...int) string {
	if w.written[name] {
		return name
	}
	w.written[name] = true
	long := make([]int64, len(dims))
	for i := range dims {
		long[i] = int64(dims[i])
	}
	return w.g.Constant(onnx.Floats(name, long, v))
}

// number writes a number, once.
func (w *writer) number(name string, v float64) string { return w.floats(name, []float32{float32(v)}) }

// ints writes integers, once.
func (w *writer) ints(name string, v ...int) string {
	name = "shape." + name
	if w.written[name] {
		return name
	}
	w.written[name] = true
	long := make([]int64, len(v))
	for i := range v {
		long[i] = int64(v[i])
	}
	return w.g.Constant(onnx.Ints(name, []int64{int64(len(v))}, long))
}

// linear writes x·Wᵀ + bias; the bias may be absent.
func (w *writer) linear(name, x string, in, out int) string {
	return w.product(name, x, transpose(w.read(name+".weight", out, in), out, in), in, out)
}

// product writes x·W + bias for W of in × out.
func (w *writer) product(name, x string, weight []float32, in, out int) string {
	y := w.g.Add("MatMul", []string{x, w.floats(name+".weight", weight, in, out)}, name+".product")
	if !w.t.has(name + ".bias") {
		return y
	}
	return w.g.Add("Add", []string{y, w.constant(name+".bias", out)}, name+".out")
}

// norm writes LayerNorm, or RMSNorm if the tower has it.
func (w *writer) norm(name, x string, n int) string {
	if w.c.rms {
		return w.rms(name, x, w.constant(name+".weight", n))
	}
	return w.g.Add("LayerNormalization", []string{x, w.constant(name+".weight", n), w.constant(name+".bias", n)}, name+".out",
		onnx.Int("axis", -1), onnx.Float("epsilon", w.c.Epsilon))
}

// rms writes x/√(mean(x²)+ε) · gain.
func (w *writer) rms(name, x, gain string) string {
	g := w.g
	square := g.Add("Mul", []string{x, x}, name+".square")
	mean := g.Add("ReduceMean", []string{square}, name+".mean", onnx.IntList("axes", -1), onnx.Int("keepdims", 1))
	root := g.Add("Sqrt", []string{g.Add("Add", []string{mean, w.number("epsilon", float64(w.c.Epsilon))}, name+".sum")}, name+".root")
	return g.Add("Mul", []string{g.Add("Div", []string{x, root}, name+".ratio"), gain}, name+".out")
}

// activated writes an activation, by Hugging Face's names.
func (w *writer) activated(name, x, act string) string {
	g := w.g
	switch act {
	case "quick_gelu": // x·σ(1.702·x)
		share := g.Add("Sigmoid", []string{g.Add("Mul", []string{x, w.number("quick", 1.702)}, name+".scaled")}, name+".share")
		return g.Add("Mul", []string{x, share}, name)
	case "gelu_pytorch_tanh": // x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))
		square := g.Add("Mul", []string{x, x}, name+".square")
		slope := g.Add("Add", []string{g.Add("Mul", []string{square, w.number("cube", 0.044715*math.Sqrt(2/math.Pi))}, name+".cube"), w.number("slope", math.Sqrt(2/math.Pi))}, name+".slope")
		angle := g.Add("Tanh", []string{g.Add("Mul", []string{x, slope}, name+".angle")}, name+".tanh")
		return g.Add("Mul", []string{g.Add("Mul", []string{x, g.Add("Add", []string{angle, w.number("unit", 1)}, name+".more")}, name+".twice"), w.number("half", 0.5)}, name)
	case "relu":
		return g.Add("Relu", []string{x}, name)
	case "silu":
		return g.Add("Mul", []string{x, g.Add("Sigmoid", []string{x}, name+".share")}, name)
	}
	share := g.Add("Erf", []string{g.Add("Mul", []string{x, w.number("root_half", math.Sqrt(0.5))}, name+".ratio")}, name+".erf")
	twice := g.Add("Mul", []string{x, g.Add("Add", []string{share, w.number("unit", 1)}, name+".more")}, name+".twice")
	return g.Add("Mul", []string{twice, w.number("half", 0.5)}, name)
}

// activations are the functions that activated writes.
func activations() []string { return []string{"gelu", "gelu_pytorch_tanh", "quick_gelu", "silu"} }

func knownActivation(name string) bool { return slices.Contains(activations(), name) }

// transpose returns the columns of a rows × cols matrix as rows.
func transpose(x []float32, rows, cols int) []float32 {
	out := make([]float32, len(x))
	for i := range rows {
		for j := range cols {
			out[j*rows+i] = x[i*cols+j]
		}
	}
	return out
}

func rsqrt(n int) float64 { return 1 / math.Sqrt(float64(n)) }
