package convert

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/hf"
	"mm-abi.org/mm/core/quant"
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

// vision describes a vision language model: of transformers, or of a pair of GGUF
// files.
type vision struct {
	config    []byte // config.json
	processor []byte // preprocessor_config.json
	tower     tower.Config
	weights   tower.Weights
	width     int // of the language model
	vocab     *tokenizer.Tokenizer
	card      model // name, license and source
	quant     string
	count     int // maximum of vectors of a picture or tile
	ids       struct {
		Image      *int32 `json:"image_token_id"`
		ImageIndex *int32 `json:"image_token_index"`
		Audio      *int32 `json:"audio_token_id"`
		AudioIndex *int32 `json:"audio_token_index"`
		Begin      *int32 `json:"boi_token_index"`
		End        *int32 `json:"eoi_token_index"`
	}
	core  func(ctx context.Context, opt Options) (string, error) // writes the module of the language model
	close func() error
}

// IsVision reports whether a folder holds a language model with an encoder of
// pictures or sounds.
func IsVision(folder string) (bool, error) {
	data, err := fsx.ReadFile(filepath.Join(folder, "config.json"), maxSettings)
	if err != nil {
		return false, err
	}
	var head struct {
		Vision json.RawMessage `json:"vision_config"`
		Audio  json.RawMessage `json:"audio_config"`
	}
	if json.Unmarshal(data, &head) != nil { // the reader of the folder reports it
		return false, nil
	}
	set := func(v json.RawMessage) bool { return len(v) > 0 && string(v) != "null" }
	return set(head.Vision) || set(head.Audio), nil
}

// Vision converts a folder of a vision language model of transformers to a core, an
// encoder, a projector and a build.graph.yaml that joins them, and returns the
// folder that holds them.
func Vision(ctx context.Context, folder string, opt Options) (dir string, err error) {
	v, err := openVision(folder, opt)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	return v.write(ctx, opt)
}

// VisionPair converts a language model in GGUF and the mmproj file of its vision
// tower as [Vision] converts a folder.
func VisionPair(ctx context.Context, path, mmproj string, opt Options) (dir string, err error) {
	return convertPair(ctx, path, mmproj, opt, true)
}

// VisionParts converts what Vision and VisionPair convert, without the language
// model and the graph.
func VisionParts(ctx context.Context, path, mmproj string, opt Options) (dir string, err error) {
	return convertPair(ctx, path, mmproj, opt, false)
}

func convertPair(ctx context.Context, path, mmproj string, opt Options, core bool) (dir string, err error) {
	v, err := openPair(path, mmproj)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	if !core {
		v.core = nil
	}
	return v.write(ctx, opt)
}

// write creates the folder.
func (v *vision) write(ctx context.Context, opt Options) (dir string, err error) {
	name := opt.Name
	if name == "" {
		if name = Slug(v.card.name); name == "" {
			name = Slug(v.card.stem)
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
	license, err := v.card.spdx(opt.License)
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
	if err := v.fill(ctx, filepath.Join(parent.Path(), temp), name, license, opt); err != nil {
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

// openVision reads a folder of transformers.
func openVision(folder string, opt Options) (v *vision, err error) {
	v = &vision{quant: "fp16"}
	if v.config, err = fsx.ReadFile(filepath.Join(folder, "config.json"), maxSettings); err != nil {
		return nil, err
	}
	if err := v.settle(); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	h, err := hf.Open(folder, hf.Options{Ignore: opt.Ignore})
	if err != nil {
		return nil, err
	}
	v.close = h.Close
	v.width, v.vocab, v.weights = h.Shape.Width, h.Tokenizer, tower.Safetensors(h.Tensors())
	v.card = model{context: h.Shape.Context, name: h.Card.Name, license: h.Card.License, source: h.Card.Source}
	v.core = func(ctx context.Context, opt Options) (string, error) { return HuggingFace(ctx, folder, opt) }
	if v.processor, err = v.readProcessor(folder); err == nil && v.vocab == nil {
		err = fmt.Errorf("missing tokenizer.json in %s", folder)
	}
	if err == nil {
		err = v.fits()
	}
	if err != nil {
		return nil, errors.Join(err, v.close())
	}
	return v, nil
}

// openPair reads a language model in GGUF and an mmproj file.
func openPair(path, mmproj string) (v *vision, err error) {
	text, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	v = &vision{close: text.Close, quant: precision(text)}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.close())
		}
	}()
	if v.card, err = describe(text); err != nil {
		return v, fmt.Errorf("%s is not supported: %w", path, err)
	}
	v.card.stem, v.width, v.vocab = gguf.Stem(path), v.card.width, v.card.tokenizer
	v.core = func(ctx context.Context, opt Options) (string, error) { return GGUF(ctx, path, opt) }
	f, err := gguf.Open(mmproj)
	if err != nil {
		return v, err
	}
	v.close = func() error { return errors.Join(f.Close(), text.Close()) }
	if err := f.Check(); err != nil {
		return v, fmt.Errorf("%s: %w", mmproj, err)
	}
	p, err := tower.ReadMMProj(f)
	if err != nil {
		return v, fmt.Errorf("%s: %w", mmproj, err)
	}
	v.config, v.processor, v.weights = p.Config, p.Processor, p.Weights
	if err = v.settle(); err == nil {
		err = v.fits()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", mmproj, err)
	}
	return v, err
}

// precision returns the recipe of a file, which an export leaves unchanged, or fp16.
func precision(f *gguf.File) string {
	kind, err := gguf.GetOr(f, gguf.KeyFileType, uint32(1))
	for _, name := range quant.RecipeNames() {
		if r, no := quant.ParseRecipe(name); err == nil && no == nil && r.FileType == kind {
			return name
		}
	}
	return "fp16"
}

// settle reads the configuration of the tower.
func (v *vision) settle() (err error) {
	if v.tower, err = tower.ReadConfig(v.config); err != nil {
		return err
	}
	return json.Unmarshal(v.config, &v.ids)
}

// fits compares the projector with the language model.
func (v *vision) fits() error {
	if v.tower.Into != v.width {
		return fmt.Errorf("projector of width %d for a language model of %d", v.tower.Into, v.width)
	}
	return nil
}

// readProcessor reads preprocessor_config.json, or the part for the inputs of
// processor_config.json.
func (v *vision) readProcessor(folder string) ([]byte, error) {
	data, err := fsx.ReadFile(filepath.Join(folder, "preprocessor_config.json"), maxSettings)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	if data, err = fsx.ReadFile(filepath.Join(folder, "processor_config.json"), maxSettings); err != nil {
		return nil, err
	}
	var all struct {
		Image json.RawMessage `json:"image_processor"`
		Audio json.RawMessage `json:"feature_extractor"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("processor_config.json: %w", err)
	}
	part, key := all.Image, "image_processor"
	if v.tower.Sound() {
		part, key = all.Audio, "feature_extractor"
	}
	if part == nil {
		return nil, fmt.Errorf("processor_config.json: missing key %s", key)
	}
	return part, nil
}

// sequence returns the texts around the vectors, as the processors of transformers
// write them.
func (v *vision) sequence() (*modules.Sequence, error) {
	if v.tower.Sound() {
		return v.heard()
	}
	image, err := v.piece("image_token_id", v.usual(), v.ids.Image, v.ids.ImageIndex)
	if err != nil {
		return nil, err
	}
	switch v.tower.Family {
	case "paligemma":
		return &modules.Sequence{Marker: image, Attention: "prefix"}, nil
	case "gemma3":
		begin, err := v.piece("boi_token_index", "<start_of_image>", v.ids.Begin)
		if err != nil {
			return nil, err
		}
		end, err := v.piece("eoi_token_index", "<end_of_image>", v.ids.End)
		return &modules.Sequence{Marker: begin, Open: "\n\n" + begin, Close: end + "\n\n", Attention: "mutual"}, err
	case "idefics3", "smolvlm":
		const fake, global = "<fake_token_around_image>", "<global-img>"
		return &modules.Sequence{
			Marker: image, Tile: fake + "<row_{row}_col_{col}>", RowEnd: "\n", Overview: "\n" + fake + global, Alone: fake + global, Close: fake,
		}, v.known(fake, global)
	case "internvl":
		return &modules.Sequence{Marker: image, Open: "<img>", Close: "</img>"}, v.known("<img>", "</img>")
	}
	shrink, mosaic := v.tower.Mosaic()
	switch {
	case mosaic:
		return &modules.Sequence{Marker: image, Runs: "mosaic", Shrink: shrink}, nil
	case v.tower.Grid():
		return &modules.Sequence{Marker: image, Positions: "grid", Deep: v.tower.Deep()}, nil
	case v.tower.ByRow():
		const end, last = "[IMG_BREAK]", "[IMG_END]"
		return &modules.Sequence{Marker: image, Runs: "rows", RowEnd: end, Close: last}, v.known(end, last)
	}
	return &modules.Sequence{Marker: image}, nil
}

// modality returns what the encoder takes.
func (v *vision) modality() abi.Modality {
	if v.tower.Sound() {
		return abi.Audio
	}
	return abi.Image
}

// heard returns the texts around the vectors of a sound.
func (v *vision) heard() (*modules.Sequence, error) {
	usual, begin := "<|AUDIO|>", ""
	if v.tower.Family == "voxtral" {
		usual, begin = "[AUDIO]", "[BEGIN_AUDIO]"
	}
	marker, err := v.piece("audio_token_id", usual, v.ids.Audio, v.ids.AudioIndex)
	if err != nil || begin == "" || strings.Contains(v.vocab.Rules().Template, begin) {
		return &modules.Sequence{Marker: marker}, err
	}
	return &modules.Sequence{Marker: marker, Open: begin}, v.known(begin)
}

// usual returns the marker of a family, for files that do not name it.
func (v *vision) usual() string {
	switch {
	case v.tower.Grid():
		return "<|image_pad|>"
	case v.tower.ByRow():
		return "[IMG]"
	case v.tower.Family == "gemma3":
		return "<start_of_image>"
	case v.tower.Family == "internvl":
		return "<IMG_CONTEXT>"
	}
	return "<image>"
}

// piece returns the text of the first given token, or the usual one. A template may
// write a marker that is not a token.
func (v *vision) piece(key, usual string, ids ...*int32) (string, error) {
	stated := false
	for _, id := range ids {
		if id != nil && *id >= 0 && int(*id) < v.vocab.Size() {
			return v.vocab.Piece(*id), nil
		}
		stated = stated || id != nil
	}
	if stated {
		return "", fmt.Errorf("config.json: %s is not a token of the vocabulary", key)
	}
	return usual, nil
}

// known reports tokens that the vocabulary lacks.
func (v *vision) known(tokens ...string) error {
	for _, t := range tokens {
		if v.vocab.ID(t) == tokenizer.None {
			return fmt.Errorf("missing token %s in the vocabulary", t)
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
	if license != "" {
		license = "license: " + license + "\n"
	}
	d, err := fsx.Open(dir, fsx.Options{})
	if err != nil {
		return err
	}
	graph := fmt.Sprintf(projectGraph, name, version, license, v.tower.Into, v.count, v.quant)
	err = d.WriteFile(GraphFile, []byte(graph+schemas.EditorComment(schemas.Graph)), 0o644)
	err = errors.Join(err, d.WriteFile("mm.yaml", []byte("modules: [modules]\n"+schemas.EditorComment(schemas.Config)), 0o644))
	err = errors.Join(err, d.WriteFile(modules.GitFile, []byte(modules.GitAttributes), 0o644))
	return errors.Join(err, d.Close())
}
