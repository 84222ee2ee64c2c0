package engines

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// LlamaCPP opens GGUF language models. A file passes the checks of core/gguf and
// core/tokenizer before the library reads it, whose reader has had many faults with hostile
// files; those of core/infer as well if its architecture is one of the core's. Other
// architectures are the library's to judge (llamacpp_foreign.go). Tokens are sampled by
// core/infer/sample in the child as well; with the same logits a seed yields the same text
// as elsewhere. A draft core is not used, which does not change the text.
type LlamaCPP struct {
	// Home returns mm's home folder, where engines are installed.
	Home func() (string, error)
	// Version is a prefix of the installed version to use; if empty, the newest.
	Version string
}

// At returns the engine at a version.
func (e LlamaCPP) At(version string) runtimes.Engine { return LlamaCPP{Home: e.Home, Version: version} }

func (e LlamaCPP) libraries() native.Libraries {
	return native.Libraries{Name: native.LlamaCPP, Home: e.Home, Version: e.Version}
}

// Name returns "llamacpp".
func (LlamaCPP) Name() string { return native.LlamaCPP }

// Aliases returns the name of the format, which graphs use, and the project's name.
func (LlamaCPP) Aliases() []string { return []string{string(abi.GGUF), "llama.cpp"} }

// Probe starts the engine and returns its description.
func (e LlamaCPP) Probe(ctx context.Context) (runtimes.Info, error) {
	return e.libraries().Probe(ctx)
}

// Can requires a GGUF file.
func (LlamaCPP) Can(part builds.Part) error {
	if part.Type == abi.Encoder || part.Type == abi.Projector || part.Type == abi.Decoder {
		return &runtimes.Unavailable{What: part.ID(), Why: "the llamacpp backend runs language models, not a part of type " + string(part.Type), Hint: "--backend " + part.Name + "=onnx, or onnxruntime"}
	}
	if part.Files.Entry(abi.GGUF) == "" {
		return &runtimes.Unavailable{What: part.ID(), Why: "the llamacpp backend reads GGUF, and the target ships none of it", Hint: "assemble with --export gguf=int8"}
	}
	return nil
}

// Open checks the files and opens them in the engine.
func (e LlamaCPP) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	if err := errors.Join(l.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	if err := l.OnlyCPU(e.Name()); err != nil {
		return nil, err
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
		if a.Scale != 0 { // at 0 it has no effect
			o.Adapters = append(o.Adapters, wire.Adapter{Path: path, Scale: a.Scale})
		}
	}
	cfg, err := llamaInspect(&o)
	if err != nil {
		return nil, fmt.Errorf("checking %s: %w", b.Part.ID(), err)
	}
	if n := b.Tokens.DModel; n != 0 && n != cfg.Width {
		return nil, fmt.Errorf("the file of %s has d_model %d, the build has %d", b.Part.ID(), cfg.Width, n)
	}
	opt, err := e.libraries().Worker(ctx, l.Memory)
	if err != nil {
		return nil, err
	}
	m, err := worker.Open(ctx, opt, o)
	if err != nil {
		return nil, err
	}
	open, ok := m.(runtimes.Language)
	if !ok {
		return nil, errors.Join(errors.New("llama.cpp did not open a language model"), m.Close())
	}
	s, other := open.Shape(), !slices.Contains(arch.Known(), cfg.Arch)
	if other { // its input may be wider than its embeddings
		cfg.Width = s.Width
	}
	if s.Vocab != cfg.Vocab || s.Width != cfg.Width {
		return nil, errors.Join(fmt.Errorf("llama.cpp reads %d tokens and d_model %d from %s, mm reads %d and %d", s.Vocab, s.Width, b.Part.ID(), cfg.Vocab, cfg.Width), m.Close())
	}
	return &llamaModel{Language: open, path: path, width: cfg.Width, vocab: cfg.Vocab, scaled: other || cfg.EmbeddingScale != 0 && cfg.EmbeddingScale != 1}, nil
}

// entry returns the path of a part's file and counts it against the memory left.
func (e LlamaCPP) entry(b *runtimes.Bundle, l runtimes.Limits, left *int64) (string, error) {
	if err := e.Can(b.Part); err != nil {
		return "", err
	}
	return b.Weights(abi.GGUF, l, left)
}

// llamaInspect checks all files that the library will read.
func llamaInspect(o *wire.Open) (arch.Shape, error) {
	f, err := gguf.Open(o.Path)
	if err != nil {
		return arch.Shape{}, err
	}
	defer f.Close()
	cfg, err := infer.CheckFile(f)
	if errors.Is(err, arch.ErrUnknown) {
		cfg, err = foreign(f)
	}
	if err != nil {
		return cfg, err
	}
	for _, a := range o.Adapters {
		if err := suits(a.Path, f, cfg); err != nil {
			return cfg, err
		}
	}
	tok, err := tokenizer.FromGGUF(f)
	if errors.Is(err, tokenizer.ErrNoVocabulary) {
		return cfg, nil
	}
	if err == nil && tok.Size() != cfg.Vocab {
		err = fmt.Errorf("the tokenizer has %d tokens, the model has %d", tok.Size(), cfg.Vocab)
	}
	return cfg, err
}

// suits checks that an adapter fits the model's file.
func suits(path string, f *gguf.File, cfg arch.Shape) error {
	changes, err := adapter.Open(path, adapter.Model{Arch: cfg.Arch, Heads: cfg.Heads, KVHeads: cfg.KVHeads, HeadDim: cfg.HeadDim, Interleaved: cfg.Reordered()})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		c := changes[name]
		t, ok := f.Tensor(name)
		if !ok || len(t.Dims) < 2 || t.Dims[0] != c.In || t.Dims[1] != c.Out {
			return fmt.Errorf("adapter tensor %s of %d to %d does not match the model", name, c.In, c.Out)
		}
		if c.Magnitude != nil {
			return &runtimes.Unavailable{What: "a DoRA adapter", Why: "llama.cpp applies LoRA only", Hint: "use the core backend"}
		}
	}
	return nil
}

// llamaModel adds the token embeddings, which llama.cpp does not expose, from the file.
type llamaModel struct {
	runtimes.Language
	path         string
	width, vocab int
	scaled       bool // token embeddings are scaled, or may be
}

// NewSequence returns an empty sequence. If token embeddings are scaled, it accepts
// tokens only: llama.cpp also scales a projector's vectors in some architectures.
func (m *llamaModel) NewSequence(ctx context.Context, opt runtimes.SequenceOptions) (runtimes.Sequence, error) {
	s, err := m.Language.NewSequence(ctx, opt)
	if err != nil || !m.scaled {
		return s, err
	}
	scorer, ok := s.(runtimes.Scorer)
	states, shows := s.(runtimes.Hidden)
	if !ok || !shows {
		return nil, errors.Join(errors.New("llama.cpp does not provide logits or states"), s.Close())
	}
	return tokensOnly{s, scorer, states}, nil
}

// tokensOnly is a sequence that refuses vectors.
type tokensOnly struct {
	runtimes.Sequence
	runtimes.Scorer
	runtimes.Hidden
}

func noVectors() error {
	return &runtimes.Unavailable{What: "vector input", Why: "llama.cpp scales the vectors of this architecture differently", Hint: "use the core backend"}
}

// Feed appends tokens.
func (s tokensOnly) Feed(ctx context.Context, in ...runtimes.Positions) error {
	if slices.ContainsFunc(in, func(p runtimes.Positions) bool { return len(p.Vectors) > 0 }) {
		return noVectors()
	}
	return s.Sequence.Feed(ctx, in...)
}

// Embed returns rows of the token embedding.
func (m *llamaModel) Embed(tokens []int32) ([]float32, error) {
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
		return nil, fmt.Errorf("%s was changed after it was opened", m.path)
	}
	out, n := make([]float32, len(tokens)*m.width), t.Type.RowBytes(m.width)
	for i, id := range tokens {
		if id < 0 || int(id) >= m.vocab {
			return nil, fmt.Errorf("token %d out of range: vocabulary of %d", id, m.vocab)
		}
		quant.Dequantize(out[i*m.width:(i+1)*m.width], t.Data[int(id)*n:(int(id)+1)*n], t.Type)
	}
	return out, nil
}
