package engines

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

// OpenVINO opens functions in OpenVINO's format. A model passes the checks of onnx/ovir
// before the library reads it. Inputs and outputs are converted from and to the types in
// the module's manifest.
type OpenVINO struct {
	// Home returns mm's home folder, where engines are installed.
	Home func() (string, error)
	// Version is a prefix of the installed version to use; if empty, the newest.
	Version string
}

// At returns the engine at a version.
func (e OpenVINO) At(version string) runtimes.Engine { return OpenVINO{Home: e.Home, Version: version} }

func (e OpenVINO) libraries() native.Libraries {
	return native.Libraries{Name: native.OpenVINO, Home: e.Home, Version: e.Version}
}

// Name returns "openvino".
func (OpenVINO) Name() string { return native.OpenVINO }

// Aliases returns no other names.
func (OpenVINO) Aliases() []string { return nil }

// Probe starts the engine and returns its description.
func (e OpenVINO) Probe(ctx context.Context) (runtimes.Info, error) {
	return e.libraries().Probe(ctx)
}

// Can requires a file of the format.
func (OpenVINO) Can(part builds.Part) error {
	if part.Files.Entry(abi.OpenVINO) == "" {
		return &runtimes.Unavailable{What: part.ID(), Why: "the openvino backend reads OpenVINO's format, and the target ships none of it", Hint: "assemble with --export openvino=" + part.Name}
	}
	return nil
}

// openvinoElems are the element types of exports by OpenVINO's names. Inputs of others are not
// converted.
var openvinoElems = map[string]runtimes.Elem{"f32": runtimes.Float32, "i64": runtimes.Int64, "i32": runtimes.Int32, "boolean": runtimes.Bool}

// Open checks the model and opens it in the engine.
func (e OpenVINO) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
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
		types[p.Name] = openvinoElems[p.Type]
	}
	return runtimes.Retype(f, types, runtimes.OutputTypes(b.Manifest)), nil
}
