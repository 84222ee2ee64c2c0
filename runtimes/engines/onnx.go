package engines

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/runtimes"
)

// ONNX opens functions, the encoders, projectors and decoders of a build, which are ONNX
// models, with onnx/engine. The zero value is ready.
type ONNX struct{}

// onnxFormat is the format of the engine's files.
const onnxFormat = abi.ONNX

// Name returns "onnx".
func (ONNX) Name() string { return "onnx" }

// Probe describes the engine, which is always available.
func (ONNX) Probe(context.Context) (runtimes.Info, error) {
	return runtimes.BuiltIn(onnxFormat), nil
}

// Can requires an ONNX file of a part that is not a language model.
func (ONNX) Can(part builds.Part) error {
	switch {
	case part.Type == abi.Core || part.Type == abi.DraftCore:
		return &runtimes.Unavailable{What: part.ID(), Why: "the onnx backend computes functions of tensors, and a core is a language model", Hint: "assemble with --export gguf=int8"}
	case part.Files.Entry(onnxFormat) == "":
		return &runtimes.Unavailable{What: part.ID(), Why: "the onnx backend reads ONNX, and the target ships none of it", Hint: "add it to the target's onnx list"}
	}
	return nil
}

// Open reads and prepares the part's ONNX file. If the engine lacks an operator, the
// error names it.
func (e ONNX) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	if err := errors.Join(l.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	if err := l.OnlyCPU(e.Name()); err != nil {
		return nil, err
	}
	if err := e.Can(b.Part); err != nil {
		return nil, err
	}
	path, err := b.Entry(onnxFormat)
	if err != nil {
		return nil, err
	}
	full := b.TooLarge(l, "raise the limit")
	opt := onnx.AdmitOptions{CheckOptions: engine.Checks(), Open: onnx.NamedOpener(b.Part.Files[string(onnxFormat)], b.Files.Path, b.Sealed())}
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("reading %s: %w", b.Part.ID(), err)
	} else if l.Memory > 0 && info.Size() > l.Memory {
		return nil, full
	}
	m, err := onnx.Admit(path, opt)
	if err != nil {
		return nil, fmt.Errorf("checking %s: %w", b.Part.ID(), err)
	}
	if _, external := m.Attached(); l.Memory > 0 && m.Size()+external > l.Memory {
		return nil, errors.Join(full, m.Close())
	}
	f, err := ONNXFunction(ctx, m, l)
	if closed := m.Close(); err == nil && closed != nil {
		err = errors.Join(closed, f.Close())
	}
	if errors.Is(err, engine.ErrMemory) && l.Memory > 0 {
		return nil, full
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", b.Part.ID(), err)
	}
	return f, nil
}

// ONNXFunction returns a function of a model in memory, which the caller keeps.
func ONNXFunction(ctx context.Context, m *onnx.Model, l runtimes.Limits) (runtimes.Function, error) {
	p, err := engine.Compile(ctx, m, engine.Options{Threads: min(l.Threads, runtime.NumCPU()), Memory: l.Memory})
	if err != nil {
		return nil, err
	}
	return &function{program: p, limit: l.Time}, nil
}

// function is an open model.
type function struct {
	program *engine.Program
	limit   time.Duration
}

// Run computes the model's outputs.
func (f *function) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	if f.limit > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, f.limit, runtimes.ErrTime)
		defer cancel()
		ctx = limited
	}
	inputs := make(map[string]engine.Tensor, len(in))
	for name, t := range in {
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("input %q: %w", name, err)
		}
		shape := make([]int, len(t.Shape))
		for i, d := range t.Shape {
			if d > math.MaxInt32 {
				return nil, fmt.Errorf("input %q: shape %v is too large", name, t.Shape)
			}
			shape[i] = int(d)
		}
		inputs[name] = engine.Tensor{Type: t.Type.ONNX(), Shape: shape, Data: t.Data}
	}
	results, err := f.program.Run(ctx, inputs)
	switch {
	case errors.Is(err, engine.ErrClosed):
		return nil, fmt.Errorf("the model is %w", runtimes.ErrClosed)
	case err != nil && errors.Is(context.Cause(ctx), runtimes.ErrTime):
		return nil, fmt.Errorf("%w: a call may take %v", runtimes.ErrTime, f.limit)
	case err != nil:
		return nil, err
	}
	out := make(map[string]runtimes.Tensor, len(results))
	for name, t := range results {
		shape := make([]int64, 0, len(t.Shape))
		for _, d := range t.Shape {
			shape = append(shape, int64(d))
		}
		out[name] = runtimes.Tensor{Type: runtimes.ElemOf(t.Type), Shape: slices.Clip(shape), Data: t.Data}
	}
	return out, nil
}

// Close stops the threads and frees the weights.
func (f *function) Close() error { return f.program.Close() }
