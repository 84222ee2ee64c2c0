package engines

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/worker"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// ONNXRuntime opens ONNX functions. A model passes package onnx's checks before the library
// reads it: opsets and operator domains that the library supports, tensors of the declared
// size, and external data only in files of the build, which are plain files below one
// folder.
type ONNXRuntime struct {
	// Home returns mm's home folder, where engines are installed.
	Home func() (string, error)
	// Version is a prefix of the installed version to use; if empty, the newest.
	Version string
}

// At returns the engine at a version.
func (e ONNXRuntime) At(version string) runtimes.Engine {
	return ONNXRuntime{Home: e.Home, Version: version}
}

func (e ONNXRuntime) libraries() native.Libraries {
	return native.Libraries{Name: native.ONNXRuntime, Home: e.Home, Version: e.Version}
}

// Name returns "onnxruntime".
func (ONNXRuntime) Name() string { return native.ONNXRuntime }

// Aliases returns the name of the format, which graphs use.
func (ONNXRuntime) Aliases() []string { return []string{string(abi.ONNX)} }

// Probe starts the engine and returns its description.
func (e ONNXRuntime) Probe(ctx context.Context) (runtimes.Info, error) {
	return e.libraries().Probe(ctx)
}

// Can requires an ONNX file.
func (ONNXRuntime) Can(part builds.Part) error {
	if part.Files.Entry(abi.ONNX) == "" {
		return &runtimes.Unavailable{What: part.ID(), Why: "the onnxruntime backend reads ONNX, and the target ships none of it", Hint: "assemble with --export onnx=" + part.Name}
	}
	return nil
}

// Open checks the model and opens it in the engine.
func (e ONNXRuntime) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	if err := errors.Join(l.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	if err := l.OnlyCPU(e.Name()); err != nil {
		return nil, err
	}
	if err := e.Can(b.Part); err != nil {
		return nil, err
	}
	path, err := file(ctx, &b, l)
	if err != nil {
		return nil, err
	}
	opt, err := e.libraries().Worker(ctx, l.Memory)
	if err != nil {
		return nil, err
	}
	m, err := worker.Open(ctx, opt, wire.Open{Name: b.Part.Name, Version: b.Part.Version, Type: b.Part.Type, Format: abi.ONNX, Path: path, Limits: l})
	if err != nil {
		return nil, err
	}
	if _, ok := m.(runtimes.Function); !ok {
		return nil, errors.Join(errors.New("ONNX Runtime did not open a function"), m.Close())
	}
	return m, nil
}

// opsets returns the opsets that the library supports: most operators of the first ones
// up to those of the newest that it was built for.
func opsets() onnx.CheckOptions { return onnx.CheckOptions{MinOpset: 1, MaxOpset: 27} }

// file returns the path of the checked model next to the files that it refers to.
func file(ctx context.Context, b *runtimes.Bundle, l runtimes.Limits) (string, error) {
	path, err := b.Entry(abi.ONNX)
	if err != nil {
		return "", err
	}
	names := b.Part.Files[string(abi.ONNX)]
	m, err := onnx.Admit(path, onnx.AdmitOptions{CheckOptions: opsets(), Open: onnx.NamedOpener(names, b.Files.Path, b.Sealed())})
	if err != nil {
		return "", fmt.Errorf("checking %s: %w", b.Part.ID(), err)
	}
	locations, external := m.Attached()
	total := m.Size() + external
	if err := m.Close(); err != nil {
		return "", err
	}
	if l.Memory != 0 && total > l.Memory {
		return "", b.TooLarge(l, "raise the limit, or quantize the module")
	}
	if len(locations) == 0 {
		return path, nil
	}
	dir, err := b.Files.Dir(ctx, names...)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.FromSlash(names[0])), nil
}
