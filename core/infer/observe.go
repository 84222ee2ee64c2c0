package infer

import (
	"context"
	"fmt"

	"mm-abi.org/mm/core/quant/panel"
)

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

// layerObserver is an Observer that also receives the residual stream.
type layerObserver interface {
	Observer
	// ObserveLayer is called with the input rows of each layer, T×C, and with
	// the output of the last one as that of layer L. x is valid until it returns.
	ObserveLayer(layer int, x []float32)
}

// observeLayer reports the residual stream before a layer.
func (w *work) observeLayer(layer int) {
	if o, ok := w.observer.(layerObserver); ok {
		o.ObserveLayer(layer, w.x[:w.rows*w.m.cfg.Width])
	}
}

// streams collects the residual stream at some layers.
type streams struct {
	at  []int
	out [][]float32
}

func (*streams) Observe([]string, int, []float32, int) {}

func (s *streams) ObserveLayer(layer int, x []float32) {
	for i, at := range s.at {
		if at == layer {
			s.out[i] = append(s.out[i], x...)
		}
	}
}

// Streams reads tokens in a new session and returns the residual stream before
// each of the given layers, n × C numbers each; layer L is the output of
// the last one, before the output norm.
func (m *Model) Streams(ctx context.Context, tokens []int32, layers ...int) ([][]float32, error) {
	for _, i := range layers {
		if i < 0 || i > m.cfg.Layers {
			return nil, fmt.Errorf("layer %d out of range: the model has %d", i, m.cfg.Layers)
		}
	}
	s, err := m.NewSession(SessionOptions{Context: max(len(tokens), 1), KV: "f32"})
	if err != nil {
		return nil, err
	}
	o := &streams{at: layers, out: make([][]float32, len(layers))}
	s.Observe(o)
	if err := s.Feed(ctx, tokens); err != nil {
		return nil, err
	}
	return o.out, nil
}
