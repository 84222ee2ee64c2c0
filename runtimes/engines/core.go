// Package engines holds the engines of local models: Core and ONNX in pure Go, in this
// process, on any machine; LlamaCPP, ONNXRuntime, LiteRT and OpenVINO with the library of
// that name in a child process (runtimes/worker, cmd/mm-native).
package engines

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/runtimes"
)

// Core opens language models in GGUF files with core/infer. The zero value is ready.
type Core struct{}

// coreFormat is the format of the engine's files.
const coreFormat = abi.GGUF

// Name returns "core".
func (Core) Name() string { return "core" }

// Probe describes the engine, which is always available.
func (Core) Probe(context.Context) (runtimes.Info, error) {
	return runtimes.BuiltIn(coreFormat), nil
}

// Can requires a GGUF file of a language model or an adapter.
func (Core) Can(part builds.Part) error {
	if part.Files.Entry(coreFormat) == "" {
		return &runtimes.Unavailable{What: part.ID(), Why: "the core backend reads GGUF, and the target ships none of it", Hint: "assemble with --export gguf=int8"}
	}
	return nil
}

// kvTypes maps the types of KV caches to the engine's names. An 8-bit float is stored as
// 8-bit integers with scales, as assemble documents.
var kvTypes = map[abi.DType]string{"": "", abi.FP32: "f32", abi.FP16: "f16", abi.BF16: "f16", abi.Int8: "q8_0", abi.FP8: "q8_0"}

// Open loads the part's GGUF file with its draft model and adapters. It starts no more
// threads than the machine has processors.
func (e Core) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	if err := l.OnlyCPU(e.Name()); err != nil {
		return nil, err
	}
	kv, ok := kvTypes[b.KV]
	if !ok {
		return nil, fmt.Errorf("unsupported type of KV cache: %s", b.KV)
	}
	m := &model{kv: kv, proposed: b.DraftTokens, lookup: !b.NoDraft, limit: l.Time}
	opt := infer.Options{Threads: min(l.Threads, runtime.NumCPU())}
	left := l.Memory
	for _, a := range b.Adapters {
		path, err := e.entry(&a.Bundle, l, &left)
		if err != nil {
			return nil, err
		}
		if scale := float32(a.Scale); scale != 0 { // at 0 it has no effect
			opt.Adapters = append(opt.Adapters, infer.AdapterOptions{Path: path, Scale: scale})
		}
	}
	opt.KVMemory = int(l.KV)
	err := e.load(ctx, &m.weights, &b, l, &left, opt)
	opt.KVMemory = 0
	if err == nil && b.Draft != nil {
		opt.Adapters = nil
		err = e.load(ctx, &m.draft, b.Draft, l, &left, opt)
	}
	if err == nil {
		err = m.fit(&b)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// entry returns the path of a part's file and counts it against the memory left.
func (e Core) entry(b *runtimes.Bundle, l runtimes.Limits, left *int64) (string, error) {
	if err := e.Can(b.Part); err != nil {
		return "", err
	}
	return b.Weights(coreFormat, l, left)
}

func (e Core) load(ctx context.Context, to **infer.Model, b *runtimes.Bundle, l runtimes.Limits, left *int64, opt infer.Options) error {
	path, err := e.entry(b, l, left)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	*to, err = infer.Load(path, opt)
	return err
}

// model is a language model with its draft model.
type model struct {
	weights  *infer.Model
	draft    *infer.Model // nil: none
	proposed int          // draft tokens at a time
	lookup   bool         // without a draft model, propose continuations found earlier in the text
	kv       string
	context  int
	limit    time.Duration
}

// fit checks that the files match the build's contract.
func (m *model) fit(b *runtimes.Bundle) error {
	c := m.weights.Config()
	if n := b.Tokens.DModel; n != 0 && n != c.Width {
		return fmt.Errorf("the file of %s has d_model %d, the build has %d", b.Part.ID(), c.Width, n)
	}
	if m.draft != nil && m.draft.Config().Vocab != c.Vocab {
		return fmt.Errorf("draft core %s has %d tokens, the core has %d", b.Draft.Part.ID(), m.draft.Config().Vocab, c.Vocab)
	}
	m.context = c.Context
	if n := b.Tokens.MaxSeq; n > 0 {
		m.context = min(m.context, n)
	}
	return nil
}

// Shape returns the size of the model, with the context of the build.
func (m *model) Shape() runtimes.Shape {
	c := m.weights.Config()
	return runtimes.Shape{Vocab: c.Vocab, Width: c.Width, Context: m.context, Deep: c.Deep, Grid: c.Rope.Sections != [3]int{}, Mutual: true}
}

// Embed returns rows of the token embedding.
func (m *model) Embed(tokens []int32) ([]float32, error) {
	v, err := m.weights.Embed(tokens)
	return v, closed(err)
}

// Close frees the models.
func (m *model) Close() error {
	var errs []error
	for _, w := range []*infer.Model{m.weights, m.draft} {
		if w != nil {
			errs = append(errs, w.Close())
		}
	}
	return errors.Join(errs...)
}

// closed maps infer's errors to those of runtimes.
func closed(err error) error {
	if errors.Is(err, infer.ErrMemory) {
		return fmt.Errorf("%w: %w", runtimes.ErrFull, err)
	}
	if errors.Is(err, infer.ErrClosed) {
		return fmt.Errorf("the model is %w", runtimes.ErrClosed)
	}
	return err
}
