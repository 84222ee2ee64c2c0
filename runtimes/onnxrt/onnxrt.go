// Package onnxrt is the engine called onnxruntime: ONNX functions by ONNX
// Runtime's library, in a child process (runtimes/worker, cmd/mm-native).
//
// A model passes onnx's checks before the library sees it: opsets and
// operator domains that the library has, tensors of the size they say, and
// external data only in files of the build, which lie below one folder of
// plain files.
package onnxrt

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/admit"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/worker"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// Engine opens functions.
type Engine struct {
	// Home gives mm's home folder, where engines are installed.
	Home func() (string, error)
	// Version is what the installed version that computes begins with; "": the
	// newest.
	Version string
}

// At is the engine at a version.
func (e Engine) At(version string) runtimes.Engine { return Engine{Home: e.Home, Version: version} }

func (e Engine) libraries() native.Libraries {
	return native.Libraries{Name: native.ONNXRuntime, Home: e.Home, Version: e.Version}
}

// Name is "onnxruntime".
func (Engine) Name() string { return native.ONNXRuntime }

// Aliases is the format's name, by which graphs call the engine.
func (Engine) Aliases() []string { return []string{string(abi.ONNX)} }

// Probe starts the engine and asks it.
func (e Engine) Probe(ctx context.Context) (runtimes.Info, error) {
	return e.libraries().Probe(ctx)
}

// Can wants an ONNX file.
func (Engine) Can(part builds.Part) error {
	if part.Files.Entry(abi.ONNX) == "" {
		return &runtimes.Unavailable{What: part.ID(), Why: "the onnxruntime backend reads ONNX, and the target ships none of it", Hint: "assemble with --export onnx=" + part.Name}
	}
	return nil
}

const device = "cpu"

// Open checks the model and has the engine make a session of it.
func (e Engine) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	if err := errors.Join(l.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	if l.Device != "" && l.Device != device {
		return nil, &runtimes.Unavailable{What: "device " + l.Device, Why: "the onnxruntime backend computes on the processor", Hint: "leave the device out"}
	}
	if err := e.Can(b.Part); err != nil {
		return nil, err
	}
	path, err := file(ctx, &b, l)
	if err != nil {
		return nil, err
	}
	opt, err := e.libraries().Worker(l.Memory)
	if err != nil {
		return nil, err
	}
	m, err := worker.Open(ctx, opt, wire.Open{Name: b.Part.Name, Version: b.Part.Version, Type: b.Part.Type, Format: abi.ONNX, Path: path, Limits: l})
	if err != nil {
		return nil, err
	}
	if _, ok := m.(runtimes.Function); !ok {
		return nil, errors.Join(errors.New("ONNX Runtime opened no function"), m.Close())
	}
	return m, nil
}

// opsets are those that the library reads: it still has most operators of the
// first ones, and those of the newest that it was made for.
func opsets() onnx.CheckOptions { return onnx.CheckOptions{MinOpset: 1, MaxOpset: 27} }

// file is where the checked model lies, with the files that it refers to.
func file(ctx context.Context, b *runtimes.Bundle, l runtimes.Limits) (string, error) {
	path, err := b.Entry(abi.ONNX)
	if err != nil {
		return "", err
	}
	names := b.Part.Files[string(abi.ONNX)]
	m, err := admit.File(path, admit.Options{CheckOptions: opsets(), Open: admit.Named(names, b.Files.Path, b.Sealed())})
	if err != nil {
		return "", fmt.Errorf("checking %s: %w", b.Part.ID(), err)
	}
	locations, beside := m.Attached()
	total := m.Size() + beside
	if err := m.Close(); err != nil {
		return "", err
	}
	if l.Memory != 0 && total > l.Memory {
		return "", &runtimes.Unavailable{What: b.Part.ID(), Why: fmt.Sprintf("its weights do not fit into %d bytes of memory", l.Memory), Hint: "raise the limit, or quantize the module"}
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
