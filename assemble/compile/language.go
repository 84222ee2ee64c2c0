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
	"mm-abi.org/mm/core/gguf/window"
	"mm-abi.org/mm/core/htp/fit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/coreonnx"
	"mm-abi.org/mm/runtimes/step"
)

// LanguageOptions say what of a language model is compiled for which chip.
type LanguageOptions struct {
	Model     string // path of the GGUF file
	Chip      fit.Chip
	Window    int // W, positions of the longest text; 0: those of the model, at most [DefaultWindow]
	Positions int // n, read at a time; 0: 1
	// Layers are those that become a context; none: all. Those before and behind
	// them are computed by our own engine where the model runs.
	Layers    window.Span
	MinCosine float64 // least cosine of any output to our own engine's; 0: any
	// Out is the context binary to write; beside it go OUT without .bin and
	// with _ctx.onnx, and with .json, the record that it is opened by.
	Out   string
	Force bool      // replace files that are there
	Chips fit.Chips // the table of chips; nil: that of this release
}

// LanguageMinCosine is the least cosine of an output of a language model that is
// taken where nobody says another.
const LanguageMinCosine = 0.9

// DefaultWindow bounds a window that nobody asked for.
const DefaultWindow = 512

// Language makes a context of a whole language model, or of its middle: one pass
// over held keys and values (core/gguf/window), in 16-bit floats. It is compared
// on what the model writes by itself.
func Language(ctx context.Context, e Engine, opt LanguageOptions) (made Made, err error) {
	if err := suits(opt.Chip, opt.Model, true); err != nil {
		return made, err
	}
	if err := opt.free(); err != nil {
		return made, err
	}
	f, err := gguf.Open(opt.Model)
	if err != nil {
		return made, fmt.Errorf("compiling: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	s, err := arch.Read(f)
	if err != nil {
		return made, fmt.Errorf("compiling %s: %w", opt.Model, err)
	}
	if opt.Window == 0 {
		opt.Window = min(s.Context, DefaultWindow)
	}
	if opt.Positions == 0 {
		opt.Positions = 1
	}
	m, err := window.Step(f, window.StepOptions{Positions: opt.Positions, Window: opt.Window, Span: opt.Layers})
	if err != nil {
		return made, fmt.Errorf("compiling %s: %w", opt.Model, err)
	}
	stage, err := fsx.MkdirTemp("mm-compile-")
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, fsx.RemoveAll(stage)) }()
	pass := filepath.Join(stage, stem(opt.Out)+".onnx")
	if err := write(pass, m); err != nil {
		return made, err
	}
	inputs, err := opt.read(ctx, pass)
	if err != nil {
		return made, fmt.Errorf("compiling %s: having it read what it writes: %w", opt.Model, err)
	}
	made, err = Compile(ctx, e, Options{Model: pass, Chip: opt.Chip, Inputs: inputs, MinCosine: opt.MinCosine, Out: opt.Out, Force: opt.Force, Chips: opt.Chips})
	if err != nil {
		return made, named(err, pass, opt.Model)
	}
	if _, made.Record.Source, err = fsx.Digest(opt.Model); err != nil {
		return made, err
	}
	made.Record.Language = opt.language(s.Vocab)
	made.Record.Language.Model = made.Record.Source
	return made, opt.publish(made.Record)
}

// language is what the record says of the model, less its digest.
func (o LanguageOptions) language(vocab int) *step.Record {
	return &step.Record{Vocab: vocab, Window: o.Window, Positions: o.Positions, Span: o.Layers}
}

// record is the path of the record.
func (o LanguageOptions) record() string {
	return filepath.Join(filepath.Dir(o.Out), stem(o.Out)+".json")
}

// free reports a record that is in the way.
func (o LanguageOptions) free() error {
	info, err := os.Stat(o.record())
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", o.record())
	case !o.Force:
		return fmt.Errorf("%s %w", o.record(), ErrExists)
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

// named says of the file that was given what was said of the pass made of it.
func named(err error, pass, model string) error {
	if _, ok := diag.From(err); !ok {
		return fmt.Errorf("compiling %s: %w", model, err)
	}
	return renamed(err, pass, model)
}

// renamed says of the file that was given what was said of one made of it, which
// is gone when it is read.
func renamed(err error, made, given string) error {
	list, ok := diag.From(err)
	if !ok {
		return err
	}
	for i := range list {
		if list[i].Pos.File == made {
			list[i].Pos.File = given
		}
	}
	return list.Err()
}

const (
	// leastRead is how many tokens a model writes to be compared on.
	leastRead = 24
	// beginning is the token that it begins with where it names none.
	beginning = 1
)

// read has the model write, from the beginning of a text on, and gives what the
// pass is given while it reads that: at most [MostEmulated] of its inputs.
func (o LanguageOptions) read(ctx context.Context, pass string) (_ []map[string]engine.Tensor, err error) {
	part := builds.Part{Name: stem(pass), Type: abi.Encoder, Files: builds.Formats{string(abi.ONNX): {filepath.Base(pass)}}}
	model, err := coreonnx.Engine{}.Open(ctx, runtimes.Bundle{Part: part, Files: files(filepath.Dir(pass))}, runtimes.Limits{})
	if err != nil {
		return nil, err
	}
	function, ok := model.(runtimes.Function)
	if !ok {
		return nil, errors.Join(errors.New("a pass is no function"), model.Close())
	}
	heard := &listener{Function: function}
	f, err := gguf.Open(o.Model)
	if err != nil {
		return nil, errors.Join(err, model.Close())
	}
	whole, err := step.Around(ctx, f, *o.language(0), heard, coreonnx.Function)
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

// written is what a model writes, n tokens with the first.
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

// listener is a function that keeps what it is given.
type listener struct {
	runtimes.Function
	on   bool
	sets []map[string]engine.Tensor
}

// Run keeps a copy of the inputs where it is to listen.
func (l *listener) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	if l.on {
		set := taken(in)
		for name, t := range set {
			t.Data = bytes.Clone(t.Data) // keys and values are written over
			set[name] = t
		}
		l.sets = append(l.sets, set)
	}
	return l.Function.Run(ctx, in)
}
