package loose

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/workspace/home"
)

// Function is a user's function of tensors: an ONNX file, a file compiled for
// an NPU, or the folder of an encoder, projector or decoder.
type Function struct {
	Part     builds.Part
	Manifest *modules.Manifest
	Files    builds.Files
	Made     bool // the manifest was generated from the file
}

// Build is the function as a build without a core.
func (f *Function) Build() *builds.Build {
	return &builds.Build{Assembly: FunctionAssembly(f.Part, f.Manifest), Manifests: map[string]*modules.Manifest{f.Part.Name: f.Manifest}, Files: f.Files}
}

// IsFunction reports whether arg is a function on disk.
func IsFunction(arg string) bool {
	f, err := FormOf(arg)
	return err == nil && f == FormFunction
}

// Function opens the function at path: a module or a single file.
func (o *Opener) Function(ctx context.Context, path string) (*Function, error) {
	if home.IsFolder(path) || strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".yml") {
		return o.functionModule(ctx, path)
	}
	return o.functionFile(path)
}

// functionModule opens the folder of a module.
func (o *Opener) functionModule(ctx context.Context, dir string) (*Function, error) {
	m, list := modules.Load(dir)
	if m == nil || list.Failed() {
		return nil, list.Err()
	}
	if list = append(m.CheckFiles(ctx), inspect.Check(m, inspect.Folder(m))...); list.Failed() {
		return nil, list.Err()
	}
	own := &ownFiles{tempDir: o.TempDir, paths: map[string]string{}}
	part := builds.Part{Name: m.Name, Version: m.Version, Type: m.Type, Modality: m.Modality, Manifest: modules.FileName, Files: builds.Formats{}}
	for format, files := range inspect.Weights(m, inspect.Folder(m)) {
		part.Files[string(format)] = files
		for _, name := range files {
			own.paths[name] = home.Abs(filepath.Join(m.Dir(), filepath.FromSlash(name)))
		}
	}
	if part.Files.Entry(abi.ONNX) == "" && part.Files.Entry(abi.QNN) == "" {
		return nil, unrunnable(dir, m.ID()+" exports neither onnx nor qnn, which is what runs here", "")
	}
	return &Function{Part: part, Manifest: m, Files: own}, ctx.Err()
}

// functionFile makes a module of a file for this run: of an ONNX model, unless
// it wraps a context for an NPU, or of such a context.
func (o *Opener) functionFile(file string) (*Function, error) {
	head, err := fsx.ReadHead(file, fsx.SniffLen)
	if err != nil {
		return nil, unrunnable(file, reasonOf(err), "")
	}
	if qnnfile.Compiled(head) {
		return o.functionContext(file)
	}
	model, err := onnx.Open(file)
	if err != nil {
		return nil, unrunnable(file, reasonOf(err), "")
	}
	defer model.Close()
	if _, err := htp.ReadEPContext(model); !errors.Is(err, htp.ErrOther) {
		return o.functionContext(file)
	}
	m, err := convert.Describe(model, convert.Function{})
	if err != nil {
		return nil, unrunnable(file, reasonOf(err), "mm inspect tells what the file takes and gives")
	}
	fn := o.made(file, m, abi.ONNX)
	for _, location := range model.Externals() {
		name := path.Clean(location)
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil, unrunnable(file, fmt.Sprintf("its data lies at %q, outside of its folder", location), "")
		}
		fn.add(name, filepath.Join(filepath.Dir(file), filepath.FromSlash(name)))
	}
	return fn.Function, nil
}

// functionContext makes a module of a file compiled for an NPU, for this run.
// An ONNX model that wraps a context includes the file that it names.
func (o *Opener) functionContext(file string) (*Function, error) {
	f, err := qnnfile.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := convert.DescribeContext(f)
	if err != nil {
		return nil, unrunnable(file, reasonOf(err), "mm qnn inspect tells what the file is made of")
	}
	fn := o.made(file, m, abi.QNN)
	if at := f.Parts[0].File; at != file {
		name, err := filepath.Rel(filepath.Dir(file), at)
		if err != nil {
			return nil, err
		}
		fn.add(filepath.ToSlash(name), at)
	}
	return fn.Function, nil
}

// madeFunction is a function whose files are collected.
type madeFunction struct {
	*Function
	own    *ownFiles
	format abi.Format
}

// made returns the function of a file without a manifest.
func (o *Opener) made(file string, m modules.Manifest, format abi.Format) madeFunction {
	m.Name = strings.TrimSuffix(filepath.Base(home.Abs(file)), filepath.Ext(file))
	entry := filepath.Base(file)
	m.Export = map[abi.Format]modules.Export{format: {Path: entry}}
	own := &ownFiles{tempDir: o.TempDir, paths: map[string]string{}}
	part := builds.Part{Name: m.Name, Type: m.Type, Modality: m.Modality, Files: builds.Formats{}}
	fn := madeFunction{&Function{Part: part, Manifest: &m, Files: own, Made: true}, own, format}
	fn.add(entry, file)
	return fn
}

// add is a file of the function's, by its name there and its path.
func (f madeFunction) add(name, path string) {
	f.own.paths[name] = home.Abs(path)
	f.Part.Files[string(f.format)] = append(f.Part.Files[string(f.format)], name)
}

// FunctionAssembly returns an assembly of one function.
func FunctionAssembly(part builds.Part, m *modules.Manifest) *builds.Assembly {
	part.Modality = m.Modality
	a := &builds.Assembly{Name: part.Name, Version: part.Version, ABI: m.ABI, License: m.License}
	if part.Type == abi.Decoder {
		a.Decoders = []builds.DecoderPart{{Part: part}}
	} else {
		a.Modalities = []builds.ModalityPart{{Modality: part.Modality, Encoder: part}}
	}
	return a
}
