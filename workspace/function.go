package workspace

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/onnx"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/modules/inspect"
)

// Function is a user's own function of tensors: an ONNX file, or the folder of
// an encoder, projector or decoder.
type Function struct {
	Part     builds.Part
	Manifest *modules.Manifest
	Files    builds.Files
	Made     bool // the manifest was made of the file: nobody wrote it
}

// Build is the function as a build without a core.
func (f *Function) Build() *builds.Build {
	return &builds.Build{Assembly: functionAssembly(f.Part, f.Manifest), Manifests: map[string]*modules.Manifest{f.Part.Name: f.Manifest}, Files: f.Files}
}

// IsFunction reports whether arg, as it lies on disk, is a function.
func IsFunction(arg string) bool {
	f, err := formOf(arg)
	return err == nil && f == aFunction
}

// Function opens what [IsFunction] knows, as it stands. It is nil for anything
// else, and for what the store has under that name.
func (w *Workspace) Function(ctx context.Context, arg string, opt RunOptions) (*Function, error) {
	f, err := w.form(ctx, arg)
	if err != nil || f != aFunction {
		return nil, err
	}
	if err := w.mayStand(arg, opt); err != nil {
		return nil, err
	}
	var fn *Function
	if isFolder(arg) || strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml") {
		fn, err = w.functionModule(ctx, arg)
	} else {
		fn, err = w.functionFile(arg)
	}
	if err != nil {
		return nil, err
	}
	w.say("%s is run as it stands: unsigned", arg)
	w.Record(ctx, audit.Entry{Action: "use-unsigned", Ref: absolute(arg), Result: "ok"})
	return fn, nil
}

// functionModule opens the folder of a module.
func (w *Workspace) functionModule(ctx context.Context, dir string) (*Function, error) {
	m, list := modules.Load(dir)
	if m == nil || list.Failed() {
		return nil, list.Err()
	}
	if list = append(m.CheckFiles(ctx), inspect.Check(m, inspect.Folder(m))...); list.Failed() {
		return nil, list.Err()
	}
	own := &ownFiles{w: w, paths: map[string]string{}}
	part := builds.Part{Name: m.Name, Version: m.Version, Type: m.Type, Modality: m.Modality, Manifest: modules.FileName, Files: builds.Formats{}}
	for format, files := range inspect.Weights(m, inspect.Folder(m)) {
		part.Files[string(format)] = files
		for _, name := range files {
			own.paths[name] = absolute(filepath.Join(m.Dir(), filepath.FromSlash(name)))
		}
	}
	if part.Files.Entry(abi.ONNX) == "" {
		return nil, unrunnable(dir, m.ID()+" exports no onnx, which is what runs here", "")
	}
	return &Function{Part: part, Manifest: m, Files: own}, ctx.Err()
}

// functionFile makes a module of an ONNX file, for this run.
func (w *Workspace) functionFile(file string) (*Function, error) {
	model, err := onnx.Open(file)
	if err != nil {
		return nil, unrunnable(file, reasonOf(err), "")
	}
	defer model.Close()
	m, err := convert.Describe(model, convert.Function{})
	if err != nil {
		return nil, unrunnable(file, reasonOf(err), "mm inspect tells what the file takes and gives")
	}
	m.Name = strings.TrimSuffix(filepath.Base(absolute(file)), filepath.Ext(file))
	entry := filepath.Base(file)
	m.Export = map[abi.Format]modules.Export{abi.ONNX: {Path: entry}}
	own := &ownFiles{w: w, paths: map[string]string{entry: absolute(file)}}
	files := []string{entry}
	for _, location := range model.Externals() {
		name := path.Clean(location)
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil, unrunnable(file, fmt.Sprintf("its data lies at %q, outside of its folder", location), "")
		}
		own.paths[name] = absolute(filepath.Join(filepath.Dir(file), filepath.FromSlash(name)))
		files = append(files, name)
	}
	part := builds.Part{Name: m.Name, Type: m.Type, Modality: m.Modality, Files: builds.Formats{string(abi.ONNX): files}}
	return &Function{Part: part, Manifest: &m, Files: own, Made: true}, nil
}
