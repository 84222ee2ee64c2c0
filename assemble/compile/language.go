package compile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/window"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/step"
)

// LanguageOptions configures Language.
type LanguageOptions struct {
	Model     string // path of the GGUF file
	Chip      htp.Chip
	Window    int // maximum context length W in tokens; if 0, the model's, at most [DefaultWindow]
	Positions int // tokens n processed at a time; if 0, 1
	// Layers are those in the context; if zero, all. mm's own engine computes the
	// others when the model runs.
	Layers    window.Span
	MinCosine float64 // minimum cosine of any output with mm's own engine; 0: any
	// Out is the context binary to write. OUT_ctx.onnx and OUT.json, the record
	// required to open it, are written next to it, without .bin.
	Out   string
	Force bool      // replace existing files
	Chips htp.Chips // the table of chips; if nil, the built-in one
}

// LanguageMinCosine is the default minimum cosine of an output of a language model.
const LanguageMinCosine = 0.9

// DefaultWindow is the largest default window.
const DefaultWindow = 512

// Language compiles a context of a language model, or of its middle layers: one
// pass over cached keys and values (onnx/window), in 16-bit floats. It is
// compared on text that the model generates.
func Language(ctx context.Context, e Engine, opt LanguageOptions) (result Result, err error) {
	if err := suits(opt.Chip, opt.Model, true); err != nil {
		return result, err
	}
	if err := opt.free(); err != nil {
		return result, err
	}
	f, err := gguf.Open(opt.Model)
	if err != nil {
		return result, fmt.Errorf("compiling: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	s, err := arch.Read(f)
	if err != nil {
		return result, fmt.Errorf("compiling %s: %w", opt.Model, err)
	}
	if opt.Window == 0 {
		opt.Window = min(s.Context, DefaultWindow)
	}
	if opt.Positions == 0 {
		opt.Positions = 1
	}
	m, err := window.Step(f, window.StepOptions{Positions: opt.Positions, Window: opt.Window, Span: opt.Layers})
	if err != nil {
		return result, fmt.Errorf("compiling %s: %w", opt.Model, err)
	}
	stage, err := fsx.MkdirTemp("mm-compile-")
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, fsx.RemoveAll(stage)) }()
	pass := filepath.Join(stage, stem(opt.Out)+".onnx")
	if err := write(pass, m); err != nil {
		return result, err
	}
	inputs, err := opt.read(ctx, pass)
	if err != nil {
		return result, fmt.Errorf("compiling %s: generating text: %w", opt.Model, err)
	}
	result, err = Compile(ctx, e, Options{Model: pass, Chip: opt.Chip, Inputs: inputs, MinCosine: opt.MinCosine, Out: opt.Out, Force: opt.Force, Chips: opt.Chips})
	if err != nil {
		return result, named(err, pass, opt.Model)
	}
	if _, result.Record.Source, err = fsx.Digest(opt.Model); err != nil {
		return result, err
	}
	result.Record.Language = opt.language(s.Vocab)
	result.Record.Language.Model = result.Record.Source
	return result, opt.publish(result.Record)
}

// language returns the record of the model, without its digest.
func (o LanguageOptions) language(vocab int) *step.Record {
	return &step.Record{Vocab: vocab, Window: o.Window, Positions: o.Positions, Span: o.Layers}
}

// record returns the path of the record.
func (o LanguageOptions) record() string {
	return filepath.Join(filepath.Dir(o.Out), stem(o.Out)+".json")
}

// free refuses an existing record.
func (o LanguageOptions) free() error {
	if err := nameable(o.Out); err != nil {
		return err
	}
	info, err := os.Stat(o.record())
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: not a regular file", o.record())
	case !o.Force:
		return fmt.Errorf("%s: %w", o.record(), ErrExists)
	}
	return nil
}

// publish writes the record.
func (o LanguageOptions) publish(r Record) error {
	text, err := r.JSON()
	if err != nil {
		return err
	}
	return qnnfile.Publish(o.record(), o.Force, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// named replaces the path of the pass in an error by that of the model.
func named(err error, pass, model string) error {
	if _, ok := diag.From(err); !ok {
		return fmt.Errorf("compiling %s: %w", model, err)
	}
	return renamed(err, pass, model)
}

// renamed replaces the path of a temporary file in an error by that of the
// original.
func renamed(err error, temp, original string) error {
	list, ok := diag.From(err)
	if !ok {
		return err
	}
	for i := range list {
		if list[i].Pos.File == temp {
			list[i].Pos.File = original
		}
	}
	return list.Err()
}

const (
	// leastRead is the number of generated tokens for the comparison.
	leastRead = 24
	// beginning is the first token if the model declares none.
	beginning = 1
)

// read has the model generate text and returns the inputs of the pass while it
// processes the text, [MostEmulated] at most.
func (o LanguageOptions) read(ctx context.Context, pass string) (_ []map[string]engine.Tensor, err error) {
	part := builds.Part{Name: stem(pass), Type: abi.Encoder, Files: builds.Formats{string(abi.ONNX): {filepath.Base(pass)}}}
	model, err := engines.ONNX{}.Open(ctx, runtimes.Bundle{Part: part, Files: files(filepath.Dir(pass))}, runtimes.Limits{})
	if err != nil {
		return nil, err
	}
	function, ok := model.(runtimes.Function)
	if !ok {
		return nil, errors.Join(errors.New("the pass is not a function"), model.Close())
	}
	heard := &listener{Function: function}
	f, err := gguf.Open(o.Model)
	if err != nil {
		return nil, errors.Join(err, model.Close())
	}
	whole, err := step.Around(ctx, f, *o.language(0), heard, engines.ONNXFunction)
	if err != nil {
		return nil, errors.Join(err, f.Close(), model.Close())
	}
	m, err := step.New(step.Options{Model: f, Window: o.Window, Passes: []step.Pass{{Positions: o.Positions, Function: whole}}})
	if err != nil {
		return nil, errors.Join(err, f.Close(), whole.Close())
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	first, err := gguf.GetOr(f, gguf.KeyBOS, uint32(beginning))
	if err != nil || int(first) >= m.Shape().Vocab {
		first = 0
	}
	text, err := written(ctx, m, int32(first), min(o.Window, max(leastRead, 3*o.Positions)))
	if err != nil {
		return nil, err
	}
	s, err := m.NewSequence(ctx, runtimes.SequenceOptions{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	passes := (len(text) + o.Positions - 1) / o.Positions
	for i := range passes {
		heard.on = i*MostEmulated/passes != (i-1)*MostEmulated/passes || i == 0
		if err := s.Feed(ctx, runtimes.Positions{Tokens: text[i*o.Positions : min(len(text), (i+1)*o.Positions)]}); err != nil {
			return nil, err
		}
	}
	return heard.sets, nil
}

// written returns n tokens that a model generates, including the first.
func written(ctx context.Context, m *step.Model, first int32, n int) ([]int32, error) {
	s, err := m.NewSequence(ctx, runtimes.SequenceOptions{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	text := []int32{first}
	if err := s.Feed(ctx, runtimes.Positions{Tokens: text}); err != nil || n == 1 {
		return text, err
	}
	_, err = s.Generate(ctx, runtimes.Generation{MaxTokens: n - 1}, func(id int32) error {
		text = append(text, id)
		return nil
	})
	return text, err
}

// listener is a function that records its inputs.
type listener struct {
	runtimes.Function
	on   bool
	sets []map[string]engine.Tensor
}

// Run copies the inputs if recording is on.
func (l *listener) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	if l.on {
		set := converted(in)
		for name, t := range set {
			t.Data = bytes.Clone(t.Data) // keys and values are overwritten
			set[name] = t
		}
		l.sets = append(l.sets, set)
	}
	return l.Function.Run(ctx, in)
}
