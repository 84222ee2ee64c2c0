package score

import (
	"context"
	"fmt"
	"slices"

	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/core/tokenizer"
)

// Hessians computes Σ x·xᵀ over the inputs x of matrices, for GPTQ. They are
// large, the square of the columns, so the text is read once for as many as fit
// into a budget.
type Hessians struct {
	m       *infer.Model
	windows []Window
	names   []string       // in the order of use
	cols    map[string]int // of the matrices
	budget  int64
	held    map[string][]float32
}

// HessianBudget is the default memory limit in bytes; a single Hessian may
// exceed it.
const HessianBudget = 1 << 30

// NewHessians prepares the Hessians of the named matrices over a text, to be
// requested in that order. budget is in bytes; if zero, it is [HessianBudget].
func NewHessians(m *infer.Model, tok *tokenizer.Tokenizer, text string, names []string, budget int64, opt Reading) (*Hessians, error) {
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

// Of returns a matrix' Hessian, columns × columns, or nil if it was not
// prepared or its matrix is unused. It is valid until the next call.
func (h *Hessians) Of(ctx context.Context, name string) ([]float32, error) {
	if sum, ok := h.held[name]; ok {
		return sum, nil
	}
	at := slices.Index(h.names, name)
	if at < 0 {
		return nil, nil
	}
	// As many as fit, starting with this one; those that share an input share
	// memory, but which do is known only while reading.
	p := &products{names: make(map[string]bool), held: make(map[string][]float32)}
	p.by.Threads = h.m.Threads()
	room := h.budget
	for _, n := range h.names[at:] {
		size := 4 * int64(h.cols[n]) * int64(h.cols[n])
		if room -= size; room < 0 && n != name {
			break
		}
		p.names[n] = true
	}
	h.held = nil
	if err := read(ctx, h.m, h.windows, p); err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	h.held = p.held
	for n := range p.names {
		if _, ok := h.held[n]; !ok {
			h.held[n] = nil
		}
	}
	return h.held[name], nil
}

// products accumulates x·xᵀ.
type products struct {
	names map[string]bool
	held  map[string][]float32
	by    tensor.Multiplier[float32]
}

// Observe adds the products of rows.
func (p *products) Observe(names []string, expert int, x []float32, cols int) {
	if expert != 0 {
		return
	}
	first := slices.IndexFunc(names, func(n string) bool { return p.names[n] })
	if first < 0 {
		return
	}
	sum := p.held[names[first]]
	if sum == nil {
		sum = make([]float32, cols*cols)
		for _, n := range names {
			if p.names[n] {
				p.held[n] = sum
			}
		}
	}
	p.by.Do(tensor.Product[float32]{
		M: cols, N: cols, K: len(x) / cols, Alpha: 1, Beta: 1,
		A: tensor.Columns(x, cols), B: x, LDB: cols, C: sum, LDC: cols,
	})
}
