package sentence

import (
	"errors"
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
)

// writer writes a model and keeps the first errors of its tensors.
type writer struct {
	c       Config
	t       Weights
	m       *onnx.Model
	g       *onnx.Graph
	prefix  string
	err     error
	written map[string]bool // constants and shared values
	zeros   int             // numbers of tensors that cannot be read
	opset   int64           // version of ai.onnx

	ids       string // N×T
	length    string // [1]: T
	all, near string // added to scores of attention: of all positions, and of those in a window
	half      bool   // the table of words is in half precision
}

func newWriter(c Config, t Weights) *writer {
	w := &writer{c: c, t: t, m: onnx.New("sentence", opset), written: map[string]bool{}, opset: opset, ids: IDs}
	w.g = &w.m.Graph
	for _, p := range c.names.prefixes {
		if w.prefix = p; t.Has(p + c.names.words + ".weight") {
			break
		}
	}
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
func (w *writer) read(name string, dims ...int) []float32 { return w.from(w.t, name, dims...) }

func (w *writer) from(t Weights, name string, dims ...int) []float32 {
	x, err := t.Floats(name, dims...)
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

// table writes the vectors of the words, in half precision if they are stored so.
func (w *writer) table(name string, rows, cols int) string {
	name += ".weight"
	if raw := w.t.Raw(name, tensor.F16, rows, cols); raw != nil {
		w.half = true
		return w.g.Constant(onnx.RawTensor(name, onnx.FLOAT16, []int64{int64(rows), int64(cols)}, raw))
	}
	return w.floats(name, w.read(name, rows, cols), rows, cols)
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
func (w *writer) number(name string, v float64) string {
	return w.floats("number."+name, []float32{float32(v)})
}

// ints writes integers, once.
func (w *writer) ints(name string, v ...int) string {
	name = "shape." + name
	long := make([]int64, len(v))
	for i := range v {
		long[i] = int64(v[i])
	}
	return w.integers(name, []int64{int64(len(v))}, long)
}

// scalar writes an integer without dimensions, once.
func (w *writer) scalar(name string, v int) string {
	return w.integers("scalar."+name, nil, []int64{int64(v)})
}

func (w *writer) integers(name string, dims, v []int64) string {
	if !w.written[name] {
		w.written[name] = true
		w.g.Constant(onnx.Ints(name, dims, v))
	}
	return name
}

// once writes a value unless it has been written.
func (w *writer) once(name string, write func() string) string {
	if !w.written[name] {
		w.written[name] = true
		return write()
	}
	return name
}

// axisInput lists the first version of ai.onnx in which the axes of an operator are an
// input instead of an attribute.
func axisInput(op string) int64 {
	switch op {
	case "Squeeze", "Unsqueeze", "ReduceSum":
		return 13
	}
	return 18
}

// along writes an operator with one axis.
func (w *writer) along(op, x, name string, axis int, more ...onnx.Attribute) string {
	if w.opset < axisInput(op) {
		return w.g.Add(op, []string{x}, name, append(more, onnx.IntList("axes", int64(axis)))...)
	}
	return w.g.Add(op, []string{x, w.ints([]string{"zero", "one", "two"}[axis], axis)}, name, more...)
}

// linear writes x·Wᵀ + bias; the bias may be absent.
func (w *writer) linear(name, x string, in, out int) string {
	return w.product(name, x, w.read(name+".weight", out, in), w.bias(name, out), in, out)
}

// bias returns a bias, or nil.
func (w *writer) bias(name string, n int) []float32 {
	if !w.t.Has(name + ".bias") {
		return nil
	}
	return w.read(name+".bias", n)
}

// rows writes a part of a layer that joins queries, keys and values.
func (w *writer) rows(name string, part int, x string) string {
	c := w.c.Width
	weight, bias := w.read(name+".weight", 3*c, c), w.bias(name, 3*c)
	if bias != nil {
		bias = bias[part*c : (part+1)*c]
	}
	return w.product(name+[]string{".query", ".key", ".value"}[part], x, weight[part*c*c:(part+1)*c*c], bias, c, c)
}

// product writes x·Wᵀ + bias for W of out × in.
func (w *writer) product(name, x string, weight, bias []float32, in, out int) string {
	y := w.g.Add("MatMul", []string{x, w.floats(name+".weight", transpose(weight, out, in), in, out)}, name+".product")
	if bias == nil {
		return y
	}
	return w.g.Add("Add", []string{y, w.floats(name+".bias", bias, out)}, name+".out")
}

// dense writes a layer of the pooling.
func (w *writer) dense(at, x string, d Dense) string {
	weight := w.from(d.Weights, "linear.weight", d.Out, d.In)
	var bias []float32
	if d.Bias {
		bias = w.from(d.Weights, "linear.bias", d.Out)
	}
	y := w.product(at+"linear", x, weight, bias, d.In, d.Out)
	if d.Activation == "" {
		return y
	}
	return w.activated(at+"act", y, d.Activation)
}

// norm writes LayerNorm; its bias may be absent.
func (w *writer) norm(name, x string) string {
	in := []string{x, w.floats(name+".weight", w.read(name+".weight", w.c.Width), w.c.Width)}
	if !w.c.biasless || w.t.Has(name+".bias") {
		in = append(in, w.floats(name+".bias", w.read(name+".bias", w.c.Width), w.c.Width))
	}
	return w.g.Add("LayerNormalization", in, name+".out", onnx.Int("axis", -1), onnx.Float("epsilon", w.c.Epsilon))
}

// activated writes an activation, by Hugging Face's names.
func (w *writer) activated(name, x, act string) string {
	g := w.g
	switch act {
	case "quick_gelu": // x·σ(1.702·x)
		share := g.Add("Sigmoid", []string{g.Add("Mul", []string{x, w.number("quick", 1.702)}, name+".scaled")}, name+".share")
		return g.Add("Mul", []string{x, share}, name)
	case "relu":
		return g.Add("Relu", []string{x}, name)
	case "tanh":
		return g.Add("Tanh", []string{x}, name)
	case "silu":
		return g.Add("Mul", []string{x, g.Add("Sigmoid", []string{x}, name+".share")}, name)
	case "gelu_new", "gelu_pytorch_tanh": // x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))
		square := g.Add("Mul", []string{x, x}, name+".square")
		slope := g.Add("Add", []string{g.Add("Mul", []string{square, w.number("cube", 0.044715*math.Sqrt(2/math.Pi))}, name+".cube"), w.number("slope", math.Sqrt(2/math.Pi))}, name+".slope")
		angle := g.Add("Tanh", []string{g.Add("Mul", []string{x, slope}, name+".angle")}, name+".tanh")
		return g.Add("Mul", []string{g.Add("Mul", []string{x, g.Add("Add", []string{angle, w.number("unit", 1)}, name+".more")}, name+".twice"), w.number("half", 0.5)}, name)
	}
	share := g.Add("Erf", []string{g.Add("Mul", []string{x, w.number("root_half", math.Sqrt(0.5))}, name+".ratio")}, name+".erf")
	twice := g.Add("Mul", []string{x, g.Add("Add", []string{share, w.number("unit", 1)}, name+".more")}, name+".twice")
	return g.Add("Mul", []string{twice, w.number("half", 0.5)}, name)
}

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
