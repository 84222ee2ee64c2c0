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

// emulated runs a context on the inputs, beside our own engine on the model
// that was given, and compares them.
func emulated(ctx context.Context, e Engine, path string, m *onnx.Model, inputs []map[string]engine.Tensor) ([]Output, error) {
	return Against(ctx, e, abi.QNN, path, m, inputs)
}

// Opener opens functions, as the engines of runtimes do.
type Opener interface {
	Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error)
}

// Against runs the file at path, which is of a format, by an engine on the
// inputs, beside our own engine on the model m, and compares them.
func Against(ctx context.Context, e Opener, format abi.Format, path string, m *onnx.Model, inputs []map[string]engine.Tensor) (out []Output, err error) {
	part := builds.Part{Name: stem(path), Type: abi.Encoder, Files: builds.Formats{string(format): {filepath.Base(path)}}}
	model, err := e.Open(ctx, runtimes.Bundle{Part: part, Files: files(filepath.Dir(path))}, runtimes.Limits{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	f, ok := model.(runtimes.Function)
	if !ok {
		return nil, fmt.Errorf("%s is no function", path)
	}
	run := func(ctx context.Context, in map[string]engine.Tensor) (map[string]engine.Tensor, error) {
		given := make(map[string]runtimes.Tensor, len(in))
		for name, t := range in {
			shape := make([]int64, len(t.Shape))
			for i, d := range t.Shape {
				shape[i] = int64(d)
			}
			given[name] = runtimes.Tensor{Type: runtimes.ElemOf(t.Type), Shape: shape, Data: t.Data}
		}
		got, err := f.Run(ctx, given)
		if err != nil {
			return nil, err
		}
		return taken(got), nil
	}
	figures, err := drift.Against(ctx, m, run, inputs, drift.Options{})
	return Compared(figures), err
}

// taken are tensors as our own engine has them.
func taken(in map[string]runtimes.Tensor) map[string]engine.Tensor {
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

// files are those of a folder.
type files string

func (f files) Open(name string) (*os.File, error) { return os.Open(filepath.Join(string(f), name)) }

func (f files) Path(name string) (string, error) { return filepath.Join(string(f), name), nil }

func (f files) Dir(context.Context, ...string) (string, error) { return string(f), nil }

// ErrExists says that a file is there and was not to be replaced.
var ErrExists = qnnfile.ErrExists

// wrapper is the path of the ONNX model around the context.
func (o Options) wrapper() string {
	return filepath.Join(filepath.Dir(o.Out), stem(o.Out)+"_ctx.onnx")
}

// apart refuses two outputs in one place, and one in the model's, which would be
// lost with or without Force.
func (o Options) apart() error {
	seen := map[string]string{resolved(o.Model): "the model"}
	for _, out := range []struct{ what, path string }{{"the context", o.Out}, {"the model around it", o.wrapper()}, {"the quantised model", o.Quantised}} {
		if out.path == "" {
			continue
		}
		at := resolved(out.path)
		if other := seen[at]; other != "" {
			return fmt.Errorf("%s and %s would be one file, %s: give them different names", other, out.what, out.path)
		}
		seen[at] = out.what
	}
	return nil
}

// resolved is where a path leads to, through links as far as there is something.
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

// free reports files that are in the way, before anything is computed.
func (o Options) free() error {
	if err := o.apart(); err != nil {
		return err
	}
	for _, path := range []string{o.Out, o.wrapper(), o.Quantised} {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is no regular file", path)
		case !o.Force:
			return fmt.Errorf("%s %w", path, ErrExists)
		}
	}
	if filepath.Ext(o.Out) != ".bin" {
		return fmt.Errorf("the context %q must be called NAME.bin", o.Out)
	}
	return nil
}

// publish puts the context in its place, the wrapper beside it and, where it is
// wanted, the model that was compiled.
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
	if o.Quantised != "" {
		err = qnnfile.Publish(o.Quantised, o.Force, func(w io.Writer) error {
			_, err := onnx.Write(w, m)
			return err
		})
	}
	return out, wrapper, err
}
