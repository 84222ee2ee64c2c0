package compile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/runtimes"
)

// emulated runs a context and the original model, with mm's own engine, on the
// inputs and compares the outputs.
func emulated(ctx context.Context, e Engine, path string, m *onnx.Model, inputs []map[string]engine.Tensor) ([]Output, error) {
	return Against(ctx, e, abi.QNN, path, m, inputs)
}

// Opener opens functions, like the engines of runtimes.
type Opener interface {
	Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error)
}

// Against runs the file at path with an engine, and the model m with mm's own
// engine, on the inputs and compares the outputs.
func Against(ctx context.Context, e Opener, format abi.Format, path string, m *onnx.Model, inputs []map[string]engine.Tensor) (out []Output, err error) {
	part := builds.Part{Name: stem(path), Type: abi.Encoder, Files: builds.Formats{string(format): {filepath.Base(path)}}}
	model, err := e.Open(ctx, runtimes.Bundle{Part: part, Files: files(filepath.Dir(path))}, runtimes.Limits{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	f, ok := model.(runtimes.Function)
	if !ok {
		return nil, fmt.Errorf("%s is not a function", path)
	}
	run := func(ctx context.Context, in map[string]engine.Tensor) (map[string]engine.Tensor, error) {
		args := make(map[string]runtimes.Tensor, len(in))
		for name, t := range in {
			shape := make([]int64, len(t.Shape))
			for i, d := range t.Shape {
				shape[i] = int64(d)
			}
			args[name] = runtimes.Tensor{Type: runtimes.ElemOf(t.Type), Shape: shape, Data: t.Data}
		}
		got, err := f.Run(ctx, args)
		if err != nil {
			return nil, err
		}
		return converted(got), nil
	}
	figures, err := drift.Against(ctx, m, run, inputs, drift.Options{})
	return Compared(figures), err
}

// converted converts tensors for mm's own engine.
func converted(in map[string]runtimes.Tensor) map[string]engine.Tensor {
	out := make(map[string]engine.Tensor, len(in))
	for name, t := range in {
		shape := make([]int, len(t.Shape))
		for i, d := range t.Shape {
			shape[i] = int(d)
		}
		out[name] = engine.Tensor{Type: t.Type.ONNX(), Shape: shape, Data: t.Data}
	}
	return out
}

// files are the files of a folder.
type files string

func (f files) Open(name string) (*os.File, error) { return os.Open(filepath.Join(string(f), name)) }

func (f files) Path(name string) (string, error) { return filepath.Join(string(f), name), nil }

func (f files) Dir(context.Context, ...string) (string, error) { return string(f), nil }

// ErrExists reports that a file exists and was not replaced.
var ErrExists = qnnfile.ErrExists

// wrapper returns the path of the ONNX model around the context.
func (o Options) wrapper() string {
	return filepath.Join(filepath.Dir(o.Out), stem(o.Out)+"_ctx.onnx")
}

// distinct refuses output paths that are equal, or equal to the model's.
func (o Options) distinct() error {
	seen := map[string]string{resolved(o.Model): "the model"}
	for _, out := range []struct{ what, path string }{{"the context", o.Out}, {"the model around it", o.wrapper()}, {"the quantized model", o.Quantized}} {
		if out.path == "" {
			continue
		}
		at := resolved(out.path)
		if other := seen[at]; other != "" {
			return fmt.Errorf("%s and %s are the same file %s: use different names", other, out.what, out.path)
		}
		seen[at] = out.what
	}
	return nil
}

// resolved returns a path with its links resolved, as far as it exists.
func resolved(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return path
}

// nameable refuses a context that the model around it cannot name.
func nameable(out string) error {
	if err := onnx.CheckLocation(filepath.Base(out)); err != nil {
		return fmt.Errorf("invalid name of the context: %w", err)
	}
	return nil
}

// free refuses existing files before anything is computed.
func (o Options) free() error {
	if err := nameable(o.Out); err != nil {
		return err
	}
	if err := o.distinct(); err != nil {
		return err
	}
	for _, path := range []string{o.Out, o.wrapper(), o.Quantized} {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s: not a regular file", path)
		case !o.Force:
			return fmt.Errorf("%s: %w", path, ErrExists)
		}
	}
	if filepath.Ext(o.Out) != ".bin" {
		return fmt.Errorf("invalid name of the context %q, want NAME.bin", o.Out)
	}
	return nil
}

// publish moves the context to its place and writes the wrapper and, if requested,
// the compiled model.
func (o Options) publish(context string, m *onnx.Model) (out, wrapper string, err error) {
	out, wrapper = o.Out, o.wrapper()
	f, err := os.Open(context)
	if err != nil {
		return out, wrapper, err
	}
	defer f.Close()
	err = qnnfile.Publish(o.Out, o.Force, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
	if err != nil {
		return out, wrapper, err
	}
	if _, err := qnnfile.Wrap(o.Out, qnnfile.WrapOptions{Out: wrapper, Force: o.Force}); err != nil {
		return out, wrapper, err
	}
	if o.Quantized != "" {
		err = qnnfile.Publish(o.Quantized, o.Force, func(w io.Writer) error {
			_, err := onnx.Write(w, m)
			return err
		})
	}
	return out, wrapper, err
}
