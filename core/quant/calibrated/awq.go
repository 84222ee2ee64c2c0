// Package calibrated quantizes weights using statistics of the inputs that a
// model sees on a text: importance matrices ([ReadImatrix]), activation-aware
// scaling ([SearchFactors]) and error feedback between columns ([NewRounder]).
package calibrated

import (
	"context"
	"fmt"
	"io"
	"math"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// Factors holds the multipliers of a tensor.
type Factors struct {
	Columns []float32 // nil: none; for a vector: of its elements
	Rows    []float32 // nil: none
}

// steps is the number of α between 0 and 1 that are tried, 1 included.
const steps = 10

// trialRows is the approximate number of rows of a matrix that a trial rounds.
const trialRows = 64

// SearchFactors returns factors that make a model's matrices easier to round,
// by tensor name (AWQ; Lin et al., arXiv 2306.00978). Columns that are
// multiplied with large inputs are scaled up, and the norm or the rows that
// produce these inputs are scaled down by the same factor. The model computes
// the same function, and rounding changes the important columns less.
//
// A factor is (mean square)^(α/2) of its column's inputs, with one α for each
// input, chosen to minimize the cost of rounding sample rows; α = 0 changes
// nothing. The cost is Σ mean square·(rounding error)², so an importance matrix
// is the only statistic of the inputs that is needed.
//
// to returns the type that a tensor will be stored as. Inputs that are not the
// output of a norm or a product, and inputs of experts, are not scaled.
func SearchFactors(ctx context.Context, f *gguf.File, to func(gguf.Tensor) tensor.Type, m *Imatrix, threads *pool.Pool) (map[string]Factors, error) {
	s := search{file: f, to: to, importance: m, threads: threads, found: make(map[string]Factors)}
	name, _ := gguf.Get[string](f, gguf.KeyArchitecture)
	layers, _ := gguf.GetOr[uint32](f, gguf.KeyBlockCount.In(name), 0)
	for i := range min(layers, gguf.MaxBlocks) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, in := range s.inputs(fmt.Sprintf("blk.%d.", i)) {
			if err := s.input(in); err != nil {
				return nil, err
			}
		}
	}
	return s.found, nil
}

type search struct {
	file       *gguf.File
	to         func(gguf.Tensor) tensor.Type
	importance *Imatrix
	threads    *pool.Pool
	found      map[string]Factors
}

// input describes one vector of values that some matrices are multiplied with.
type input struct {
	matrices []string // names of the weights
	vectors  []string // tensors whose elements scale it: a norm, biases
	rows     string   // the matrix whose rows produce it, or ""
	dim      int      // repeat consecutive groups of dim columns come from the same rows; 0: no repetition
	repeat   int
}

// attention lists the matrices that read the norm before them.
var attention = []string{
	"attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_qkv.weight", "attn_q_a.weight", "attn_kv_a_mqa.weight",
	"attn_gate.weight", "ssm_in.weight", "ssm_ba.weight", "ssm_beta.weight", "ssm_alpha.weight", "shortconv.in_proj.weight",
}

// inputs lists the inputs of a layer that can be scaled.
func (s *search) inputs(prefix string) []input {
	has := func(names ...string) bool {
		for _, n := range names {
			if _, ok := s.file.Tensor(prefix + n); !ok {
				return false
			}
		}
		return true
	}
	present := func(names ...string) (out []string) {
		for _, n := range names {
			if has(n) {
				out = append(out, prefix+n)
			}
		}
		return out
	}
	var list []input
	wide := present("ffn_gate.weight", "ffn_up.weight")
	experts := has("ffn_gate_inp.weight")
	laurel := has("laurel_l.weight")                         // the norm of attention is added as it is
	normalized := laurel || has("layer_output_scale.weight") // values
	second := "ffn_norm"
	if !has("ffn_norm.weight") && has("attn_norm.weight", "post_attention_norm.weight") {
		second = "post_attention_norm" // another name
	}
	if has("attn_norm_2.weight") { // of attention; attn_norm is that of the feed-forward layer
		queries := input{matrices: present(attention...), vectors: present("attn_norm_2.weight", "attn_norm_2.bias")}
		list = append(list, queries, input{matrices: wide, vectors: present("attn_norm.weight", "attn_norm.bias")})
	} else if has("attn_norm.weight") && !laurel {
		in := input{matrices: present(attention...), vectors: present("attn_norm.weight", "attn_norm.bias")}
		if !has(second + ".weight") { // attention and feed-forward share the norm
			in.matrices = append(in.matrices, wide...)
		}
		if !experts || has(second+".weight") {
			list = append(list, in)
		}
	}
	if has(second+".weight") && !experts {
		list = append(list, input{matrices: wide, vectors: present(second+".weight", second+".bias")})
	}
	if has("attn_v.weight", "attn_output.weight") && !normalized {
		v, _ := s.file.Tensor(prefix + "attn_v.weight")
		o, _ := s.file.Tensor(prefix + "attn_output.weight")
		heads := s.keyHeads()
		if len(v.Dims) == 2 && heads > 0 && v.Dims[1]%int(heads) == 0 && o.Dims[0]%v.Dims[1] == 0 {
			list = append(list, input{
				matrices: present("attn_output.weight"), vectors: present("attn_v.bias"), rows: prefix + "attn_v.weight",
				dim: v.Dims[1] / int(heads), repeat: o.Dims[0] / v.Dims[1],
			})
		}
	}
	if has("ffn_gate.weight", "ffn_up.weight", "ffn_down.weight") { // act(gate) ⊙ up
		list = append(list, input{matrices: present("ffn_down.weight"), vectors: present("ffn_up.bias"), rows: prefix + "ffn_up.weight"})
	}
	return list
}

// keyHeads returns the number of key heads of the layers of attention, or 0 if it is
// not the same in all.
func (s *search) keyHeads() uint32 {
	name, _ := gguf.Get[string](s.file, gguf.KeyArchitecture)
	layers, _ := gguf.GetOr[uint32](s.file, gguf.KeyBlockCount.In(name), 0)
	key := gguf.KeyHeadCountKV.In(name)
	if !s.file.Has(key) {
		heads, _ := gguf.GetOr[uint32](s.file, gguf.KeyHeadCount.In(name), 0)
		return heads
	}
	all, err := s.file.PerLayer(key, int(min(layers, gguf.MaxBlocks)))
	if err != nil {
		return 0
	}
	heads := uint32(0)
	for _, n := range all {
		switch {
		case n == 0: // a layer with a state
		case heads == 0:
			heads = n
		case heads != n:
			return 0
		}
	}
	return heads
}

// share returns the index of the row that produces column c.
func (in *input) share(c int) int {
	if in.dim == 0 {
		return c
	}
	return c/(in.dim*in.repeat)*in.dim + c%in.dim
}

// input finds the factors of one input.
func (s *search) input(in input) error {
	var matrices []sampledMatrix
	cols := 0
	for _, name := range in.matrices {
		t, _ := s.file.Tensor(name)
		if len(t.Dims) != 2 || !quant.CanDequantize(t.Type) || cols != 0 && t.Dims[0] != cols {
			return nil // unsupported shape or type
		}
		cols = t.Dims[0]
		if to := s.to(t); quant.CanWeigh(to) {
			rows, err := s.sample(t)
			if err != nil {
				return err
			}
			matrices = append(matrices, sampledMatrix{to, rows})
		}
	}
	if len(matrices) == 0 || !s.takes(&in, cols) {
		return nil
	}
	means, err := s.importance.Means(in.matrices[0], cols, 1)
	if err != nil || means == nil {
		return err
	}
	root := in.roots(means)
	best, factors := math.Inf(1), []float32(nil)
	for step := range steps + 1 {
		f := powers(root, float64(step)/steps)
		if cost := s.cost(matrices, means, f, &in); cost < best {
			best, factors = cost, nil
			if step > 0 {
				factors = f
			}
		}
	}
	if factors != nil {
		s.keep(&in, factors, cols)
	}
	return nil
}

// takes reports whether the tensors that produce the columns have an element
// for each factor and a type that can be written.
func (s *search) takes(in *input, cols int) bool {
	n := in.share(cols-1) + 1
	for _, name := range in.vectors {
		if t, _ := s.file.Tensor(name); len(t.Dims) != 1 || t.Dims[0] != n || !quant.CanDequantize(t.Type) || !quant.CanQuantize(s.to(t)) {
			return false
		}
	}
	if in.rows == "" {
		return len(in.vectors) > 0
	}
	t, _ := s.file.Tensor(in.rows)
	return len(t.Dims) == 2 && t.Dims[1] == n && quant.CanDequantize(t.Type) && quant.CanQuantize(s.to(t))
}

// roots returns the root mean square of the columns that each row produces.
func (in *input) roots(means []float32) []float64 {
	n := in.share(len(means)-1) + 1
	root, counts := make([]float64, n), make([]float64, n)
	for c, v := range means {
		root[in.share(c)] += float64(v)
		counts[in.share(c)]++
	}
	for i := range root {
		root[i] = math.Sqrt(root[i] / counts[i])
	}
	return root
}

// powers returns root^α, scaled so that the geometric mean of the extremes is
// 1. Inputs that are always zero get the smallest factor.
func powers(root []float64, alpha float64) []float32 {
	lo, hi := math.Inf(1), 0.0
	for _, v := range root {
		if v > 0 {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	f := make([]float32, len(root))
	if hi == 0 {
		lo, hi = 1, 1
	}
	lo = max(lo, hi*1e-4)
	middle := math.Sqrt(math.Pow(lo, alpha) * math.Pow(hi, alpha))
	for i, v := range root {
		f[i] = float32(math.Pow(max(v, lo), alpha) / middle)
	}
	return f
}

// sampledMatrix holds some rows of a matrix.
type sampledMatrix struct {
	to   tensor.Type
	rows []float32
}

// sample reads evenly spaced rows of a tensor.
func (s *search) sample(t gguf.Tensor) ([]float32, error) {
	n, step := t.Dims[0], max(1, t.Dims[1]/trialRows)
	size := int64(t.Type.RowBytes(n))
	src, b := s.file.Section(t), make([]byte, size)
	var out []float32
	row := make([]float32, n)
	for i := 0; i < t.Dims[1]; i += step {
		if _, err := src.ReadAt(b, int64(i)*size); err != nil && err != io.EOF {
			return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		quant.Dequantize(row, b, t.Type)
		out = append(out, row...)
	}
	return out, nil
}

// cost returns the cost of rounding the sample rows with the factors applied.
func (s *search) cost(matrices []sampledMatrix, means, factors []float32, in *input) float64 {
	cols := len(means)
	scaled := make([]float32, cols) // means of the inputs divided by the factors
	for c, v := range means {
		f := factors[in.share(c)]
		scaled[c] = v / f / f
	}
	sum := 0.0
	for _, m := range matrices {
		rows := len(m.rows) / cols
		costs := make([]float64, rows)
		s.threads.For(rows, 4, pool.Func(func(_, lo, hi int) {
			x, back, b := make([]float32, cols), make([]float32, cols), make([]byte, m.to.RowBytes(cols))
			for r := lo; r < hi; r++ {
				for c, v := range m.rows[r*cols : (r+1)*cols] {
					x[c] = v * factors[in.share(c)]
				}
				quant.QuantizeWeighted(b, x, scaled, m.to)
				quant.Dequantize(back, b, m.to)
				for c, v := range back {
					d := float64(v - x[c])
					costs[r] += float64(scaled[c]) * d * d
				}
			}
		}))
		for _, c := range costs {
			sum += c
		}
	}
	return sum
}

// keep records the factors of the matrices and the inverse factors of the
// tensors that produce their inputs.
func (s *search) keep(in *input, factors []float32, cols int) {
	columns, inverse := make([]float32, cols), make([]float32, len(factors))
	for c := range columns {
		columns[c] = factors[in.share(c)]
	}
	for i, v := range factors {
		inverse[i] = 1 / v
	}
	for _, name := range in.matrices {
		f := s.found[name]
		f.Columns = columns
		s.found[name] = f
	}
	for _, name := range in.vectors {
		s.found[name] = Factors{Columns: inverse}
	}
	if in.rows != "" {
		f := s.found[in.rows]
		f.Rows = inverse
		s.found[in.rows] = f
	}
}
