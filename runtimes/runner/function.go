package runner

import (
	"context"
	"errors"
	"fmt"
	"path"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/onnx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
)

// function is an encoder, a projector or a decoder: opened by who needs it
// first, shared by all.
type function struct {
	part     builds.Part
	manifest *modules.Manifest
	gate     chan struct{} // holds a token while it is opened or closed

	// Behind the gate.
	engine runtimes.Engine
	model  runtimes.Function
	ranks  map[string]int // dimensions of the file's inputs, where it says so
	closed bool
}

// functions are those of the build, by the name of the part.
func functions(b *builds.Build) map[string]*function {
	out := map[string]*function{}
	for _, p := range opened(b.Assembly) {
		if !b.Assembly.HasCore() || p.Name != b.Assembly.Core.Name {
			out[p.Name] = &function{part: p, manifest: b.Manifests[p.Name], gate: make(chan struct{}, 1)}
		}
	}
	return out
}

// enter waits for the gate as long as ctx lasts.
func (f *function) enter(ctx context.Context) error {
	select {
	case f.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *function) leave() { <-f.gate }

// open gives the function, loading it if nobody has.
func (r *Runner) open(ctx context.Context, f *function) error {
	if err := f.enter(ctx); err != nil {
		return err
	}
	defer f.leave()
	if f.closed {
		return fmt.Errorf("the runner is %w", runtimes.ErrClosed)
	}
	if f.model != nil {
		return nil
	}
	if f.manifest == nil {
		return fmt.Errorf("opening %s: the build ships no %s of it", f.part.ID(), modules.FileName)
	}
	e, err := r.choose(ctx, f.part)
	if err != nil {
		return err
	}
	b := runtimes.Bundle{Part: f.part, Manifest: f.manifest, Files: r.build.Files}
	ranks, err := ranks(b)
	if err != nil {
		return err
	}
	m, err := e.Open(ctx, b, r.opt.Limits)
	if err != nil {
		return r.unopened(f.part, e, err)
	}
	model, ok := m.(runtimes.Function)
	if !ok {
		return errors.Join(fmt.Errorf("backend %s opens %s as no function", e.Name(), f.part.ID()), m.Close())
	}
	f.engine, f.model, f.ranks = e, model, ranks
	return nil
}

// openError is an engine's refusal of a part, with a way out.
type openError struct {
	error
	hint string
}

func (e *openError) Unwrap() error { return e.error }

// Hint is the way out.
func (e *openError) Hint() string { return e.hint }

// unopened says that an engine does not open a part. Where nobody asked for
// that one it names another to ask for: none is taken in its place.
func (r *Runner) unopened(p builds.Part, e runtimes.Engine, err error) error {
	err = fmt.Errorf("opening %s with backend %s: %w", p.ID(), e.Name(), err)
	if name, _ := r.wish(p); name != "" {
		return err
	}
	for _, other := range r.opt.Engines {
		if other.Name() != e.Name() && other.Can(p) == nil {
			return &openError{err, fmt.Sprintf("--backend %s=%s asks another", p.Name, other.Name())}
		}
	}
	return err
}

// ranks reads how many dimensions the inputs of a part's ONNX file have; none
// of a part of another format.
func ranks(b runtimes.Bundle) (map[string]int, error) {
	if b.Part.Files.Entry(abi.ONNX) == "" {
		return nil, nil
	}
	file, err := b.Entry(abi.ONNX)
	if err != nil {
		return nil, err
	}
	m, err := onnx.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", b.Part.ID(), err)
	}
	out := map[string]int{}
	for _, v := range m.Inputs() {
		if v.Type.Kind == onnx.TensorKind && v.Type.Ranked {
			out[v.Name] = len(v.Type.Dims)
		}
	}
	return out, m.Close()
}

// session begins a stream through the function, which is open.
func (r *Runner) session(f *function) (*modality.Session, error) {
	dir := path.Dir(f.part.Manifest)
	s, err := modality.New(f.model, f.manifest, modality.Options{
		Path:     func(name string) (string, error) { return r.build.Files.Path(path.Join(dir, name)) },
		MaxBytes: maxMedia,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.part.ID(), err)
	}
	return s, nil
}

// close ends the function for good.
func (f *function) close() error {
	f.gate <- struct{}{}
	defer f.leave()
	if f.closed || f.model == nil {
		f.closed = true
		return nil
	}
	f.closed = true
	return f.model.Close()
}
