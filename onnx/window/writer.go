package window

import (
	"cmp"
	"fmt"
	"strings"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/onnx"
)

// writer writes a model.
type writer struct {
	f     *gguf.File
	s     arch.Shape
	style arch.Style
	texts int // read at a time
	t     int // positions
	m     *onnx.Model
	g     *onnx.Graph

	window int  // earlier positions with cached keys and values; 0: none
	grows  bool // outputs are all keys and values, not the new ones
	used   map[string]bool
	shared map[string]bool // constants of all layers
}

func newWriter(f *gguf.File, s arch.Shape, positions, window int, name string) *writer {
	w := &writer{f: f, s: s, style: s.Style(), texts: 1, t: positions, window: window, m: onnx.New(name, opset), used: map[string]bool{}, shared: map[string]bool{}}
	w.g = &w.m.Graph
	return w
}

// ints adds a constant of integers, once.
func (w *writer) ints(name string, v ...int) string {
	if w.shared[name] {
		return name
	}
	w.shared[name] = true
	long := make([]int64, len(v))
	for i := range v {
		long[i] = int64(v[i])
	}
	return w.g.Constant(onnx.Ints(name, []int64{int64(len(v))}, long))
}

// number adds a constant number, once.
func (w *writer) number(name string, v float32) string { return w.floats(name, []float32{v}) }

// floats adds a constant, once.
func (w *writer) floats(name string, v []float32, dims ...int) string {
	if w.shared[name] {
		return name
	}
	w.shared[name] = true
	long := make([]int64, len(dims))
	for i := range dims {
		long[i] = int64(dims[i])
	}
	return w.g.Constant(onnx.Floats(name, long, v))
}

// holds reports whether the file has a tensor.
func (w *writer) holds(name string) bool {
	_, ok := w.f.Tensor(name)
	return ok
}

// vector reads n numbers, or nil if the tensor is absent.
func (w *writer) vector(name string, n int) ([]float32, error) {
	t, ok := w.f.Tensor(name)
	if !ok {
		return nil, nil
	}
	if t.Elements() != n || !quant.CanDequantize(t.Type) {
		return nil, fmt.Errorf("tensor %s: got %v of %v, want %d numbers", name, t.Dims, t.Type, n)
	}
	w.used[name] = true
	out := make([]float32, n)
	quant.Dequantize(out, t.Data, t.Type)
	return out, nil
}

// matrix is a part of a tensor of the file that multiplies rows.
type matrix struct {
	as     string // name of the result
	tensor string // without .weight
	in     int
	rows   []int   // of the tensor, in order
	all    int     // rows of the tensor
	scale  float32 // factor of the weights; 0: 1
	bias   float32 // factor of the bias; 0: 1
}

// rows returns n numbers from first on.
func rows(first, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = first + i
	}
	return out
}

// product writes x·Wᵀ + bias.
func (w *writer) product(x string, m matrix) (string, error) {
	weight, err := w.weight(m)
	if err != nil {
		return "", err
	}
	bias, err := w.vector(m.tensor+".bias", m.all)
	if err != nil {
		return "", err
	}
	if bias == nil {
		return w.g.Add("MatMul", []string{x, weight}, m.as), nil
	}
	part := make([]float32, len(m.rows))
	for i, row := range m.rows {
		part[i] = bias[row] * cmp.Or(m.bias, 1)
	}
	y := w.g.Add("MatMul", []string{x, weight}, m.as+".product")
	return w.g.Add("Add", []string{y, w.floats(m.as+".bias", part, len(part))}, m.as), nil
}

// weight writes the rows of a tensor, transposed as ONNX multiplies.
func (w *writer) weight(m matrix) (string, error) {
	name := m.tensor + ".weight"
	t, ok := w.f.Tensor(name)
	if !ok {
		return "", fmt.Errorf("missing tensor %s", name)
	}
	if t.Dims[0] != m.in || t.Rows() != m.all || !quant.CanDequantize(t.Type) {
		return "", fmt.Errorf("tensor %s: got %v of %v, want [%d %d]", name, t.Dims, t.Type, m.in, m.all)
	}
	w.used[name] = true
	size, n := t.Type.RowBytes(m.in), len(m.rows)
	one, out := make([]float32, m.in), make([]float32, m.in*n)
	for j, row := range m.rows {
		quant.Dequantize(one, t.Data[row*size:(row+1)*size], t.Type)
		for i, v := range one {
			out[i*n+j] = v * cmp.Or(m.scale, 1)
		}
	}
	return w.g.Constant(onnx.Floats(m.as+".weight", []int64{int64(m.in), int64(n)}, out)), nil
}

// unused refuses tensors of layer i that were not written.
func (w *writer) unused(i int) error {
	at := arch.Block(i)
	for _, name := range w.f.Names() {
		if strings.HasPrefix(name, at) && !w.used[name] {
			return fmt.Errorf("%w: tensor %s", ErrUnsupported, name)
		}
	}
	return nil
}
