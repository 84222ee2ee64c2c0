package workspace

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/workspace/loose"
)

// foreign returns a build of another tool's model: of its one GGUF file, model in
// pieces, ONNX file or folder of transformers. Such a model describes itself, as one on
// disk does.
func (v *Verified) foreign(ctx context.Context, f *files) (*builds.Build, error) {
	a := f.artifact
	if i := slices.IndexFunc(a.Layers, func(l artifact.Layer) bool { return l.Role == artifact.RoleAdapter }); i >= 0 {
		return nil, diag.Hinted(fmt.Errorf("%s is a model with the adapter %s, which mm run does not apply", v.Ref, a.Layers[i].Path),
			"mm pull "+v.Ref+" --out DIR writes both; a graph names the adapter in core.llm.adapters")
	}
	var b *builds.Build
	var err error
	if file := loneWeights(a); file != "" {
		name := strings.TrimSuffix(path.Base(file), path.Ext(file))
		if a.Name != "" {
			name = a.Name
		}
		core := builds.Part{Name: name, Version: a.Version, Type: abi.Core, Files: builds.Formats{string(abi.GGUF): {file}}}
		b = &builds.Build{Assembly: &builds.Assembly{Name: name, Version: a.Version, ABI: abi.V1_0, Core: core}, Manifests: map[string]*modules.Manifest{}, Files: f}
	} else if b, err = v.unpacked(ctx, a); err != nil {
		return nil, err
	}
	return b, v.template(ctx, b, a)
}

// loneWeights returns the path of the one GGUF file of an artifact without archives;
// empty without one.
func loneWeights(a *artifact.Artifact) string {
	var paths []string
	for _, l := range a.Layers {
		if l.Packing != "" && needed(l) {
			return ""
		}
		paths = append(paths, l.Path)
	}
	c := found(a, paths)
	if len(c.gguf) != 1 || piece(c.gguf[0]) > 0 {
		return ""
	}
	return c.gguf[0]
}

// needed reports whether a layer may be a part of the model: not a document, a data
// set or code.
func needed(l artifact.Layer) bool {
	return l.Role != artifact.RoleOther && l.Role != artifact.RoleLicense
}

// unpacked writes the files of a model to a folder of this run and opens them there.
func (v *Verified) unpacked(ctx context.Context, a *artifact.Artifact) (*builds.Build, error) {
	dir, err := v.w.scratch()
	if err != nil {
		return nil, err
	}
	paths, err := v.at.store.Checkout(ctx, a, dir.Path(), registry.CheckoutOptions{Link: true, Cached: true, Only: needed})
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(a.Layers, func(l artifact.Layer) bool { return l.Packing != "" && needed(l) }) {
		v.w.say("%s is unpacked for this run; mm pull %s --out DIR keeps its files", v.Ref, v.Ref)
	}
	c := found(a, paths)
	file, form := c.model()
	if file == "" {
		return nil, diag.Hinted(fmt.Errorf("%s holds a model of another tool with %d GGUF files, %d ONNX files and %d folders of transformers, want 1 of them", v.Ref, len(c.gguf), len(c.onnx), len(c.folders)),
			"mm pull "+v.Ref+" --out DIR writes its files; mm run DIR/FILE runs one")
	}
	file = filepath.Join(dir.Path(), filepath.FromSlash(file))
	if form == loose.FormFunction {
		fn, err := v.w.loose().Function(ctx, file)
		if err != nil {
			return nil, err
		}
		return fn.Build(), nil
	}
	return v.w.loose().Build(ctx, file, form)
}

// template sets the build's chat template to that of a layer, and names the layers that a
// run leaves aside.
func (v *Verified) template(ctx context.Context, b *builds.Build, a *artifact.Artifact) error {
	var aside []string
	for _, l := range a.Layers {
		switch l.Role {
		case artifact.RoleTemplate:
			data, err := v.small(ctx, l)
			if err != nil {
				return err
			}
			b.Template = string(data)
		case artifact.RoleGoTemplate:
			aside = append(aside, l.Path+" (a template of Ollama's, not Jinja: the model's own is used)")
		case artifact.RoleParams:
			aside = append(aside, l.Path+" (settings and prompts of Ollama)")
		case artifact.RoleProjector:
			aside = append(aside, l.Path+" (a projector of llama.cpp: the model reads text only)")
		case artifact.RoleDraft:
			aside = append(aside, l.Path+" (a draft model)")
		}
	}
	if aside != nil {
		v.w.say("%s: not used: %s", v.Ref, strings.Join(aside, "; "))
	}
	return nil
}

// contents are the models among the files of an artifact.
type contents struct {
	gguf    []string // a model in pieces: its first
	onnx    []string
	folders []string // of transformers: config.json and safetensors
}

// found lists the models among paths, in their order.
func found(a *artifact.Artifact, paths []string) contents {
	aside := map[string]bool{}
	for _, l := range a.Layers {
		switch l.Role {
		case artifact.RoleProjector, artifact.RoleAdapter, artifact.RoleDraft:
			aside[l.Path] = true
		}
	}
	var c contents
	for _, p := range paths {
		lower := strings.ToLower(path.Base(p))
		switch {
		case aside[p] || strings.Contains(lower, "mmproj"):
		case strings.HasSuffix(lower, ".gguf") && piece(p) <= 1:
			c.gguf = append(c.gguf, p)
		case strings.HasSuffix(lower, ".onnx"):
			c.onnx = append(c.onnx, p)
		case strings.HasSuffix(lower, ".safetensors"):
			if dir := path.Dir(p); slices.Contains(paths, path.Join(dir, "config.json")) && !slices.Contains(c.folders, dir) {
				c.folders = append(c.folders, dir)
			}
		}
	}
	return c
}

// piece returns the number of a piece of a model, NAME-00001-of-00003.gguf; 0 for a
// whole model.
func piece(p string) int {
	stem := strings.TrimSuffix(p, path.Ext(p))
	at := len(stem) - len("-00001-of-00003")
	if at < 0 || stem[at] != '-' || stem[at+6:at+10] != "-of-" {
		return 0
	}
	n, err := strconv.Atoi(stem[at+1 : at+6])
	if err != nil {
		return 0
	}
	return n
}

// model returns the one model and its form; empty unless there is exactly one.
func (c contents) model() (string, loose.Form) {
	switch {
	case len(c.gguf) == 1:
		return c.gguf[0], loose.FormGGUF
	case len(c.gguf) == 0 && len(c.folders) == 1 && len(c.onnx) == 0:
		return c.folders[0], loose.FormTransformer
	case len(c.gguf) == 0 && len(c.folders) == 0 && len(c.onnx) == 1:
		return c.onnx[0], loose.FormFunction
	}
	return "", 0
}

// command returns the command that runs the model, whose files are in dir.
func (c contents) command(dir string) string {
	file, form := c.model()
	file = filepath.Join(dir, filepath.FromSlash(file))
	switch {
	case file == dir && len(c.folders) == 0:
		return ""
	case form == loose.FormTransformer:
		return "mm run " + file + ", or mm module import hf " + file
	case form == loose.FormFunction:
		return "mm run " + file + " --input NAME=FILE"
	}
	return "mm run " + file
}
