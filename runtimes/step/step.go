// Package step makes a language model of functions of fixed shapes that read
// some positions at a time: what accelerators compute (core/gguf/window).
//
// The functions are an engine's; what stands around them is here: embeddings,
// which are rows of the GGUF file, rotation and mask, keys and values between
// one pass and the next, choosing tokens. A [New] model is a language model
// that takes vectors beside tokens and gives logits and hidden states. It holds
// as many positions as the functions have places for keys and values; what does
// not fit is [runtimes.ErrFull].
//
// [Record] says which GGUF file functions were made of, so that no others are
// put around them.
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
	"mm-abi.org/mm/runtimes"
)

// Pass is a function that reads so many positions at a time.
type Pass struct {
	Positions int
	Function  runtimes.Function
}

// Options say what a model is made of.
type Options struct {
	// Model is the file that the passes were made of. It is closed with the
	// model.
	Model  *gguf.File
	Window int    // W, places for keys and values in every pass
	Passes []Pass // at least one; closed with the model
	// Context is the most positions of a sequence; 0, or more than the window:
	// the window.
	Context int
	Time    time.Duration // of one Feed, or until the next token of a Generate; 0: no limit
}

// New makes a language model. Options.Model and the passes are its own from
// then on, and still the caller's after an error.
func New(opt Options) (*Model, error) {
	s, err := arch.Read(opt.Model)
	if err != nil {
		return nil, err
	}
	e, ok := opt.Model.Tensor(arch.TokenEmbedding)
	if !ok || e.Data == nil || e.Dims[0] != s.Width || e.Rows() != s.Vocab || !quant.CanDequantize(e.Type) {
		return nil, fmt.Errorf("the model has no %s of %d times %d", arch.TokenEmbedding, s.Vocab, s.Width)
	}
	if opt.Window < 1 || opt.Window > s.Context {
		return nil, fmt.Errorf("a window of %d positions, and the model has %d", opt.Window, s.Context)
	}
	m := &Model{file: opt.Model, shape: s, embedding: e, window: opt.Window, context: opt.Window, limit: opt.Time, passes: slices.Clone(opt.Passes)}
	if opt.Context > 0 {
		m.context = min(m.context, opt.Context)
	}
	slices.SortFunc(m.passes, func(a, b Pass) int { return a.Positions - b.Positions })
	if n := len(m.passes); n == 0 || m.passes[0].Positions < 1 || m.passes[n-1].Positions > opt.Window {
		return nil, fmt.Errorf("%d passes for a window of %d positions", n, opt.Window)
	}
	return m, nil
}

// Model is the functions and what stands around them: a [runtimes.Language]
// and a [runtimes.Embedder].
type Model struct {
	shape     arch.Shape
	embedding gguf.Tensor
	window    int
	context   int
	limit     time.Duration
	passes    []Pass // the shortest first

	mu   sync.RWMutex // held while the file is read
	file *gguf.File   // nil: closed
}

// Shape is the size of the model; its context is the window.
func (m *Model) Shape() runtimes.Shape {
	return runtimes.Shape{Vocab: m.shape.Vocab, Width: m.shape.Width, Context: m.context}
}

// Embed gives the rows of the token embedding.
func (m *Model) Embed(tokens []int32) ([]float32, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.file == nil {
		return nil, fmt.Errorf("the model is %w", runtimes.ErrClosed)
	}
	for _, id := range tokens {
		if id < 0 || int(id) >= m.shape.Vocab {
			return nil, fmt.Errorf("token %d: the model has %d", id, m.shape.Vocab)
		}
	}
	width, bytes := m.shape.Width, len(m.embedding.Data)/m.shape.Vocab
	out := make([]float32, len(tokens)*width)
	for i, id := range tokens {
		quant.Dequantize(out[i*width:(i+1)*width], m.embedding.Data[int(id)*bytes:(int(id)+1)*bytes], m.embedding.Type)
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

// NewSequence begins an empty sequence.
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
		return nil, fmt.Errorf("a sequence of %d positions: the model has room for %d", n, m.context)
	}
	s := &sequence{m: m, context: n, hidden: opt.Hidden}
	for range 2 * m.shape.Layers {
		s.held = append(s.held, make([]byte, bytesOf*m.shape.KVHeads*m.window*m.shape.HeadDim))
	}
	return s, nil
}
