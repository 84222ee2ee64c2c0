// Package openvinort is the engine openvino: functions in OpenVINO's format run by its
// library in a child process (runtimes/worker, cmd/mm-native).
//
// A model passes the checks of onnx/ovir before the library reads it. Inputs and
// outputs are converted from and to the types in the module's manifest.
package openvinort

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/onnx/ovir"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/worker"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// Engine opens functions.
type Engine struct {
	// Home returns mm's home folder, where engines are installed.
	Home func() (string, error)
	// Version is a prefix of the installed version to use; if empty, the newest.
	Version string
}

// At returns the engine at a version.
func (e Engine) At(version string) runtimes.Engine { return Engine{Home: e.Home, Version: version} }

func (e Engine) libraries() native.Libraries {
	return native.Libraries{Name: native.OpenVINO, Home: e.Home, Version: e.Version}
}

// Name returns "openvino".
func (Engine) Name() string { return native.OpenVINO }

// Aliases returns no other names.
func (Engine) Aliases() []string { return nil }

// Probe starts the engine and returns its description.
func (e Engine) Probe(ctx context.Context) (runtimes.Info, error) {
	return e.libraries().Probe(ctx)
}

// Can requires a file of the format.
func (Engine) Can(part builds.Part) error {
	if part.Files.Entry(abi.OpenVINO) == "" {
		return &runtimes.Unavailable{What: part.ID(), Why: "the openvino backend reads OpenVINO's format, and the target ships none of it", Hint: "assemble with --export openvino=" + part.Name}
	}
	return nil
}

// elems are the element types of exports by OpenVINO's names. Inputs of others are not
// converted.
var elems = map[string]runtimes.Elem{"f32": runtimes.Float32, "i64": runtimes.Int64, "i32": runtimes.Int32, "boolean": runtimes.Bool}

// Open checks the model and opens it in the engine.
func (e Engine) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	if err := errors.Join(l.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	if err := l.OnlyCPU(e.Name()); err != nil {
		return nil, err
	}
	if err := e.Can(b.Part); err != nil {
		return nil, err
	}
	names := b.Part.Files[string(abi.OpenVINO)]
	dir, err := b.Files.Dir(ctx, names...)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, filepath.FromSlash(names[0]))
	m, err := ovir.Open(path)
	if err != nil {
		return nil, fmt.Errorf("checking %s: %w", b.Part.ID(), err)
	}
	if l.Memory != 0 && m.Bytes > l.Memory {
		return nil, b.TooLarge(l, "raise the limit, or export the module in a lower precision")
	}
	opt, err := e.libraries().Worker(ctx, l.Memory)
	if err != nil {
		return nil, err
	}
	model, err := worker.Open(ctx, opt, wire.Open{Name: b.Part.Name, Version: b.Part.Version, Type: b.Part.Type, Format: abi.OpenVINO, Path: path, Limits: l})
	if err != nil {
		return nil, err
	}
	f, ok := model.(runtimes.Function)
	if !ok {
		return nil, errors.Join(errors.New("OpenVINO did not open a function"), model.Close())
	}
	types := map[string]runtimes.Elem{}
	for _, p := range m.Inputs {
		types[p.Name] = elems[p.Type]
	}
	return runtimes.Retype(f, types, runtimes.OutputTypes(b.Manifest)), nil
}
