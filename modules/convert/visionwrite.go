package convert

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/tower"
	"mm-abi.org/mm/schemas"
)

// write creates the folder.
func (v *vision) write(ctx context.Context, opt Options) (string, error) {
	return writeProject(v.card, opt, func(dir, name, license string) error { return v.fill(ctx, dir, name, license, opt) })
}

// writeProject creates a folder of modules and their graph, which fill writes, and
// returns it. It is complete or absent.
func writeProject(card model, opt Options, fill func(dir, name, license string) error) (dir string, err error) {
	name := opt.Name
	if name == "" {
		if name = Slug(card.name); name == "" {
			name = Slug(card.stem)
		}
	}
	if !abi.ValidName(name) {
		return "", fmt.Errorf("invalid module name %q: set a name", name)
	}
	if dir = opt.Dir; dir == "" {
		dir = name
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return "", errors.Join(fmt.Errorf("%s exists: nothing was written", dir), err)
	}
	if _, err := abi.ParseVersion(opt.Version); err != nil {
		return "", err
	}
	license, err := card.spdx(opt.License)
	if err != nil {
		return "", err
	}
	parent, err := fsx.Create(filepath.Dir(dir), 0o755, fsx.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, parent.Close()) }()
	temp := "." + filepath.Base(dir) + ".new-" + rand.Text()[:8]
	defer func() { err = errors.Join(err, parent.Root().RemoveAll(temp)) }()
	if err := fill(filepath.Join(parent.Path(), temp), name, license); err != nil {
		return "", err
	}
	return dir, parent.Rename(temp, filepath.Base(dir))
}

// fill writes the modules and the graph.
func (v *vision) fill(ctx context.Context, dir, name, license string, opt Options) error {
	spec, err := v.tower.Preprocess(v.processor)
	if err != nil {
		return fmt.Errorf("preprocessor_config.json: %w", err)
	}
	seq, err := v.sequence()
	if err != nil {
		return err
	}
	most := v.tower.Most(spec)
	if v.count = most; spec.Fit == nil {
		v.count = v.tower.Count()
	}
	if v.card.context > v.count {
		most = min(most, v.card.context) // the cap of the core
	}
	if v.core != nil {
		one := opt
		one.Name, one.Dir, one.caps = name+"-core", filepath.Join(dir, "modules", name+"-core"), modules.Figures{string(v.modality()): most}
		if _, err := v.core(ctx, one); err != nil {
			return err
		}
		if err := v.project(dir, name, opt.Version, license); err != nil {
			return err
		}
	}
	m := modules.Manifest{Version: opt.Version, Modality: v.modality(), ABI: abi.V1_2, License: license, Source: oneLine(v.card.source)}
	m.Description = oneLine(fmt.Sprintf("Part of %s, a language model with %s input, of family %s.", or(v.card.name, name), v.modality(), v.tower.Family))
	enc, proj := m, m
	enc.Name, enc.Type, enc.Preprocess = name+"-enc", abi.Encoder, modules.Preprocess{v.tower.Input(): spec}
	proj.Name, proj.Type, proj.Sequence = name+"-proj", abi.Projector, seq
	proj.Params = modules.Figures{"d_model": v.tower.Into, "t_cap": v.count}
	for _, part := range []struct {
		m     modules.Manifest
		build func(tower.Weights) (*onnx.Model, error)
	}{{enc, v.tower.Encoder}, {proj, v.tower.Projector}} {
		if err := v.function(ctx, filepath.Join(dir, "modules", part.m.Name), part.m, part.build); err != nil {
			return err
		}
	}
	return nil
}

// function writes a module of one ONNX file.
func (v *vision) function(ctx context.Context, dir string, m modules.Manifest, build func(tower.Weights) (*onnx.Model, error)) error {
	graph, err := build(v.weights)
	if err != nil {
		return err
	}
	described, err := Describe(graph, Function{Type: m.Type, Modality: m.Modality, Preprocess: m.Preprocess, Params: m.Params})
	if err != nil {
		return err
	}
	m.Inputs, m.Outputs = described.Inputs, described.Outputs
	_, _, err = modules.Create(dir, func(d *fsx.Dir) error {
		entry := m.Name + ".onnx"
		file, err := WriteFile(d, entry, func(w io.Writer) error {
			_, err := onnx.Write(fsx.Writer{Context: ctx, W: w}, graph)
			return err
		})
		if err != nil {
			return err
		}
		m.Files, m.Export = []modules.File{file}, map[abi.Format]modules.Export{abi.ONNX: {Path: entry}}
		return WriteManifest(d, m)
	})
	if err != nil {
		return fmt.Errorf("creating module %s: %w", m.Name, err)
	}
	return nil
}

// projectGraph is the graph of the parts: name, version, license, width, vectors and
// precision.
const projectGraph = `name: %[1]s
version: %[2]s
abi: mm-abi-1.2
%[3]s
core:
  llm: {ref: %[1]s-core@%[2]s, d_model: %[4]d}

modalities:
  - enc: {ref: %[1]s-enc@%[2]s}
    proj: {ref: %[1]s-proj@%[2]s, t_cap: %[5]d, out_dim: %[4]d}

exports:
  laptop:
    gguf: {quant: %[6]s}
    onnx: [%[1]s-enc, %[1]s-proj]
`

// project writes the graph and the settings that name the folder of the modules.
func (v *vision) project(dir, name, version, license string) error {
	return writeGraph(dir, fmt.Sprintf(projectGraph, name, version, licenseLine(license), v.tower.Into, v.count, v.quant))
}

// licenseLine returns the line of a graph.
func licenseLine(license string) string {
	if license == "" {
		return ""
	}
	return "license: " + license + "\n"
}

// writeGraph writes a graph, and the settings that name the folder of its modules.
func writeGraph(dir, graph string) error {
	d, err := fsx.Open(dir, fsx.Options{})
	if err != nil {
		return err
	}
	err = d.WriteFile(GraphFile, []byte(graph+schemas.EditorComment(schemas.Graph)), 0o644)
	err = errors.Join(err, d.WriteFile("mm.yaml", []byte("modules: [modules]\n"+schemas.EditorComment(schemas.Config)), 0o644))
	err = errors.Join(err, d.WriteFile(modules.GitFile, []byte(modules.GitAttributes), 0o644))
	return errors.Join(err, d.Close())
}
