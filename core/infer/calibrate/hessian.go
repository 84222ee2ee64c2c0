package calibrate

import (
	"context"
	"fmt"
	"slices"

	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/infer/score"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/core/tokenizer"
)

// Hessians gives Σ x·xᵀ over the inputs x of matrices: what GPTQ needs. They
// are large, the square of the columns, so that the text is read once for as
// many of them as fit into a budget.
type Hessians struct {
	m       *infer.Model
	windows []score.Window
	names   []string       // in the order in which they are wanted
	cols    map[string]int // of the matrices
	budget  int64
	held    map[string][]float32
}

// HessianBudget is the memory in bytes that Hessians are held in unless they
// are told otherwise; a single one may take more.
const HessianBudget = 1 << 30

// NewHessians prepares those of the matrices called names, which will be asked
// for in that order, over a text. budget is in bytes; 0 means [HessianBudget].
func NewHessians(m *infer.Model, tok *tokenizer.Tokenizer, text string, names []string, budget int64, opt Options) (*Hessians, error) {
	windows, err := opt.cut(m, tok, text)
	if err != nil {
		return nil, err
	}
	h := &Hessians{m: m, windows: windows, cols: make(map[string]int), budget: budget}
	if h.budget == 0 {
		h.budget = HessianBudget
	}
	f := m.File()
	for _, n := range names {
		if t, ok := f.Tensor(n); ok && len(t.Dims) == 2 {
			h.names = append(h.names, n)
			h.cols[n] = t.Dims[0]
		}
	}
	return h, nil
}

// Of gives a matrix' Hessian, columns × columns, or nil where it was not asked
// for or nothing is multiplied with it. It is valid until the next call.
func (h *Hessians) Of(ctx context.Context, name string) ([]float32, error) {
	if sum, ok := h.held[name]; ok {
		return sum, nil
	}
	at := slices.Index(h.names, name)
	if at < 0 {
		return nil, nil
	}
	// As many as fit, from this one on; those that share an input take room
	// once, but which do is seen only when the text is read.
	p := &products{wanted: make(map[string]bool), held: make(map[string][]float32)}
	p.by.Threads = h.m.Threads()
	left := h.budget
	for _, n := range h.names[at:] {
		size := 4 * int64(h.cols[n]) * int64(h.cols[n])
		if left -= size; left < 0 && n != name {
			break
		}
		p.wanted[n] = true
	}
	h.held = nil
	if err := read(ctx, h.m, h.windows, p); err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	h.held = p.held
	for n := range p.wanted {
		if _, ok := h.held[n]; !ok {
			h.held[n] = nil
		}
	}
	return h.held[name], nil
}

// products adds up x·xᵀ.
type products struct {
	wanted map[string]bool
	held   map[string][]float32
	by     tensor.Multiplier[float32]
}

// Observe adds the products of rows.
func (p *products) Observe(names []string, expert int, x []float32, cols int) {
	if expert != 0 {
		return
	}
	first := slices.IndexFunc(names, func(n string) bool { return p.wanted[n] })
	if first < 0 {
		return
	}
	sum := p.held[names[first]]
	if sum == nil {
		sum = make([]float32, cols*cols)
		for _, n := range names {
			if p.wanted[n] {
				p.held[n] = sum
			}
		}
	}
	p.by.Do(tensor.Product[float32]{
		M: cols, N: cols, K: len(x) / cols, Alpha: 1, Beta: 1,
		A: tensor.Columns(x, cols), B: x, LDB: cols, C: sum, LDC: cols,
	})
}
