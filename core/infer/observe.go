package infer

import "mm-abi.org/mm/core/quant/panel"

// Observer receives the inputs of a model's matrices.
type Observer interface {
	// Observe is called before each product with its input rows, len(x)/cols of
	// them, which are valid until it returns. names are the tensors that share
	// the rows; expert is the index of their matrix. Rows come in the order of
	// the text.
	Observe(names []string, expert int, x []float32, cols int)
}

// Observe sets the observer of every product of what the session reads from now
// on; nil removes it. All rows then pass all layers. The token embedding is
// reported as the output matrix if it is tied.
func (s *Session) Observe(o Observer) { s.observer = o }

// observe reports a product to the pass's observer.
func (w *work) observe(batch *panel.Batch, terms ...term) {
	if w.observer == nil {
		return
	}
	var names []string
	for _, t := range terms {
		if n := t.by.name; len(names) == 0 || names[len(names)-1] != n {
			names = append(names, n)
		}
	}
	w.observer.Observe(names, terms[0].by.expert, batch.From(0), batch.Cols())
}
