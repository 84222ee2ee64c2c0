package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/hf"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/tower"
	"mm-abi.org/mm/schemas"
)

// GraphFile is the name of the graph that Vision writes.
const GraphFile = "build.graph.yaml"

// maxSettings is the size limit of a JSON file of settings.
const maxSettings = 4 << 20

// vision describes a vision language model of transformers.
type vision struct {
	folder string
	config []byte // config.json
	tower  tower.Config
	model  *hf.Model
	count  int // maximum of vectors of a picture or tile
	ids    struct {
		Image      *int32 `json:"image_token_id"`
		ImageIndex *int32 `json:"image_token_index"`
		Begin      *int32 `json:"boi_token_index"`
		End        *int32 `json:"eoi_token_index"`
	}
}

// IsVision reports whether a folder holds a vision language model.
func IsVision(folder string) (bool, error) {
	data, err := fsx.ReadFile(filepath.Join(folder, "config.json"), maxSettings)
	if err != nil {
		return false, err
	}
	var head struct {
		Vision json.RawMessage `json:"vision_config"`
	}
	if json.Unmarshal(data, &head) != nil { // the reader of the folder reports it
		return false, nil
	}
	return len(head.Vision) > 0 && string(head.Vision) != "null", nil
}

// Vision converts a folder of a vision language model of transformers to a core, an
// encoder, a projector and a build.graph.yaml that joins them, and returns the
// folder that holds them.
func Vision(ctx context.Context, folder string, opt Options) (dir string, err error) {
	v := &vision{folder: folder}
	if err := v.open(opt); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, v.model.Close()) }()
	name := opt.Name
	if name == "" {
		name = Slug(v.model.Card.Name)
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
	spec, err := v.preprocess()
	if err != nil {
		return "", err
	}
	seq, err := v.sequence()
	if err != nil {
		return "", err
	}
	license, err := (model{license: v.model.Card.License}).spdx(opt.License)
	if err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "."+name+".new-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	count := v.tower.Count
	if spec.Fit != nil {
		count = spec.Fit.Bound
	}
	v.count = count()
	most := v.count
	if spec.Tiles != nil {
		most *= spec.Tiles.Bound()
	}
	for _, part := range []struct {
		name  string
		write func(dir string, m modules.Manifest) error
	}{
		{name + "-core", func(dir string, m modules.Manifest) error {
			one := opt
			one.Name, one.Dir, one.caps = m.Name, dir, modules.Figures{"image": most}
			_, err := HuggingFace(ctx, folder, one)
			return err
		}},
		{name + "-enc", func(dir string, m modules.Manifest) error {
			m.Type, m.Preprocess = abi.Encoder, modules.Preprocess{tower.Pixels: spec}
			return v.function(ctx, dir, m, v.tower.Encoder)
		}},
		{name + "-proj", func(dir string, m modules.Manifest) error {
			m.Type, m.Sequence = abi.Projector, seq
			m.Params = modules.Figures{"d_model": v.tower.Into, "t_cap": v.count}
			return v.function(ctx, dir, m, v.tower.Projector)
		}},
	} {
		m := modules.Manifest{Name: part.name, Version: opt.Version, Modality: abi.Image, ABI: abi.V1_2, License: license, Source: oneLine(v.model.Card.Source)}
		m.Description = oneLine(fmt.Sprintf("Part of %s, a vision language model of family %s.", v.model.Card.Name, v.tower.Family))
		if err := part.write(filepath.Join(temp, "modules", part.name), m); err != nil {
			return "", err
		}
	}
	if err := v.project(temp, name, opt.Version, license); err != nil {
		return "", err
	}
	return dir, os.Rename(temp, dir)
}

// open reads the folder.
func (v *vision) open(opt Options) (err error) {
	if v.config, err = fsx.ReadFile(filepath.Join(v.folder, "config.json"), maxSettings); err != nil {
		return err
	}
	if v.tower, err = tower.ReadConfig(v.config); err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	if err := json.Unmarshal(v.config, &v.ids); err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	if v.tower.Family == "paligemma" {
		return errors.New("config.json: unsupported model_type paligemma: its text sees later positions of the prompt")
	}
	if v.model, err = hf.Open(v.folder, hf.Options{Ignore: opt.Ignore}); err != nil {
		return err
	}
	if v.model.Tokenizer == nil {
		return errors.Join(fmt.Errorf("missing tokenizer.json in %s", v.folder), v.model.Close())
	}
	if v.tower.Into != v.model.Shape.Width {
		return errors.Join(fmt.Errorf("projector of width %d for a language model of %d", v.tower.Into, v.model.Shape.Width), v.model.Close())
	}
	return nil
}

// preprocess reads preprocessor_config.json, or the part for images of
// processor_config.json.
func (v *vision) preprocess() (spec preprocess.Spec, err error) {
	name := "preprocessor_config.json"
	data, err := fsx.ReadFile(filepath.Join(v.folder, name), maxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		name = "processor_config.json"
		if data, err = fsx.ReadFile(filepath.Join(v.folder, name), maxSettings); err == nil {
			var all struct {
				Image json.RawMessage `json:"image_processor"`
			}
			if err = json.Unmarshal(data, &all); err == nil && all.Image == nil {
				err = errors.New("missing key image_processor")
			}
			data = all.Image
		}
	}
	if err == nil {
		spec, err = v.tower.Preprocess(data)
	}
	if err != nil {
		return spec, fmt.Errorf("%s: %w", name, err)
	}
	return spec, nil
}

// sequence returns the texts around the vectors, as the processors of transformers
// write them.
func (v *vision) sequence() (*modules.Sequence, error) {
	image, err := v.piece("image_token_id", v.ids.Image, v.ids.ImageIndex)
	if err != nil {
		return nil, err
	}
	switch v.tower.Family {
	case "gemma3":
		begin, err := v.piece("boi_token_index", v.ids.Begin)
		if err != nil {
			return nil, err
		}
		end, err := v.piece("eoi_token_index", v.ids.End)
		return &modules.Sequence{Marker: begin, Open: "\n\n" + begin, Close: end + "\n\n", Attention: "mutual"}, err
	case "idefics3", "smolvlm":
		const fake, global = "<fake_token_around_image>", "<global-img>"
		return &modules.Sequence{
			Marker: image, Tile: fake + "<row_{row}_col_{col}>", RowEnd: "\n", Overview: "\n" + fake + global, Alone: fake + global, Close: fake,
		}, v.known(fake, global)
	case "internvl":
		return &modules.Sequence{Marker: image, Open: "<img>", Close: "</img>"}, v.known("<img>", "</img>")
	}
	switch {
	case v.tower.Grid():
		return &modules.Sequence{Marker: image, Positions: "grid", Deep: v.tower.Deep()}, nil
	case v.tower.ByRow():
		const end, last = "[IMG_BREAK]", "[IMG_END]"
		return &modules.Sequence{Marker: image, Runs: "rows", RowEnd: end, Close: last}, v.known(end, last)
	}
	return &modules.Sequence{Marker: image}, nil
}

// piece returns the text of the first given token.
func (v *vision) piece(key string, ids ...*int32) (string, error) {
	for _, id := range ids {
		if id != nil && *id >= 0 && int(*id) < v.model.Tokenizer.Size() {
			return v.model.Tokenizer.Piece(*id), nil
		}
	}
	return "", fmt.Errorf("config.json: missing %s, or not a token of the vocabulary", key)
}

// known reports tokens that the vocabulary lacks.
func (v *vision) known(tokens ...string) error {
	for _, t := range tokens {
		if v.model.Tokenizer.ID(t) == tokenizer.None {
			return fmt.Errorf("missing token %s in the vocabulary", t)
		}
	}
	return nil
}

// function writes a module of one ONNX file.
func (v *vision) function(ctx context.Context, dir string, m modules.Manifest, build func(tower.Weights) (*onnx.Model, error)) error {
	graph, err := build(tower.Weights(v.model.Tensors()))
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

// projectGraph is the graph of the parts: name, version, license, version of the
// parts, width and vectors.
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
    gguf: {quant: fp16}
    onnx: [%[1]s-enc, %[1]s-proj]
`

// project writes the graph and the settings that name the folder of the modules.
func (v *vision) project(dir, name, version, license string) error {
	if license != "" {
		license = "license: " + license + "\n"
	}
	d, err := fsx.Open(dir, fsx.Options{})
	if err != nil {
		return err
	}
	graph := fmt.Sprintf(projectGraph, name, version, license, v.tower.Into, v.count)
	err = d.WriteFile(GraphFile, []byte(graph+schemas.EditorComment(schemas.Graph)), 0o644)
	err = errors.Join(err, d.WriteFile("mm.yaml", []byte("modules: [modules]\n"+schemas.EditorComment(schemas.Config)), 0o644))
	err = errors.Join(err, d.WriteFile(modules.GitFile, []byte(modules.GitAttributes), 0o644))
	return errors.Join(err, d.Close())
}
