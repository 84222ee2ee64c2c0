package engines

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/worker"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// LiteRT opens functions in TFLite files. A model passes the checks of onnx/htp
// before the library reads it. Exports have 32-bit floats and integers; inputs and outputs
// are converted from and to the types in the module's manifest.
type LiteRT struct {
	// Home returns mm's home folder, where engines are installed.
	Home func() (string, error)
	// Version is a prefix of the installed version to use; if empty, the newest.
	Version string
}

// At returns the engine at a version.
func (e LiteRT) At(version string) runtimes.Engine { return LiteRT{Home: e.Home, Version: version} }

func (e LiteRT) libraries() native.Libraries {
	return native.Libraries{Name: native.LiteRT, Home: e.Home, Version: e.Version}
}

// Name returns "litert".
func (LiteRT) Name() string { return native.LiteRT }

// Aliases returns "tflite".
func (LiteRT) Aliases() []string { return []string{string(abi.TFLite)} }

// Probe starts the engine and returns its description.
func (e LiteRT) Probe(ctx context.Context) (runtimes.Info, error) {
	return e.libraries().Probe(ctx)
}

// liteRTFiles returns the files of a part; the format nnapi has TFLite files too.
func liteRTFiles(part builds.Part) []string {
	if part.Files.Entry(abi.TFLite) != "" {
		return part.Files[string(abi.TFLite)]
	}
	return part.Files[string(abi.NNAPI)]
}

// Can requires a TFLite file.
func (LiteRT) Can(part builds.Part) error {
	if len(liteRTFiles(part)) == 0 {
		return &runtimes.Unavailable{What: part.ID(), Why: "the litert backend reads TFLite files, and the target ships none of it", Hint: "assemble with --export tflite=" + part.Name}
	}
	return nil
}

// Open checks the model and opens it in the engine.
func (e LiteRT) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	if err := errors.Join(l.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	if err := l.OnlyCPU(e.Name()); err != nil {
		return nil, err
	}
	if err := e.Can(b.Part); err != nil {
		return nil, err
	}
	names := liteRTFiles(b.Part)
	dir, err := b.Files.Dir(ctx, names...)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, filepath.FromSlash(names[0]))
	m, err := CheckLiteRT(path)
	if err != nil {
		return nil, fmt.Errorf("checking %s: %w", b.Part.ID(), err)
	}
	if l.Memory != 0 && m.Size > l.Memory {
		return nil, b.TooLarge(l, "raise the limit, or export the module in a lower precision")
	}
	opt, err := e.libraries().Worker(ctx, l.Memory)
	if err != nil {
		return nil, err
	}
	model, err := worker.Open(ctx, opt, wire.Open{Name: b.Part.Name, Version: b.Part.Version, Type: b.Part.Type, Format: abi.TFLite, Path: path, Limits: l})
	if err != nil {
		return nil, err
	}
	f, ok := model.(runtimes.Function)
	if !ok {
		return nil, errors.Join(errors.New("LiteRT did not open a function"), model.Close())
	}
	types := map[string]runtimes.Elem{}
	for _, t := range m.Subgraphs[0].Inputs {
		types[t.Name] = liteRTElems[t.DType]
	}
	return runtimes.Retype(f, types, runtimes.OutputTypes(b.Manifest)), nil
}

// liteRTElems are the element types by the names of onnx/htp. Inputs of others are not
// converted.
var liteRTElems = map[string]runtimes.Elem{"float32": runtimes.Float32, "int32": runtimes.Int32, "bool": runtimes.Bool}

// CheckLiteRT reads a file and returns why the engine refuses it.
func CheckLiteRT(path string) (m *htp.LiteRT, err error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if m, err = htp.ReadLiteRT(f, info.Size()); err != nil {
		return nil, err
	}
	switch {
	case len(m.Subgraphs) == 0:
		return nil, errors.New("no subgraph")
	case len(m.Dispatches) > 0:
		return nil, &runtimes.Unavailable{What: "the model", Why: "it is compiled for a Qualcomm NPU", Hint: "mm qnn inspect FILE describes it"}
	}
	return m, nil
}
