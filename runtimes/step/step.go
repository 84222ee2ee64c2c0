// Package step builds a language model from functions of fixed shapes that read some
// positions at a time, as accelerators compute them (onnx/window).
//
// An engine provides the functions. This package does the rest: embeddings, which are
// rows of the GGUF file, rotation and mask, keys and values between passes, sampling. A
// [New] model reads vectors as well as tokens and provides logits and hidden states. Its
// context is bounded by the window of the functions; more is [runtimes.ErrFull].
//
// [Record] identifies the GGUF file that functions were compiled from, so that they are
// combined with no other.
package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx/window"
	"mm-abi.org/mm/runtimes"
)

// Pass is a function that reads a fixed number of positions.
type Pass struct {
	Positions int
	Function  runtimes.Function
}

// Options are the components of a model.
type Options struct {
	// Model is the file that the passes were compiled from. It is closed with the
	// model.
	Model  *gguf.File
	Window int    // W, positions of keys and values in every pass
	Passes []Pass // at least one; closed with the model
	// Context bounds the positions of a sequence. If 0, or more than the window, the
	// window bounds them.
	Context int
	Time    time.Duration // of one Feed, or until the next token of a Generate; 0: no limit
}

// New returns a language model. It owns Options.Model and the passes, unless there is an
// error.
func New(opt Options) (*Model, error) {
	s, err := arch.Read(opt.Model)
	if err != nil {
		return nil, err
	}
	e, ok := opt.Model.Tensor(arch.TokenEmbedding)
	if !ok || e.Data == nil || e.Dims[0] != s.Width || e.Rows() != s.Vocab || !quant.CanDequantize(e.Type) {
		return nil, fmt.Errorf("missing tensor %s of %d × %d", arch.TokenEmbedding, s.Vocab, s.Width)
	}
	if opt.Window < 1 || opt.Window > s.Context {
		return nil, fmt.Errorf("window of %d positions, the model has %d", opt.Window, s.Context)
	}
	places, err := window.NewPlaces(opt.Model, opt.Window)
	if err != nil {
		return nil, err
	}
	m := &Model{file: opt.Model, shape: s, places: places, embedding: e, window: opt.Window, context: opt.Window, limit: opt.Time, passes: slices.Clone(opt.Passes)}
	if opt.Context > 0 {
		m.context = min(m.context, opt.Context)
	}
	slices.SortFunc(m.passes, func(a, b Pass) int { return a.Positions - b.Positions })
	if n := len(m.passes); n == 0 || m.passes[0].Positions < 1 || m.passes[n-1].Positions > opt.Window {
		return nil, fmt.Errorf("bad passes: %d for a window of %d positions", n, opt.Window)
	}
	return m, nil
}

// Model implements [runtimes.Language] and [runtimes.Embedder] with passes.
type Model struct {
	shape     arch.Shape
	places    *window.Places
	embedding gguf.Tensor
	window    int
	context   int
	limit     time.Duration
	passes    []Pass // the shortest first

	mu   sync.RWMutex // held while the file is read
	file *gguf.File   // nil: closed
}

// Shape returns the size of the model; its context is the window.
func (m *Model) Shape() runtimes.Shape {
	return runtimes.Shape{Vocab: m.shape.Vocab, Width: m.shape.Width, Context: m.context}
}

// Embed returns rows of the token embedding, scaled if the model does so.
func (m *Model) Embed(tokens []int32) ([]float32, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.file == nil {
		return nil, fmt.Errorf("the model is %w", runtimes.ErrClosed)
	}
	for _, id := range tokens {
		if id < 0 || int(id) >= m.shape.Vocab {
			return nil, fmt.Errorf("token %d out of range: vocabulary of %d", id, m.shape.Vocab)
		}
	}
	width, bytes := m.shape.Width, len(m.embedding.Data)/m.shape.Vocab
	out := make([]float32, len(tokens)*width)
	for i, id := range tokens {
		quant.Dequantize(out[i*width:(i+1)*width], m.embedding.Data[int(id)*bytes:(int(id)+1)*bytes], m.embedding.Type)
	}
	if scale := window.EmbeddingScale(m.shape); scale != 1 {
		tensor.Scale(out, scale)
	}
	return out, nil
}

// Close closes the passes and the file.
func (m *Model) Close() error {
	m.mu.Lock()
	file := m.file
	m.file = nil
	m.mu.Unlock()
	if file == nil {
		return nil
	}
	errs := []error{file.Close()}
	for _, p := range m.passes {
		errs = append(errs, p.Function.Close())
	}
	return errors.Join(errs...)
}

// NewSequence returns an empty sequence.
func (m *Model) NewSequence(_ context.Context, opt runtimes.SequenceOptions) (runtimes.Sequence, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.file == nil {
		return nil, fmt.Errorf("the model is %w", runtimes.ErrClosed)
	}
	n := opt.Context
	if n == 0 {
		n = m.context
	}
	if n < 0 || n > m.context {
		return nil, fmt.Errorf("context of %d positions, the model has %d", n, m.context)
	}
	s := &sequence{m: m, context: n, hidden: opt.Hidden}
	for range 2 * m.shape.Layers {
		s.held = append(s.held, make([]byte, bytesOf*m.shape.KVHeads*m.window*m.shape.HeadDim))
	}
	return s, nil
}
