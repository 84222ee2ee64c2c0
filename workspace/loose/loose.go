// Package loose handles the user's own models without a build: GGUF and ONNX files,
// module folders, transformers folders and checkpoints. They run unverified.
//
// An [Opener] opens a model to run. [Inspect] describes a model file; [Check] reports
// every fault of an ONNX file as diagnostics; [Open] opens a checked model with its
// external data, for changes; [Bundle] returns the file for engines.
package loose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/hf"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/workspace/home"
)

// Opener makes builds of the user's own, unreleased files.
type Opener struct {
	Home    string                           // folder of the user's data
	Cache   string                           // folder of converted models
	Scratch func() (*fsx.Dir, error)         // returns a new private folder in Home
	TempDir func() (string, error)           // returns a new private folder anywhere
	Say     func(format string, args ...any) // receives messages for the user
	Ignore  []string                         // keys of config.json (see [hf.Options])
	MMProj  string                           // vision tower of a GGUF file; "": one in its folder, if there is one
	AnyArch bool                             // GGUF architectures that mm's engine does not run are left to another engine
}

// Build makes a build of the user's file or folder.
func (o *Opener) Build(ctx context.Context, path string, f Form) (*builds.Build, error) {
	switch f {
	case FormModule:
		return o.ownModule(ctx, path)
	case FormFunction:
		if home.IsFolder(path) || strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".yml") {
			if b, err := o.readsText(ctx, path); b != nil || err != nil {
				return b, err
			}
			return o.ownModule(ctx, path)
		}
		what := string(fsx.ONNX)
		if head, err := fsx.ReadHead(path, fsx.SniffLen); err == nil && qnnfile.Compiled(head) {
			what = "a file compiled for an NPU"
		}
		return nil, unrunnable(path, "it is "+what+", which computes tensors and talks to nobody", "mm run "+path+" --input NAME=FILE runs it by itself; a graph names its module")
	case FormCheckpoint:
		file, err := o.ownCheckpoint(ctx, path)
		if err != nil {
			return nil, err
		}
		return o.ownWeights(path, file)
	case FormTransformer:
		if joint, err := convert.IsJoint(path); err == nil && joint {
			return o.ownJoint(ctx, path)
		}
		if vision, err := convert.IsVision(path); err == nil && vision {
			return o.ownVision(ctx, path)
		}
		if text, err := convert.IsSentence(path); err == nil && text {
			return o.ownSentence(ctx, path, convert.Sentence)
		}
		if loop, err := convert.IsEncDec(path); err == nil && loop {
			return o.ownSentence(ctx, path, convert.EncDec)
		}
		file, err := o.ownTransformer(ctx, path)
		if err != nil {
			return nil, err
		}
		return o.ownWeights(path, file)
	}
	if convert.IsSentenceGGUF(path) {
		return o.ownSentence(ctx, path, convert.SentenceGGUF)
	}
	return o.ownGGUF(ctx, path)
}

// ownWeights makes a build of a GGUF file, whose header is checked. path names
// it in messages.
func (o *Opener) ownWeights(path, file string) (*builds.Build, error) {
	if err := runs(file, o.AnyArch); err != nil {
		return nil, weightsFault(path, err)
	}
	name := gguf.Stem(home.Abs(path))
	entry := name + ".gguf"
	core := builds.Part{Name: name, Type: abi.Core, Files: builds.Formats{string(abi.GGUF): {entry}}}
	own := &ownFiles{tempDir: o.TempDir, paths: map[string]string{entry: home.Abs(file)}}
	if context := contextOf(file); context != "" {
		record := strings.TrimSuffix(context, contextExt) + recordExt
		core.Files[string(abi.QNN)] = []string{filepath.Base(context), filepath.Base(record)}
		own.paths[filepath.Base(context)], own.paths[filepath.Base(record)] = home.Abs(context), home.Abs(record)
	}
	return &builds.Build{
		Assembly: &builds.Assembly{Name: name, ABI: abi.V1_0, Core: core}, Manifests: map[string]*modules.Manifest{}, Files: own,
	}, nil
}

// Extensions of the output of mm qnn compile.
const (
	contextExt = ".bin"
	recordExt  = ".json"
)

// contextOf returns the NPU context of a GGUF file, NAME.bin or NAME.CHIP.bin
// with its record, in the same folder; "" without one, or with several.
// The engine checks it against its record.
func contextOf(file string) string {
	stem := escapeGlob(strings.TrimSuffix(file, filepath.Ext(file)))
	var found []string
	for _, pattern := range []string{stem + contextExt, stem + ".*" + contextExt} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return ""
		}
		for _, path := range paths {
			if home.Exists(strings.TrimSuffix(path, contextExt) + recordExt) {
				found = append(found, path)
			}
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// runs returns why the engine cannot run a GGUF file. It reads only the
// header.
func runs(file string, anyArch bool) error {
	f, err := gguf.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if kind, err := gguf.GetOr(f, "general.type", "model"); err == nil && kind == "adapter" {
		return errors.New("it is an adapter, not a model: name its module in adapters of a graph")
	}
	if _, err := infer.CheckFile(f); err != nil && !(anyArch && errors.Is(err, arch.ErrUnknown)) {
		return err
	}
	if model, err := gguf.GetOr(f, gguf.KeyTokenizerModel, ""); err != nil || model == "" || model == "none" {
		return errors.Join(errors.New("it holds no tokenizer, so that it can read no text"), err)
	}
	return nil
}

// weightsFault returns the error for a model that cannot run. It names a file
// of a folder.
func weightsFault(path string, err error) error {
	reason, hint := reasonOf(err), ""
	if at := (*fs.PathError)(nil); errors.As(err, &at) && filepath.Clean(at.Path) != filepath.Clean(path) {
		reason = filepath.Base(at.Path) + ": " + reason
	}
	if key := (*hf.UnknownKeyError)(nil); errors.As(err, &key) {
		hint = "if it does not change the result, ignore it: --ignore " + key.Key
	}
	if errors.Is(err, arch.ErrUnknown) {
		hint = "--backend llamacpp runs it if the installed llama.cpp has the architecture (mm runtime install llamacpp)"
	}
	return unrunnable(path, reason, hint)
}

// ownCheckpoint writes the GGUF file of a checkpoint into a folder that is
// removed with the workspace.
func (o *Opener) ownCheckpoint(ctx context.Context, path string) (string, error) {
	ck, err := train.OpenLM(path)
	if err != nil {
		return "", diag.Hinted(err, "mm train writes checkpoints that run; weights of others are run by the folder they lie in, with their "+configFile)
	}
	defer ck.Close()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	dir, err := o.TempDir()
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "checkpoint.gguf")
	return file, fsx.Replace(file, 0o600, func(out io.Writer) error {
		_, err := ck.ExportGGUF(out, nil)
		return err
	})
}

// ownModule makes a build of a core module's folder: its manifest must be
// valid and agree with its files.
func (o *Opener) ownModule(ctx context.Context, path string) (*builds.Build, error) {
	m, list := modules.Load(path)
	if m == nil || list.Failed() {
		return nil, list.Err()
	}
	if m.Type != abi.Core && m.Type != abi.DraftCore {
		return nil, unrunnable(path, fmt.Sprintf("%s is of the type %s, which does not run by itself", m.ID(), m.Type), placeOf(m))
	}
	if list = append(m.CheckFiles(ctx), inspect.Check(m, inspect.Folder(m))...); list.Failed() {
		return nil, list.Err()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	own := &ownFiles{tempDir: o.TempDir, paths: map[string]string{}}
	core := builds.Part{Name: m.Name, Version: m.Version, Type: abi.Core, Modality: m.Modality, Manifest: modules.FileName, Files: builds.Formats{}}
	for format, files := range inspect.Weights(m, inspect.Folder(m)) {
		core.Files[string(format)] = files
		for _, name := range files {
			own.paths[name] = home.Abs(filepath.Join(m.Dir(), filepath.FromSlash(name)))
		}
	}
	entry := core.Files.Entry(abi.GGUF)
	if entry == "" {
		return nil, unrunnable(path, m.ID()+" exports no gguf, which is what runs here", "")
	}
	if err := runs(own.paths[entry], false); err != nil {
		return nil, weightsFault(own.paths[entry], err)
	}
	a := &builds.Assembly{Name: m.Name, Version: m.Version, ABI: m.ABI, License: m.License, Core: core, Golden: m.Golden, KV: keep(m.KVDTypes)}
	if m.Tokens != nil {
		a.Tokens = *m.Tokens
	}
	return &builds.Build{Assembly: a, Manifests: map[string]*modules.Manifest{m.Name: m}, Files: own}, nil
}

// keep returns the storage type of keys and values for a core that lists its
// types: the engine's default, 16 bits, if listed, or else the first.
func keep(types []abi.DType) abi.DType {
	if len(types) == 0 || slices.Contains(types, abi.FP16) {
		return ""
	}
	return types[0]
}

// placeOf returns where a graph names a module that does not run by itself.
func placeOf(m *modules.Manifest) string {
	place := map[abi.ModuleType]string{
		abi.Encoder: "modalities", abi.Projector: "modalities", abi.Decoder: "decoders", abi.Adapter: "core.llm.adapters",
		abi.Skill: "skills", abi.Router: "runtime.router", abi.Sandbox: "runtime.sandbox",
	}[m.Type]
	return fmt.Sprintf("a graph names it in %s; mm module check %s looks at it alone", cmp.Or(place, "its own place"), home.ShortPath(home.Abs(m.Dir())))
}

// ownFiles are files where they lie.
type ownFiles struct {
	tempDir func() (string, error)
	paths   map[string]string // name in the build → absolute path

	mu  sync.Mutex
	dir string
}

// Open implements builds.Files.
func (f *ownFiles) Open(name string) (*os.File, error) {
	path, err := f.Path(name)
	if err != nil {
		return nil, err
	}
	return fsx.OpenRegular(path)
}

// Path implements builds.Files.
func (f *ownFiles) Path(name string) (string, error) {
	path, ok := f.paths[name]
	if !ok {
		return "", fmt.Errorf("unknown file %s", name)
	}
	return path, nil
}

// Dir implements builds.Files.
func (f *ownFiles) Dir(_ context.Context, names ...string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dir == "" {
		dir, err := f.tempDir()
		if err != nil {
			return "", err
		}
		f.dir = dir
	}
	d, err := fsx.Open(f.dir, fsx.Options{})
	if err != nil {
		return "", err
	}
	defer d.Close()
	for _, name := range names {
		from, err := f.Path(name)
		if err != nil {
			return "", err
		}
		if home.Exists(filepath.Join(f.dir, filepath.FromSlash(name))) {
			continue
		}
		if err := d.MkdirAll(filepath.ToSlash(filepath.Dir(filepath.FromSlash(name))), 0o700); err != nil {
			return "", err
		}
		if _, err := d.LinkOrCopy(from, name, 0o600); err != nil {
			return "", err
		}
	}
	return f.dir, nil
}
