package infer

import "mm-abi.org/mm/core/quant/panel"

// Observer is told what the matrices of a model are multiplied with.
type Observer interface {
	// Observe is called before each product with the rows that go into it,
	// len(x)/cols of them, which are valid until it returns. names are the
	// tensors that share them; expert is which matrix of theirs it is. Rows
	// come in the order of the text.
	Observe(names []string, expert int, x []float32, cols int)
}

// Observe has o told of every product of what the session reads from now on;
// nil ends that. All rows then go through all layers. The token embedding is
// told of as the output matrix it also is.
func (s *Session) Observe(o Observer) { s.observer = o }

// observe tells the pass's observer of a product.
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
