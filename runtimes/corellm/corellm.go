// Package corellm is the engine called core: the language models of package
// core/infer, in pure Go, on any machine, in this process. It opens GGUF
// files.
package corellm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/runtimes"
)

// Engine opens language models. The zero value is ready.
type Engine struct{}

// format is the one that the engine reads.
const format = abi.GGUF

// Name is "core".
func (Engine) Name() string { return "core" }

// Probe always finds the engine: it is part of mm.
func (Engine) Probe(context.Context) (runtimes.Info, error) {
	info := runtimes.Info{Version: "(devel)", Devices: []string{device}, Formats: []string{string(format)}, License: "Apache-2.0"}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		info.Version = b.Main.Version
	}
	return info, nil
}

const device = "cpu"

// Can wants a GGUF file of a language model or of an adapter.
func (Engine) Can(part builds.Part) error {
	if part.Files.Entry(format) == "" {
		return &runtimes.Unavailable{What: part.ID(), Why: "the core backend reads GGUF, and the target ships none of it", Hint: "assemble with --export gguf=int8"}
	}
	return nil
}

// kvTypes are the engine's names of the KV cache types. An 8-bit float is
// stored as 8-bit integers with scales, as assemble has said.
var kvTypes = map[abi.DType]string{"": "", abi.FP32: "f32", abi.FP16: "f16", abi.BF16: "f16", abi.Int8: "q8_0", abi.FP8: "q8_0"}

// Open loads the part's GGUF file with its draft model and adapters. More
// threads than the machine has processors only wait for each other; they are
// not started.
func (e Engine) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	if l.Device != "" && l.Device != device {
		return nil, &runtimes.Unavailable{What: "device " + l.Device, Why: "the core backend computes on the processor", Hint: "leave the device out"}
	}
	kv, ok := kvTypes[b.KV]
	if !ok {
		return nil, fmt.Errorf("no KV cache of type %s", b.KV)
	}
	m := &model{kv: kv, proposed: b.DraftTokens, lookup: !b.NoDraft, limit: l.Time}
	opt := infer.Options{Threads: min(l.Threads, runtime.NumCPU())}
	left := l.Memory
	for _, a := range b.Adapters {
		path, err := e.entry(&a.Bundle, l, &left)
		if err != nil {
			return nil, err
		}
		if scale := float32(a.Scale); scale != 0 { // at 0 it changes nothing
			opt.Adapters = append(opt.Adapters, infer.AdapterOptions{Path: path, Scale: scale})
		}
	}
	err := e.load(ctx, &m.weights, &b, l, &left, opt)
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

// entry is the path of a part's file, which counts against the memory that is
// left.
func (e Engine) entry(b *runtimes.Bundle, l runtimes.Limits, left *int64) (string, error) {
	if err := e.Can(b.Part); err != nil {
		return "", err
	}
	path, err := b.Entry(format)
	if err != nil || l.Memory == 0 {
		return path, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("looking at %s: %w", b.Part.ID(), err)
	}
	if *left -= info.Size(); *left < 0 {
		return "", &runtimes.Unavailable{What: b.Part.ID(), Why: fmt.Sprintf("its weights do not fit into %d bytes of memory", l.Memory), Hint: "raise the limit, or export with fewer bits"}
	}
	return path, nil
}

func (e Engine) load(ctx context.Context, to **infer.Model, b *runtimes.Bundle, l runtimes.Limits, left *int64, opt infer.Options) error {
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

// model is a language model with the model that drafts for it.
type model struct {
	weights  *infer.Model
	draft    *infer.Model // nil: none
	proposed int          // tokens at a time
	lookup   bool         // without one, the text proposes what followed before
	kv       string
	context  int
	limit    time.Duration
}

// fit holds the files against what the build says of them.
func (m *model) fit(b *runtimes.Bundle) error {
	c := m.weights.Config()
	if n := b.Tokens.DModel; n != 0 && n != c.Width {
		return fmt.Errorf("the file of %s has d_model %d, the build %d", b.Part.ID(), c.Width, n)
	}
	if m.draft != nil && m.draft.Config().Vocab != c.Vocab {
		return fmt.Errorf("draft core %s has %d tokens, the core %d", b.Draft.Part.ID(), m.draft.Config().Vocab, c.Vocab)
	}
	m.context = c.Context
	if n := b.Tokens.MaxSeq; n > 0 {
		m.context = min(m.context, n)
	}
	return nil
}

// Shape is the size of the model; the context is that of the build.
func (m *model) Shape() runtimes.Shape {
	c := m.weights.Config()
	return runtimes.Shape{Vocab: c.Vocab, Width: c.Width, Context: m.context}
}

// Embed gives the rows of the token embedding.
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

// closed gives infer's error the contract's name.
func closed(err error) error {
	if errors.Is(err, infer.ErrClosed) {
		return fmt.Errorf("the model is %w", runtimes.ErrClosed)
	}
	return err
}
