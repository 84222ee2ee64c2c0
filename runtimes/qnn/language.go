package qnn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx/window"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/qnn/ask"
	"mm-abi.org/mm/runtimes/step"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// language is a core of passes that run contexts.
type language struct {
	*step.Model
	facts map[string]string
}

// Facts returns the facts that a record of results must name, as of a function, and the
// digest of the model that the contexts were compiled from.
func (l *language) Facts() map[string]string { return l.facts }

// maxRecord bounds the record of a compilation, in bytes.
const maxRecord = 1 << 20

// record is the relevant part of a compilation's record.
type record struct {
	Context  string       `json:"context"` // digest
	Language *step.Record `json:"language"`
}

// pairing is a GGUF file and the contexts compiled from it.
type pairing struct {
	e      *Engine
	b      *runtimes.Bundle
	limits runtimes.Limits
	build  string // of the libraries
	model  string // path of the GGUF file
	digest string // of the GGUF file
	file   *gguf.File
	shape  arch.Shape
	left   int64 // bytes left of the limit of memory, if there is one
}

// openLanguage opens a core. The record of each context names it and the part's GGUF file
// by their digests; a mismatch is refused before a library is loaded.
func (e *Engine) openLanguage(ctx context.Context, b *runtimes.Bundle, l runtimes.Limits) (_ runtimes.Model, err error) {
	if err := able(b); err != nil {
		return nil, err
	}
	p := &pairing{e: e, b: b, limits: l, left: l.Memory}
	if p.model, err = b.Entry(abi.GGUF); err != nil {
		return nil, err
	}
	if p.build, err = e.sdk(ctx); err != nil {
		return nil, err
	}
	opt := step.Options{Context: b.Tokens.MaxSeq, Time: l.Time}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close(opt.Passes))
		}
	}()
	if err = p.read(); err != nil {
		return nil, fmt.Errorf("opening %s: %w", b.Part.ID(), err)
	}
	out := &language{}
	for _, name := range b.Part.Files[string(abi.QNN)] {
		if path.Ext(name) == ".json" {
			continue
		}
		pass, facts, window, err := p.open(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("opening %s: %w", b.Part.ID(), err)
		}
		opt.Passes = append(opt.Passes, pass)
		if opt.Window != 0 && opt.Window != window {
			return nil, fmt.Errorf("opening %s: contexts with different windows: %d and %d", b.Part.ID(), opt.Window, window)
		}
		opt.Window = window
		out.add(facts)
	}
	if len(opt.Passes) == 0 {
		return nil, &runtimes.Unavailable{What: b.Part.ID(), Why: "no context in its files for QNN", Hint: "assemble with --export qnn=" + b.Part.Name + "@CHIP"}
	}
	opt.Model = p.file
	if out.Model, err = step.New(opt); err != nil {
		return nil, fmt.Errorf("opening %s: %w", b.Part.ID(), err)
	}
	return out, nil
}

// add merges the facts of a context.
func (l *language) add(facts map[string]string) {
	if l.facts == nil {
		l.facts = facts
		return
	}
	for _, name := range []string{"digest", "graph", "positions"} {
		l.facts[name] += ", " + facts[name]
	}
}

// able refuses options that contexts do not support.
func able(b *runtimes.Bundle) error {
	for _, a := range b.Adapters {
		if a.Scale != 0 {
			return &runtimes.Unavailable{What: a.Part.ID(), Why: "the weights of a context are fixed when it is compiled, and an adapter changes them", Hint: "choose another backend for the core, or compile the core with the adapter in it"}
		}
	}
	switch b.KV {
	case "", abi.FP32, abi.FP16, abi.BF16:
		return nil
	}
	return &runtimes.Unavailable{What: b.Part.ID(), Why: fmt.Sprintf("keys and values of a context are floats, the build requires %s", b.KV), Hint: "choose a target with kv: fp16"}
}

// read opens the GGUF file.
func (p *pairing) read() (err error) {
	if p.file, err = gguf.Open(p.model); err != nil {
		return err
	}
	if p.shape, err = arch.Read(p.file); err != nil {
		return err
	}
	size, digest, err := fsx.Digest(p.model)
	p.digest = digest
	return errors.Join(err, p.take(p.b.Part.ID(), size))
}

// take counts bytes against the memory left.
func (p *pairing) take(what string, size int64) error {
	if p.limits.Memory == 0 {
		return nil
	}
	if p.left -= size; p.left < 0 {
		return &runtimes.Unavailable{What: what, Why: fmt.Sprintf("its weights do not fit into %d bytes of memory", p.limits.Memory), Hint: "raise the limit"}
	}
	return nil
}

// close closes what was opened.
func (p *pairing) close(passes []step.Pass) error {
	var errs []error
	if p.file != nil {
		errs = append(errs, p.file.Close())
	}
	for _, pass := range passes {
		errs = append(errs, pass.Function.Close())
	}
	return errors.Join(errs...)
}

// open checks a context against its record and the GGUF file, and loads it in a child.
func (p *pairing) open(ctx context.Context, name string) (pass step.Pass, facts map[string]string, window int, err error) {
	at, err := p.b.Files.Path(name)
	if err == nil {
		at, err = filepath.Abs(at)
	}
	if err != nil {
		return pass, nil, 0, err
	}
	r, err := p.record(name)
	if err != nil {
		return pass, nil, 0, err
	}
	f, err := qnnfile.Open(at)
	if err != nil {
		return pass, nil, 0, err
	}
	defer f.Close()
	undeclared := *p.b
	undeclared.Manifest = nil // it declares no tensors
	o, err := p.e.admit(f, &undeclared, p.limits, p.build)
	if err != nil {
		return pass, nil, 0, err
	}
	if err := errors.Join(p.hold(name, r, o), p.take(name, o.wireOpen.Size)); err != nil {
		return pass, nil, 0, errors.Join(err, o.discard())
	}
	for key, value := range map[string]string{"model": p.digest, "positions": fmt.Sprint(r.Language.Positions), "window": fmt.Sprint(r.Language.Window)} {
		o.facts[key] = value
	}
	if span, err := r.Language.Of(p.shape.Layers); err == nil && span.Count < p.shape.Layers {
		o.facts["layers"] = fmt.Sprintf("%d to %d of %d, the others by mm's own engine", span.First, span.End()-1, p.shape.Layers)
	}
	limits := p.limits
	limits.Time = 0 // the sequence enforces it
	m, err := p.e.start(ctx, o, wire.Open{Name: p.b.Part.Name, Version: p.b.Part.Version, Type: p.b.Part.Type, Format: abi.QNN, Path: at, Limits: limits})
	if err != nil {
		return pass, nil, 0, err
	}
	all, err := step.Around(ctx, p.file, *r.Language, m, engines.ONNXFunction)
	if err != nil {
		return pass, nil, 0, errors.Join(err, m.Close())
	}
	return step.Pass{Positions: r.Language.Positions, Function: all}, o.facts, r.Language.Window, nil
}

// record reads the record of a context.
func (p *pairing) record(name string) (r record, err error) {
	recordName := strings.TrimSuffix(name, path.Ext(name)) + ".json"
	if !slices.Contains(p.b.Part.Files[string(abi.QNN)], recordName) {
		return r, unpaired(name, fmt.Sprintf("missing record %s, which names the model it was compiled from", recordName))
	}
	at, err := p.b.Files.Path(recordName)
	if err != nil {
		return r, err
	}
	data, err := fsx.ReadFile(at, maxRecord)
	if errors.Is(err, os.ErrNotExist) {
		return r, unpaired(name, "its record is not there")
	}
	if err != nil {
		return r, fmt.Errorf("reading %s: %w", recordName, err)
	}
	if err := json.Unmarshal(data, &r); err != nil || r.Language == nil {
		return r, unpaired(recordName, "not a record of a compiled language model")
	}
	return r, nil
}

// hold checks that a context and the GGUF file match the record, and the graph the
// model's shape.
func (p *pairing) hold(name string, r record, o opening) error {
	if got := o.wireOpen.Digest; got != r.Context {
		return unpaired(name, fmt.Sprintf("digest mismatch: got %s, the record has %s", got, brief(r.Context)))
	}
	if p.shape.Vocab != r.Language.Vocab {
		return unpaired(name, fmt.Sprintf("it was compiled from a model of %d tokens, %s has %d", r.Language.Vocab, filepath.Base(p.model), p.shape.Vocab))
	}
	if p.digest != r.Language.Model {
		return unpaired(name, fmt.Sprintf("it was compiled from the model %s, %s is %s", brief(r.Language.Model), filepath.Base(p.model), p.digest))
	}
	span, err := r.Language.Of(p.shape.Layers)
	if err != nil {
		return unpaired(name, "it was compiled from "+err.Error())
	}
	in, out := tensorsOf(p.shape, span, r.Language.Positions, r.Language.Window)
	for _, side := range []struct {
		what string
		want []shaped
		got  []ask.Tensor
	}{{"input", in, o.wireOpen.Inputs}, {"output", out, o.wireOpen.Outputs}} {
		if err := same(side.what, side.want, side.got); err != nil {
			return unpaired(name, err.Error())
		}
	}
	for _, port := range slices.Concat(o.ports.in, o.ports.out) {
		if port.outer != runtimes.Float32 {
			return unpaired(name, fmt.Sprintf("%s of its graph is %s, want fp32", port.name, port.outer))
		}
	}
	return nil
}

// brief truncates an untrusted digest.
func brief(s string) string {
	if len(s) > 80 {
		return fmt.Sprintf("%.40q…", s)
	}
	return s
}

func unpaired(name, detail string) error {
	var list diag.List
	list.Add(diag.QNNUnpaired, diag.Pos{File: name}, detail, diag.QNNUnpaired.Fix())
	return list.Err()
}

// shaped is a required input or output of a pass, in 32-bit floats.
type shaped struct {
	name string
	dims []uint32
}

// tensorsOf returns the inputs and outputs of a pass of n positions with a window, or of
// some of its layers.
func tensorsOf(s arch.Shape, span window.Span, n, w int) (in, out []shaped) {
	of := func(name string, dims ...int) shaped {
		t := shaped{name: name}
		for _, d := range dims {
			t.dims = append(t.dims, uint32(d))
		}
		return t
	}
	in = []shaped{of(window.Hidden, 1, n, s.Width)}
	for _, side := range window.Sides(s, span, w, n) {
		in = append(in, of(side.Name, side.Dims...))
	}
	out = []shaped{of(window.Logits, 1, n, s.Vocab), of(window.States, 1, n, s.Width)}
	if span.End() < s.Layers {
		out = []shaped{of(window.Behind, 1, n, s.Width)}
	}
	for i := span.First; i < span.End(); i++ {
		in = append(in, of(window.PastKey(i), 1, s.KVHeads, w, s.HeadDim), of(window.PastValue(i), 1, s.KVHeads, w, s.HeadDim))
		out = append(out, of(window.Key(i), 1, s.KVHeads, n, s.HeadDim), of(window.Value(i), 1, s.KVHeads, n, s.HeadDim))
	}
	return in, out
}

// same compares the tensors of a graph with the required ones, in any order. Ports
// convert their element types.
func same(what string, want []shaped, got []ask.Tensor) error {
	if len(want) != len(got) {
		return fmt.Errorf("its graph has %d %ss, want %d", len(got), what, len(want))
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(t ask.Tensor) bool { return t.Name == w.name })
		switch {
		case i < 0:
			return fmt.Errorf("its graph lacks %s %s", what, w.name)
		case !slices.Equal(got[i].Dims, w.dims):
			return fmt.Errorf("%s %s of its graph is %v, want %v", what, w.name, got[i].Dims, w.dims)
		}
	}
	return nil
}
