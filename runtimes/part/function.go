package part

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
)

// Function is an encoder, a projector or a decoder. The first caller opens it, all
// callers share it.
type Function struct {
	set      *Set
	part     builds.Part
	manifest *modules.Manifest
	gate     chan struct{} // a semaphore of one that respects ctx

	// Guarded by gate.
	engine   runtimes.Engine
	model    runtimes.Function
	dims     map[string][]int64 // of the file's inputs, if known
	identity []byte
	closed   bool
}

// enter acquires the gate or returns the error of ctx.
func (f *Function) enter(ctx context.Context) error {
	select {
	case f.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *Function) leave() { <-f.gate }

// Part returns the part of the build.
func (f *Function) Part() builds.Part { return f.part }

// Manifest returns the manifest of the part, or nil if the build ships none.
func (f *Function) Manifest() *modules.Manifest { return f.manifest }

// Side returns the function as a side of a joint. It must be open.
func (f *Function) Side() Side {
	return Side{ID: f.part.ID(), Manifest: f.manifest, Dims: f.dims}
}

// Backend returns the name of the function's engine as results show it.
func (f *Function) Backend(ctx context.Context) (string, error) {
	e, err := f.Engine(ctx)
	if err != nil {
		return "", err
	}
	return runtimes.Shown(e), nil
}

// Engine returns the engine that runs the function or would run it.
func (f *Function) Engine(ctx context.Context) (runtimes.Engine, error) {
	if err := f.enter(ctx); err != nil {
		return nil, err
	}
	defer f.leave()
	return f.chosen(ctx)
}

// chosen returns the engine. The caller holds the gate.
func (f *Function) chosen(ctx context.Context) (runtimes.Engine, error) {
	if f.engine != nil {
		return f.engine, nil
	}
	e, err := f.set.Choose(ctx, f.part)
	if err == nil {
		f.engine = e
	}
	return e, err
}

// Open loads the function unless it is open and returns the time taken.
func (f *Function) Open(ctx context.Context) (time.Duration, error) {
	if err := f.enter(ctx); err != nil {
		return 0, err
	}
	defer f.leave()
	if f.closed {
		return 0, fmt.Errorf("the runner is %w", runtimes.ErrClosed)
	}
	if f.model != nil {
		return 0, nil
	}
	start := time.Now()
	if f.manifest == nil {
		return 0, fmt.Errorf("opening %s: missing %s in the build", f.part.ID(), modules.FileName)
	}
	if len(f.part.Files) == 0 {
		return 0, f.set.unshipped(f.part)
	}
	e, err := f.chosen(ctx)
	if err != nil {
		return 0, err
	}
	b := runtimes.Bundle{Part: f.part, Manifest: f.manifest, Files: f.set.build.Files}
	dims, err := dims(b)
	if err != nil {
		return 0, err
	}
	m, err := e.Open(ctx, b, f.set.opt.Limits)
	if err != nil {
		err = f.set.unopened(f.part, e, err)
		if f.engine = f.set.instead(ctx, f.part, err); f.engine == nil || f.engine == e {
			f.engine = e
			return 0, err
		}
		e = f.engine
		if m, err = e.Open(ctx, b, f.set.opt.Limits); err != nil {
			return 0, f.set.unopened(f.part, e, err)
		}
	}
	model, ok := m.(runtimes.Function)
	if !ok {
		return 0, errors.Join(fmt.Errorf("backend %s: %s is not a function", e.Name(), f.part.ID()), m.Close())
	}
	f.model, f.dims = model, dims
	return time.Since(start), nil
}

// Run computes on tensors. The function must be open.
func (f *Function) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	out, err := f.model.Run(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("running %s on %s: %w", f.part.ID(), f.engine.Name(), err)
	}
	return out, nil
}

// openError is an engine's refusal of a part, with a hint.
type openError struct {
	error
	hint string
}

func (e *openError) Unwrap() error { return e.error }

// Hint implements the interface of hints in internal/diag.
func (e *openError) Hint() string { return e.hint }

// unopened wraps the error of an engine that cannot open a part. If the engine was
// not requested, the hint names another: none is chosen automatically.
func (s *Set) unopened(p builds.Part, e runtimes.Engine, err error) error {
	err = fmt.Errorf("opening %s with backend %s: %w", p.ID(), e.Name(), err)
	if name, _ := s.wish(p); name != "" {
		return err
	}
	for _, other := range s.opt.Engines {
		if other.Name() != e.Name() && other.Can(p) == nil {
			return &openError{err, fmt.Sprintf("--backend %s=%s selects another", p.Name, other.Name())}
		}
	}
	return err
}

// dims reads the dimensions of the inputs of a part's ONNX file; it returns nil for
// other formats.
func dims(b runtimes.Bundle) (map[string][]int64, error) {
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
	out := map[string][]int64{}
	for _, v := range m.Inputs() {
		if v.Type.Kind != onnx.TensorKind || !v.Type.Ranked {
			continue
		}
		sizes := make([]int64, len(v.Type.Dims))
		for i, d := range v.Type.Dims {
			if d.Param == "" && d.Value > 0 {
				sizes[i] = d.Value
			}
		}
		out[strings.Clone(v.Name)] = sizes
	}
	return out, m.Close()
}

// Session starts a stream through the function, which must be open.
func (f *Function) Session() (*modality.Session, error) {
	s, err := modality.New(f.model, f.manifest, modality.Options{Path: f.Path, MaxBytes: MaxInput})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.part.ID(), err)
	}
	return s, nil
}

// Path returns the path of a file of the module.
func (f *Function) Path(name string) (string, error) {
	return f.set.build.Files.Path(path.Join(path.Dir(f.part.Manifest), name))
}

// close closes the function for good.
func (f *Function) close() error {
	f.gate <- struct{}{}
	defer f.leave()
	if f.closed || f.model == nil {
		f.closed = true
		return nil
	}
	f.closed = true
	return f.model.Close()
}

// Identity returns a hash of everything but the inputs that determines the
// results: the bytes of the files, the manifest, the engine with its version, and
// the level of its kernels.
func (f *Function) Identity(ctx context.Context) ([]byte, error) {
	if err := f.enter(ctx); err != nil {
		return nil, err
	}
	defer f.leave()
	if f.identity != nil {
		return f.identity, nil
	}
	e, err := f.chosen(ctx)
	if err != nil {
		return nil, err
	}
	info, err := e.Probe(ctx)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(f.manifest)
	if err != nil {
		return nil, fmt.Errorf("describing %s: %w", f.part.ID(), err)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %d\n%s\n", e.Name(), info.Version, cpu.Use(), f.set.opt.Limits.Threads, text)
	for _, format := range slices.Sorted(maps.Keys(f.part.Files)) {
		for _, name := range f.part.Files[format] {
			fmt.Fprintf(h, "%q %q\n", format, name)
			if err := f.hash(ctx, h, name); err != nil {
				return nil, fmt.Errorf("reading %s: %w", f.part.ID(), err)
			}
		}
	}
	f.identity = h.Sum(nil)
	return f.identity, nil
}

// hash adds the bytes of a file of the build to a hash.
func (f *Function) hash(ctx context.Context, to io.Writer, name string) error {
	file, err := f.set.build.Files.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	one := sha256.New()
	if _, err := io.Copy(one, fsx.Reader{Context: ctx, R: file}); err != nil {
		return err
	}
	_, err = to.Write(one.Sum(nil))
	return err
}

// File returns the path of a file of the function's module.
func (f *Function) File(name string) (string, error) {
	return f.set.build.Files.Path(path.Join(path.Dir(f.part.Manifest), name))
}

// Entry returns the path of the function's ONNX file.
func (f *Function) Entry() (string, error) {
	b := runtimes.Bundle{Part: f.part, Files: f.set.build.Files}
	return b.Entry(abi.ONNX)
}

// OpenFile opens another ONNX file of the function's module on the function's engine.
// The caller closes the model.
func (f *Function) OpenFile(ctx context.Context, name string) (runtimes.Function, error) {
	e, err := f.Engine(ctx)
	if err != nil {
		return nil, err
	}
	part := f.part
	entry := path.Join(path.Dir(part.Manifest), name)
	files := slices.DeleteFunc(slices.Clone(part.Files[string(abi.ONNX)]), func(s string) bool { return s == entry })
	part.Files = builds.Formats{string(abi.ONNX): append([]string{entry}, files...)}
	m, err := e.Open(ctx, runtimes.Bundle{Part: part, Manifest: f.manifest, Files: f.set.build.Files}, f.set.opt.Limits)
	if err != nil {
		return nil, fmt.Errorf("opening %s of %s: %w", name, part.ID(), err)
	}
	model, ok := m.(runtimes.Function)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s of %s is not a function", name, part.ID()), m.Close())
	}
	return model, nil
}
