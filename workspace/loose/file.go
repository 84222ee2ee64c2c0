package loose

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export/coreml"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/ovir"
	"mm-abi.org/mm/runtimes"
)

// Format returns the format of a path by its extension, or "" if it is unknown or
// the path does not exist. Only a package of Core ML is a folder.
func Format(path string) abi.Format {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	f := formats[strings.ToLower(filepath.Ext(filepath.Clean(path)))]
	if info.IsDir() != (f == abi.CoreML) {
		return ""
	}
	return f
}

// formats are the formats by extension.
var formats = map[string]abi.Format{".onnx": abi.ONNX, ".gguf": abi.GGUF, ".tflite": abi.TFLite, ".pte": abi.ExecuTorch, coreml.Extension: abi.CoreML, ovir.Extension: abi.OpenVINO}

// Options configures Check. The zero value checks for ONNX Runtime.
type Options struct {
	Core     bool     // operators that mm's engine does not run are faults, otherwise warnings
	NPU      bool     // control flow is a fault, too
	Domains  []string // additional operator domains that are allowed
	MaxBytes int64    // of the file and its external data; 0: unlimited
}

func (o Options) checks(path string) onnx.AdmitOptions {
	c := onnx.CheckOptions{NPU: o.NPU, Domains: o.Domains, MaxBytes: o.MaxBytes}
	if o.Core {
		core := engine.Checks()
		c.MinOpset, c.MaxOpset, c.AnyDomain = core.MinOpset, core.MaxOpset, core.AnyDomain
	}
	open := onnx.SiblingOpener(path)
	c.External = open.Size
	return onnx.AdmitOptions{CheckOptions: c, Open: open}
}

// Check returns every fault of the ONNX file at path. The error is that of reading
// it.
func Check(ctx context.Context, path string, opt Options) (diag.List, error) {
	var list diag.List
	pos := diag.Pos{File: path}
	m, err := onnx.Open(path)
	if err != nil {
		if pe := (*os.PathError)(nil); errors.As(err, &pe) {
			return nil, err
		}
		inspect.AddUnread(&list, pos, "", err)
		return list, nil
	}
	checks := opt.checks(path)
	inspect.AddProblems(&list, pos, "", m.Check(checks.CheckOptions))
	if opt.Core && !list.Failed() {
		for _, why := range refusals(ctx, m, checks.Open) {
			list.Add(diag.NotClaimed, pos, why, diag.NotClaimed.Fix())
		}
	} else if !list.Failed() {
		for _, why := range refusals(ctx, m, checks.Open) {
			list.Warn(diag.NotClaimed, pos, "mm's own engine: "+why, "run it with --backend onnxruntime")
		}
	}
	return list, errors.Join(ctx.Err(), m.Close())
}

// refusals returns why mm's engine does not run a valid model, or nothing if it
// does.
func refusals(ctx context.Context, m *onnx.Model, open onnx.Opener) []string {
	if err := m.Attach(open); err != nil {
		return []string{err.Error()}
	}
	p, err := engine.Compile(ctx, m, engine.Options{Threads: 1})
	if err == nil {
		err = p.Close()
	}
	if err == nil {
		return nil
	}
	var out []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		out = append(out, strings.TrimPrefix(line, "engine: "))
	}
	return out
}

// Open opens and checks the model at path with its external data. The caller must
// close it. Faults are a diag.List in the error.
func Open(path string, opt Options) (*onnx.Model, error) {
	opt.Core = false
	checks := opt.checks(path)
	m, err := onnx.Admit(path, checks)
	var refused *onnx.Refused
	var list diag.List
	pos := diag.Pos{File: path}
	pe := (*os.PathError)(nil)
	switch {
	case err == nil:
		return m, nil
	case errors.As(err, &refused):
		inspect.AddProblems(&list, pos, "", refused.Problems)
	case errors.As(err, &pe):
		return nil, err
	default:
		inspect.AddUnread(&list, pos, "", err)
	}
	return nil, list.Err()
}

// files are a model and its external data in a folder.
type files struct{ dir string }

// Open implements builds.Files.
func (f files) Open(name string) (*os.File, error) {
	return fsx.OpenRegular(filepath.Join(f.dir, filepath.FromSlash(name)))
}

// Path implements builds.Files.
func (f files) Path(name string) (string, error) {
	return filepath.Join(f.dir, filepath.FromSlash(name)), nil
}

// Dir implements builds.Files.
func (f files) Dir(context.Context, ...string) (string, error) { return f.dir, nil }

// Bundle returns the ONNX file at path with its external data, for engines.
func Bundle(path string) (runtimes.Bundle, error) {
	m, err := onnx.Open(path)
	if err != nil {
		return runtimes.Bundle{}, err
	}
	names := append([]string{filepath.Base(path)}, m.Externals()...)
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	part := builds.Part{Name: name, Type: abi.Encoder, Files: builds.Formats{string(abi.ONNX): names}}
	abs, err := filepath.Abs(filepath.Dir(path))
	if err = errors.Join(err, m.Close()); err != nil {
		return runtimes.Bundle{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return runtimes.Bundle{Part: part, Files: files{abs}}, nil
}

// Opens opens a checked file with an engine. If the engine is not installed, the list gets
// a note.
func Opens(ctx context.Context, engines []runtimes.Engine, name, path string, list *diag.List) error {
	b, err := Bundle(path)
	if err != nil {
		return err
	}
	e, err := runtimes.Select(ctx, engines, name, b.Part)
	if err != nil {
		list.Note(diag.NoBackend, diag.Pos{File: path}, "checked by rules only: "+err.Error(), "mm runtime install "+name)
		return nil
	}
	m, err := e.Open(ctx, b, runtimes.Limits{Threads: 1})
	if err != nil {
		list.Add(diag.NotClaimed, diag.Pos{File: path}, err.Error(), diag.NotClaimed.Fix())
		return ctx.Err()
	}
	return m.Close()
}
