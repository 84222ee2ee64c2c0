// Package llamacpp is the engine called llamacpp: GGUF language models by
// llama.cpp's library, in a child process (runtimes/worker, cmd/mm-native).
//
// A file is held against the rules of core/gguf, core/infer and core/tokenizer
// before the library sees it, so that only the architectures that mm knows are
// opened: the library's own reader has been wrong about hostile files many
// times. Tokens are drawn by core/infer/sample there as well; a seed gives the
// text that it gives elsewhere wherever the logits are the same. A draft core
// is not used, which changes no text.
package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/infer/adapter"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/worker"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// Engine opens language models.
type Engine struct {
	// Home gives mm's home folder, where engines are installed.
	Home func() (string, error)
	// Version is what the installed version that computes begins with; "": the
	// newest.
	Version string
}

// At is the engine at a version.
func (e Engine) At(version string) runtimes.Engine { return Engine{Home: e.Home, Version: version} }

func (e Engine) libraries() native.Libraries {
	return native.Libraries{Name: native.LlamaCPP, Home: e.Home, Version: e.Version}
}

// Name is "llamacpp".
func (Engine) Name() string { return native.LlamaCPP }

// Aliases is the format's name, by which graphs call the engine.
func (Engine) Aliases() []string { return []string{string(abi.GGUF), "llama.cpp"} }

// Probe starts the engine and asks it.
func (e Engine) Probe(ctx context.Context) (runtimes.Info, error) {
	return e.libraries().Probe(ctx)
}

// Can wants a GGUF file.
func (Engine) Can(part builds.Part) error {
	if part.Files.Entry(abi.GGUF) == "" {
		return &runtimes.Unavailable{What: part.ID(), Why: "the llamacpp backend reads GGUF, and the target ships none of it", Hint: "assemble with --export gguf=int8"}
	}
	return nil
}

const device = "cpu"

// Open checks the files and has the engine load them.
func (e Engine) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	if err := errors.Join(l.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	if l.Device != "" && l.Device != device {
		return nil, &runtimes.Unavailable{What: "device " + l.Device, Why: "the llamacpp backend computes on the processor", Hint: "leave the device out"}
	}
	left := l.Memory
	path, err := e.entry(&b, l, &left)
	if err != nil {
		return nil, err
	}
	o := wire.Open{Name: b.Part.Name, Version: b.Part.Version, Type: b.Part.Type, Format: abi.GGUF, Path: path, Tokens: b.Tokens, KV: b.KV, Limits: l}
	for _, a := range b.Adapters {
		path, err := e.entry(&a.Bundle, l, &left)
		if err != nil {
			return nil, err
		}
		if a.Scale != 0 { // at 0 it changes nothing
			o.Adapters = append(o.Adapters, wire.Adapter{Path: path, Scale: a.Scale})
		}
	}
	cfg, err := inspect(&o)
	if err != nil {
		return nil, fmt.Errorf("checking %s: %w", b.Part.ID(), err)
	}
	if n := b.Tokens.DModel; n != 0 && n != cfg.Width {
		return nil, fmt.Errorf("the file of %s has d_model %d, the build %d", b.Part.ID(), cfg.Width, n)
	}
	opt, err := e.libraries().Worker(l.Memory)
	if err != nil {
		return nil, err
	}
	m, err := worker.Open(ctx, opt, o)
	if err != nil {
		return nil, err
	}
	open, ok := m.(runtimes.Language)
	if !ok {
		return nil, errors.Join(errors.New("llama.cpp opened no language model"), m.Close())
	}
	if s := open.Shape(); s.Vocab != cfg.Vocab || s.Width != cfg.Width {
		return nil, errors.Join(fmt.Errorf("llama.cpp reads a model of %d tokens and d_model %d out of %s, mm one of %d and %d", s.Vocab, s.Width, b.Part.ID(), cfg.Vocab, cfg.Width), m.Close())
	}
	return &model{Language: open, path: path, width: cfg.Width, vocab: cfg.Vocab, scaled: cfg.EmbeddingScale != 0 && cfg.EmbeddingScale != 1}, nil
}

// entry is the path of a part's file, which counts against the memory that is
// left.
func (e Engine) entry(b *runtimes.Bundle, l runtimes.Limits, left *int64) (string, error) {
	if err := e.Can(b.Part); err != nil {
		return "", err
	}
	path, err := b.Entry(abi.GGUF)
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

// inspect checks all of the files that the library will read.
func inspect(o *wire.Open) (arch.Shape, error) {
	f, err := gguf.Open(o.Path)
	if err != nil {
		return arch.Shape{}, err
	}
	defer f.Close()
	cfg, err := infer.CheckFile(f)
	if err != nil {
		return cfg, err
	}
	for _, a := range o.Adapters {
		if err := suits(a.Path, f, cfg); err != nil {
			return cfg, err
		}
	}
	v, err := tokenizer.VocabularyFromGGUF(f)
	if errors.Is(err, tokenizer.ErrNoVocabulary) {
		return cfg, nil
	}
	if err == nil && len(v.Tokens) != cfg.Vocab {
		err = fmt.Errorf("the tokenizer has %d tokens, the model %d", len(v.Tokens), cfg.Vocab)
	}
	if err == nil {
		_, err = tokenizer.New(v)
	}
	return cfg, err
}

// suits checks an adapter against the model's file.
func suits(path string, f *gguf.File, cfg arch.Shape) error {
	changes, err := adapter.Open(path, adapter.Model{Arch: cfg.Arch, Heads: cfg.Heads, KVHeads: cfg.KVHeads, HeadDim: cfg.HeadDim, Interleaved: !cfg.Rope.Halves})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		c := changes[name]
		t, ok := f.Tensor(name)
		if !ok || len(t.Dims) < 2 || t.Dims[0] != c.In || t.Dims[1] != c.Out {
			return fmt.Errorf("the adapter changes %s of %d to %d, which the model does not have", name, c.In, c.Out)
		}
		if c.Magnitude != nil {
			return &runtimes.Unavailable{What: "a DoRA adapter", Why: "llama.cpp applies LoRA only", Hint: "use the core backend"}
		}
	}
	return nil
}

// model adds what llama.cpp does not tell: the vectors that tokens are read
// as, which lie in the file.
type model struct {
	runtimes.Language
	path         string
	width, vocab int
	scaled       bool // tokens are read as multiples of the file's vectors
}

// NewSequence begins a sequence. Where tokens are read as multiples of the
// file's vectors, llama.cpp multiplies a projector's vectors in some
// architectures and not in others: there it takes tokens only.
func (m *model) NewSequence(ctx context.Context, opt runtimes.SequenceOptions) (runtimes.Sequence, error) {
	s, err := m.Language.NewSequence(ctx, opt)
	if err != nil || !m.scaled {
		return s, err
	}
	scorer, ok := s.(runtimes.Scorer)
	states, shows := s.(runtimes.Hidden)
	if !ok || !shows {
		return nil, errors.Join(errors.New("llama.cpp gives no logits, or no states"), s.Close())
	}
	return tokensOnly{s, scorer, states}, nil
}

// tokensOnly is a sequence that takes no vectors.
type tokensOnly struct {
	runtimes.Sequence
	runtimes.Scorer
	runtimes.Hidden
}

func noVectors() error {
	return &runtimes.Unavailable{What: "vector input", Why: "llama.cpp scales the vectors of this architecture in its own way", Hint: "use the core backend"}
}

// Feed appends tokens.
func (s tokensOnly) Feed(ctx context.Context, in ...runtimes.Positions) error {
	if slices.ContainsFunc(in, func(p runtimes.Positions) bool { return len(p.Vectors) > 0 }) {
		return noVectors()
	}
	return s.Sequence.Feed(ctx, in...)
}

// Embed gives the rows of the token embedding.
func (m *model) Embed(tokens []int32) ([]float32, error) {
	if m.scaled {
		return nil, noVectors()
	}
	f, err := gguf.Open(m.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, ok := f.Tensor("token_embd.weight")
	if !ok || t.Elements() != m.width*m.vocab {
		return nil, fmt.Errorf("%s is not the file that was opened", m.path)
	}
	out, n := make([]float32, len(tokens)*m.width), t.Type.RowBytes(m.width)
	for i, id := range tokens {
		if id < 0 || int(id) >= m.vocab {
			return nil, fmt.Errorf("token %d of a vocabulary of %d", id, m.vocab)
		}
		quant.Dequantize(out[i*m.width:(i+1)*m.width], t.Data[int(id)*n:(int(id)+1)*n], t.Type)
	}
	return out, nil
}
