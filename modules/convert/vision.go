package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/hf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx/tower"
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
