// Package window writes layers of a language model in GGUF as an ONNX model of
// a fixed window, for compilers of accelerators, which support neither GGUF nor
// growing lengths.
//
// [Layers] returns a model of some layers, from the residual stream before the
// first to that after the last, hidden [1, T, C] → hidden_out [1, T, C], for
// positions 0 to T-1 with causal attention. Weights are float32, as exact as in
// the file.
//
// It supports the layers of llama: RMSNorm before each half, rotary positions,
// grouped heads of keys and values, SiLU with a gate. Other architectures are
// refused with the unsupported feature.
package window

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/onnx"
)

// Options selects the part to write. The zero value is refused.
type Options struct {
	First, Count int // layers First to First+Count-1
	Positions    int // T
	// Norm includes the norm after the last layer of the model; the result is
	// then output_norm.
	Norm bool
}

const (
	opset        = 17
	maxPositions = 1 << 14
	// masked is the score offset of an invisible position: far below all
	// scores, and finite in 16 bits.
	masked = -10000
)

// writer writes a model.
type writer struct {
	f *gguf.File
	s arch.Shape
	t int // positions
	m *onnx.Model
	g *onnx.Graph

	window int // earlier positions with cached keys and values; 0: none
}

// Layers writes layers of a model as ONNX.
func Layers(f *gguf.File, opt Options) (*onnx.Model, error) {
	s, err := read(f)
	if err != nil {
		return nil, err
	}
	if err := (Span{First: opt.First, Count: opt.Count}).within(s.Layers); err != nil {
		return nil, fmt.Errorf("writing a window: %w", err)
	}
	if opt.Norm && opt.First+opt.Count != s.Layers {
		return nil, fmt.Errorf("writing a window: the norm follows layer %d, not %d", s.Layers-1, opt.First+opt.Count-1)
	}
	if !fits(opt.Positions, s.Context) {
		return nil, fmt.Errorf("writing a window: bad size: got %d positions, limit %d", opt.Positions, s.Context)
	}
	if err := parts(f, s, opt.First, opt.Count); err != nil {
		return nil, fmt.Errorf("writing a window: %w", err)
	}
	w := &writer{f: f, s: s, t: opt.Positions, m: onnx.New("layers", opset)}
	w.g = &w.m.Graph
	w.g.Inputs = []onnx.Value{onnx.TensorValue("hidden", onnx.FLOAT, 1, w.t, s.Width)}
	w.positions()
	w.constants()
	x := "hidden"
	for i := range opt.Count {
		if x, err = w.layer(opt.First+i, x, i == opt.Count-1 && !opt.Norm); err != nil {
			return nil, fmt.Errorf("writing layer %d: %w", opt.First+i, err)
		}
	}
	if opt.Norm {
		if x, err = w.norm("output_norm", x); err != nil {
			return nil, err
		}
	}
	w.g.Outputs = []onnx.Value{onnx.TensorValue(x, onnx.FLOAT, 1, w.t, s.Width)}
	return w.m, nil
}

// read reads the shape of a model whose layers are written.
func read(f *gguf.File) (arch.Shape, error) {
	s, err := arch.Read(f)
	if err != nil {
		return s, fmt.Errorf("writing a window: %w", err)
	}
	if err := supported(s); err != nil {
		return s, fmt.Errorf("writing a window of %s: %w", s.Arch, err)
	}
	return s, nil
}

// supported refuses features that llama's layers lack.
func supported(s arch.Shape) error {
	style := s.Style()
	for what, has := range map[string]bool{
		"a learned position": style.Learned, "LayerNorm": style.LayerNorm, "norms after its halves": style.PostNorm || style.NoPreNorm,
		"norms of its heads": style.HeadNorm != arch.NoHeadNorm, "no gate": !style.Gated, "fused matrices": style.FusedQKV || style.FusedGate,
		"another activation": style.Activation != arch.SiLU || s.Activation != "" && s.Activation != arch.SiLU, "experts": s.Experts > 0, "a sliding window": s.Windowed != nil || s.Local != nil,
		"layers without rotation": s.Unrotated != nil, "parallel halves": s.Parallel, "scales": s.ResidualScale != 0 || s.AttentionScale != 0 || s.AttentionCap != 0,
		"a rotation of another kind": s.Rope.Dims != s.HeadDim || s.Rope.Scaling != "" && s.Rope.Scaling != "none",
	} {
		if has {
			return fmt.Errorf("unsupported: %s", what)
		}
	}
	return nil
}

// parts refuses tensors of the layers that are not written, such as biases.
func parts(f *gguf.File, s arch.Shape, first, count int) error {
	var names []string
	for _, t := range f.Tensors {
		names = append(names, t.Name)
	}
	if err := s.CheckTensors(names); err != nil {
		return err
	}
	for i := range count {
		at := arch.Block(first + i)
		for _, name := range names {
			if part, ok := strings.CutPrefix(name, at); ok && !slices.Contains(written, part) {
				return fmt.Errorf("unsupported tensor %s", name)
			}
		}
	}
	return nil
}

// written lists the supported tensors of a layer.
var written = []string{
	"attn_norm.weight", "attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight", "ffn_norm.weight", "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight",
}

// weight reads a matrix of out rows of in numbers, permuted by rows if set. It
// is written transposed, as ONNX multiplies.
func (w *writer) weight(name string, in int, rows []int) (string, error) {
	t, ok := w.f.Tensor(name)
	if !ok {
		return "", fmt.Errorf("missing tensor %s", name)
	}
	if t.Dims[0] != in {
		return "", fmt.Errorf("%s: bad shape %v", name, t.Dims)
	}
	x := make([]float32, t.Elements())
	quant.Dequantize(x, t.Data, t.Type)
	if rows == nil {
		rows = make([]int, t.Rows())
		for i := range rows {
			rows[i] = i
		}
	}
	out := make([]float32, in*len(rows))
	for j, row := range rows {
		for i := range in {
			out[i*len(rows)+j] = x[row*in+i]
		}
	}
	return w.g.Constant(onnx.Floats(name, []int64{int64(in), int64(len(rows))}, out)), nil
}

// heads returns the order of the rows of queries or keys: rotated pairs are
// half a head apart.
func (w *writer) heads(count int, rotated bool) []int {
	d := w.s.HeadDim
	var rows []int
	for h := range count {
		for i := range d {
			k := i
			if rotated && !w.s.Rope.Halves {
				k = 2*(i%(d/2)) + i/(d/2)
			}
			rows = append(rows, h*d+k)
		}
	}
	return rows
}

// positions adds rotation and mask as constants.
func (w *writer) positions() {
	cos, sin := Rotation(w.s, 0, w.t)
	w.g.Constant(onnx.Floats("cos", []int64{int64(w.t), int64(w.s.HeadDim / 2)}, cos))
	w.g.Constant(onnx.Floats("sin", []int64{int64(w.t), int64(w.s.HeadDim / 2)}, sin))
	w.g.Constant(onnx.Floats("mask", []int64{int64(w.t), int64(w.t)}, Mask(0, w.t, 0)))
}

// constants adds the constants of all layers.
func (w *writer) constants() {
	d, groups := w.s.HeadDim/2, w.s.Heads/w.s.KVHeads
	ints := func(name string, v ...int) {
		long := make([]int64, len(v))
		for i := range v {
			long[i] = int64(v[i])
		}
		w.g.Constant(onnx.Ints(name, []int64{int64(len(v))}, long))
	}
	ints("zero", 0)
	ints("half", d)
	ints("whole", 2*d)
	ints("last", 3)
	ints("split", 1, w.t, w.s.Heads, 2*d)
	ints("split_kv", 1, w.t, w.s.KVHeads, 2*d)
	ints("join", 1, w.t, 2*d*w.s.Heads)
	if groups > 1 {
		ints("shared", 1, w.s.KVHeads, groups*w.t, -1)
		ints("apart", 1, w.s.Heads, w.t, -1)
	}
	w.g.Constant(onnx.Floats("epsilon", nil, []float32{w.s.Epsilon}))
	w.g.Constant(onnx.Floats("root", nil, []float32{float32(1 / math.Sqrt(float64(2*d)))}))
}
