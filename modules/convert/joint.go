package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/hf"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx/sentence"
	"mm-abi.org/mm/onnx/tower"
)

// Suffixes of the modules that Joint writes.
const (
	TextPart  = "-text"
	ImagePart = "-image"
)

// IsJoint reports whether a folder holds encoders of texts and pictures whose vectors
// share a space, such as CLIP.
func IsJoint(folder string) (bool, error) {
	family, err := modelType(folder)
	return tower.IsJoint(family), err
}

// Joint converts a folder of CLIP or SigLIP to an encoder of texts, an encoder of
// pictures and a build.graph.yaml of both, and returns the folder that holds them.
func Joint(ctx context.Context, folder string, opt Options) (dir string, err error) {
	h, err := hf.OpenEncoder(folder)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	all, err := h.Tensors("")
	if err != nil {
		return "", fmt.Errorf("reading the encoders in %s: %w", folder, err)
	}
	j := &jointFolder{
		weights: tower.Safetensors(all),
		text:    &reader{vocab: h.Tokenizer, card: model{stem: h.Card.Name, name: h.Card.Name, author: h.Card.Author, license: h.Card.License, source: h.Card.Source}},
	}
	if err := j.read(folder, h); err != nil {
		return "", fmt.Errorf("reading the encoders in %s: %w", folder, err)
	}
	return writeProject(j.text.card, opt, func(dir, name, license string) error { return j.fill(ctx, dir, name, license, opt) })
}

// jointFolder is a folder of CLIP or SigLIP.
type jointFolder struct {
	weights   tower.Weights
	text      *reader
	image     tower.Config
	processor []byte
	params    modules.Figures
}

// read reads the files of the folder.
func (j *jointFolder) read(folder string, h *hf.Encoder) (err error) {
	t := j.text
	if t.config, err = sentence.ReadTower(h.Config, int(h.Tokenizer.Special().Padding)); err == nil {
		j.image, err = tower.ReadJoint(h.Config)
	}
	if err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	if j.image.Into != t.config.Into() {
		return fmt.Errorf("config.json: vectors of %d numbers of texts and %d of pictures", t.config.Into(), j.image.Into)
	}
	v := &vision{tower: j.image}
	if j.processor, err = v.readProcessor(folder); err != nil {
		return err
	}
	t.weights, t.text = j.weights, modules.Text{Tokenizer: tokenizerFile, MaxTokens: t.config.Positions}
	if h.Limit > 0 {
		t.text.MaxTokens = min(t.text.MaxTokens, h.Limit)
	}
	sum := sha256.New()
	sum.Write(h.Config)
	for _, name := range []string{"logit_scale", "logit_bias", "text_projection.weight", "visual_projection.weight", "text_model.head.weight", "vision_model.head.probe"} {
		sum.Write(j.weights[name].Data)
	}
	j.params = modules.Figures{modules.Space: hex.EncodeToString(sum.Sum(nil)[:16])}
	if err := j.figure(modules.LogitScale, func(v float64) float64 { return float64(float32(math.Exp(v))) }); err != nil {
		return err
	}
	return j.figure(modules.LogitBias, func(v float64) float64 { return v })
}

// figure adds a number of the model to the parameters of the modules.
func (j *jointFolder) figure(name string, of func(float64) float64) error {
	if !j.weights.Has(name) {
		return nil
	}
	v, err := j.weights.Floats(name)
	if err != nil {
		v, err = j.weights.Floats(name, 1)
	}
	if err != nil {
		return err
	}
	if n := of(float64(v[0])); math.IsInf(n, 0) {
		return fmt.Errorf("tensor %s: got %v", name, v[0])
	} else {
		j.params[name] = n
	}
	return nil
}

// jointGraph is the graph of the parts: name, version, license.
const jointGraph = `name: %[1]s
version: %[2]s
abi: mm-abi-1.2
%[3]s
modalities:
  - enc: {ref: %[1]s-text@%[2]s}
  - enc: {ref: %[1]s-image@%[2]s}

exports:
  laptop:
    onnx: [%[1]s-text, %[1]s-image]
`

// fill writes the modules and the graph.
func (j *jointFolder) fill(ctx context.Context, dir, name, license string, opt Options) error {
	one := opt
	one.Name, one.Dir = name+TextPart, filepath.Join(dir, "modules", name+TextPart)
	j.text.params = j.params
	if _, err := j.text.write(ctx, one); err != nil {
		return err
	}
	spec, err := j.image.Preprocess(j.processor)
	if err != nil {
		return fmt.Errorf("preprocessor_config.json: %w", err)
	}
	graph, err := j.image.Joint(j.weights)
	if err != nil {
		return err
	}
	m, err := Describe(graph, Function{Type: abi.Encoder, Modality: abi.Image, Preprocess: modules.Preprocess{tower.Pixels: spec}, Params: j.params})
	if err != nil {
		return err
	}
	m.Name, m.Version, m.ABI, m.License, m.Source = name+ImagePart, opt.Version, abi.V1_2, license, oneLine(j.text.card.source)
	m.Description = oneLine(fmt.Sprintf("%s, an encoder of pictures of family %s.", or(j.text.card.name, name), j.image.Family))
	if _, err := writeFunction(ctx, filepath.Join(dir, "modules", m.Name), m, graph, func(*fsx.Dir) ([]modules.File, error) { return nil, nil }); err != nil {
		return err
	}
	return writeGraph(dir, fmt.Sprintf(jointGraph, name, opt.Version, licenseLine(license)))
}
