package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/hf"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/tower"
)

// Names of the files of an encoder-decoder.
const (
	encoderFile = "encoder_model.onnx"
	decoderFile = "decoder_model.onnx"
	pastFile    = "decoder_with_past_model.onnx"
	mergedFile  = "decoder_model_merged.onnx"
)

// encdec is an encoder-decoder: a folder of transformers, or of Optimum's ONNX files.
type encdec struct {
	folder string
	family string
	h      *hf.Encoder
	loop   modules.Loop
	pre    modules.Preprocess
	ctc    *tower.CTC
	graphs graphs // written from weights, or nil
	onnx   string // folder of the ONNX files, or ""
	ort    bool   // the files have ONNX Runtime's format
}

// graphs writes the halves of an encoder-decoder as ONNX.
type graphs interface {
	Encoder(tower.Weights) (*onnx.Model, error)
	Decoder(tower.Weights) (*onnx.Model, error)
}

// IsEncDec reports whether a folder holds an encoder-decoder that writes text.
func IsEncDec(folder string) (bool, error) {
	if IsOrt(folder) {
		return true, nil
	}
	data, err := fsx.ReadFile(filepath.Join(folder, "config.json"), maxSettings)
	if err != nil {
		return false, err
	}
	var head struct {
		Type string `json:"model_type"`
	}
	if json.Unmarshal(data, &head) != nil { // the reader of the folder reports it
		return false, nil
	}
	return isCTC(head.Type) || head.Type == "whisper" || head.Type == "moonshine" || slices.Contains(tower.T5Families(), head.Type), nil
}

// EncDec converts a folder of an encoder-decoder to a module and returns its folder:
// weights of Whisper, Moonshine and T5 are written as ONNX, and the ONNX files of
// Optimum are taken as they are.
func EncDec(ctx context.Context, folder string, opt Options) (dir string, err error) {
	if IsOrt(folder) {
		e, err := ortMoonshine(folder)
		if err != nil {
			return "", fmt.Errorf("reading Moonshine in %s: %w", folder, err)
		}
		return e.write(ctx, opt)
	}
	e, err := openEncDec(folder)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, e.h.Close()) }()
	if err := e.read(); err != nil {
		return "", fmt.Errorf("reading the encoder-decoder in %s: %w", folder, err)
	}
	return e.write(ctx, opt)
}

// openEncDec opens a folder of transformers.
func openEncDec(folder string) (*encdec, error) {
	e := &encdec{folder: folder}
	var head struct {
		Type string `json:"model_type"`
	}
	data, err := fsx.ReadFile(filepath.Join(folder, "config.json"), maxSettings)
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(data, &head) == nil && isCTC(head.Type) {
		e.h, e.loop, err = openCTC(folder)
		if err != nil {
			return nil, fmt.Errorf("reading the vocabulary in %s: %w", folder, err)
		}
		return e, nil
	}
	e.h, err = hf.OpenEncoder(folder)
	return e, err
}

// generation is the part of generation_config.json, and of config.json in older
// folders, that is used.
type generation struct {
	Type          string           `json:"model_type"`
	Start         *int64           `json:"decoder_start_token_id"`
	Stop          ids              `json:"eos_token_id"`
	Suppress      []int64          `json:"suppress_tokens"`
	BeginSuppress []int64          `json:"begin_suppress_tokens"`
	MaxLength     *int             `json:"max_length"`
	Languages     map[string]int64 `json:"lang_to_id"`
	Tasks         map[string]int64 `json:"task_to_id"`
	NoTimestamps  *int64           `json:"no_timestamps_token_id"`
	MaxInitial    *int             `json:"max_initial_timestamp_index"`
	Positions     *int             `json:"max_target_positions"`
	Trained       *int             `json:"max_position_embeddings"`
	Forced        [][]*int64       `json:"forced_decoder_ids"`
	Multilingual  *bool            `json:"is_multilingual"`
	Beams         *int             `json:"num_beams"`
	Sample        *bool            `json:"do_sample"`
}

// ids is an id or a list of ids.
type ids []int64

// UnmarshalJSON implements json.Unmarshaler.
func (l *ids) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	if n, err := strconv.ParseInt(string(data), 10, 64); err == nil {
		*l = ids{n}
		return nil
	}
	return json.Unmarshal(data, (*[]int64)(l))
}

// read reads the settings of the folder.
func (e *encdec) read() error {
	var g generation
	if err := json.Unmarshal(e.h.Config, &g); err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	e.family = g.Type
	if e.loop.Blank != nil {
		return e.readCTC()
	}
	data, err := e.h.Read("generation_config.json")
	if err == nil && data != nil {
		err = json.Unmarshal(data, &g)
	}
	if err != nil {
		return fmt.Errorf("generation_config.json: %w", err)
	}
	if err := e.ids(g); err != nil {
		return err
	}
	e.onnx = onnxFolder(e.folder)
	if slices.Contains(tower.T5Families(), e.family) {
		e.loop.From = modules.LoopText
		if e.onnx != "" {
			return nil
		}
		if e.graphs, err = tower.ReadT5(e.h.Config); err != nil {
			return fmt.Errorf("config.json: %w", err)
		}
		return nil
	}
	return e.readSound()
}

// ids reads the ids of the loop.
func (e *encdec) ids(g generation) error {
	l := &e.loop
	*l = modules.Loop{From: modules.LoopAudio, Tokenizer: tokenizerFile, Stop: g.Stop, MaxInitial: g.MaxInitial}
	if g.Start == nil || len(g.Stop) == 0 {
		return errors.New("missing decoder_start_token_id or eos_token_id in generation_config.json and config.json")
	}
	l.Start = []int64{*g.Start}
	l.Suppress, l.BeginSuppress = positive(g.Suppress), positive(g.BeginSuppress)
	l.MaxIDs = or(deref(g.Positions), or(deref(g.Trained), 512))
	l.NoTimestamps = g.NoTimestamps
	if l.NoTimestamps == nil {
		l.MaxInitial = nil
	}
	if n := deref(g.MaxLength); n > 20 { // 20 means none
		l.MaxIDs = min(l.MaxIDs, n)
	}
	if g.Multilingual != nil && !*g.Multilingual {
		return nil
	}
	l.Tasks = g.Tasks
	for name, id := range g.Languages {
		if l.Languages == nil {
			l.Languages = map[string]int64{}
		}
		l.Languages[strings.TrimSuffix(strings.TrimPrefix(name, "<|"), "|>")] = id
	}
	return nil
}

func deref(p *int) int {
	if p == nil {
		return 0
	}
	return *p
}

// positive returns ids without the -1 that means none.
func positive(list []int64) (out []int64) {
	for _, id := range list {
		if id >= 0 && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// readSound reads the preprocessing of sounds.
func (e *encdec) readSound() (err error) {
	data, err := e.h.Read("preprocessor_config.json")
	if err != nil {
		return err
	}
	if data == nil {
		var all struct {
			Audio json.RawMessage `json:"feature_extractor"`
		}
		if data, err = e.h.Read("processor_config.json"); err != nil || data == nil {
			return errors.Join(errors.New("missing preprocessor_config.json"), err)
		}
		if err := json.Unmarshal(data, &all); err != nil {
			return fmt.Errorf("processor_config.json: %w", err)
		}
		data = all.Audio
	}
	if e.family == "whisper" {
		whisper, err := tower.ReadWhisper(e.h.Config)
		if err != nil {
			return fmt.Errorf("config.json: %w", err)
		}
		spec, err := whisper.Preprocess(data)
		if err != nil {
			return fmt.Errorf("preprocessor_config.json: %w", err)
		}
		e.graphs = whisper
		e.pre = modules.Preprocess{"input_features": spec}
		return nil
	}
	if e.onnx == "" {
		if e.graphs, err = tower.ReadMoonshine(e.h.Config); err != nil {
			return fmt.Errorf("config.json: %w", err)
		}
	}
	e.loop.PerSecond, e.loop.Window = 6.5, 30 // the length at which Moonshine's authors cut, and of its training
	spec, err := samples(data)
	e.pre = modules.Preprocess{"input_values": spec}
	return err
}

// readCTC reads the sizes and the preprocessing of a model that scores letters.
func (e *encdec) readCTC() error {
	c, err := tower.ReadCTC(e.h.Config)
	if err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	if n := e.h.Tokenizer.Size(); n > c.Vocab {
		return fmt.Errorf("vocab.json: %d tokens, the model scores %d", n, c.Vocab)
	}
	data, err := e.h.Read("preprocessor_config.json")
	if err != nil || data == nil {
		return errors.Join(errors.New("missing preprocessor_config.json"), err)
	}
	spec, err := samples(data)
	e.ctc, e.pre = &c, modules.Preprocess{"input_values": spec}
	return err
}

// samples reads the settings of a Wav2Vec2FeatureExtractor.
func samples(data []byte) (preprocess.Spec, error) {
	var raw struct {
		Rate      *int  `json:"sampling_rate"`
		Normalize *bool `json:"do_normalize"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return preprocess.Spec{}, fmt.Errorf("preprocessor_config.json: %w", err)
	}
	s := preprocess.Spec{DType: "fp32", Sound: preprocess.Sound{SampleRate: or(deref(raw.Rate), 16000), Normalize: raw.Normalize == nil || *raw.Normalize}}
	if faults := s.Check(); len(faults) > 0 {
		return s, fmt.Errorf("preprocessor_config.json: %w", faults[0])
	}
	return s, nil
}

// onnxFolder returns the folder of Optimum's files, or "".
func onnxFolder(folder string) string {
	for _, at := range []string{folder, filepath.Join(folder, "onnx")} {
		if _, err := os.Stat(filepath.Join(at, encoderFile)); err == nil {
			return at
		}
	}
	return ""
}

// write creates the module.
func (e *encdec) write(ctx context.Context, opt Options) (string, error) {
	card := model{stem: e.h.Card.Name, name: e.h.Card.Name, author: e.h.Card.Author, license: e.h.Card.License, source: e.h.Card.Source}
	name := or(opt.Name, Slug(card.name))
	if !abi.ValidName(name) {
		return "", fmt.Errorf("invalid module name %q: set a name", name)
	}
	if _, err := abi.ParseVersion(opt.Version); err != nil {
		return "", err
	}
	license, err := card.spdx(opt.License)
	if err != nil {
		return "", err
	}
	kind := "an encoder-decoder"
	if e.ctc != nil {
		kind = "a model of speech (CTC)"
	}
	m := modules.Manifest{Name: name, Version: opt.Version, License: license, Source: oneLine(card.source)}
	m.Description = oneLine(fmt.Sprintf("%s, %s of family %s.", or(card.name, name), kind, e.family))
	dir := or(opt.Dir, name)
	_, _, err = modules.Create(dir, func(d *fsx.Dir) error {
		entry, files, err := e.models(ctx, d, &m)
		if err != nil {
			return err
		}
		vocabulary, err := WriteFile(d, tokenizerFile, func(w io.Writer) error {
			kvs := append([]gguf.KV{{Key: gguf.KeyArchitecture, Value: e.family}, {Key: gguf.KeyName, Value: name}}, e.h.Tokenizer.KVs()...)
			_, err := gguf.Write(w, kvs, nil)
			return err
		})
		if err != nil {
			return err
		}
		m.Files, m.Loop = append(files, vocabulary), &e.loop
		export := modules.Export{Path: entry}
		for _, f := range files {
			if f.Path != entry && f.Path != e.loop.Past && f.Path != e.loop.Decoder {
				export.With = append(export.With, f.Path)
			}
		}
		m.Export = map[abi.Format]modules.Export{abi.ONNX: export}
		return WriteManifest(d, m)
	})
	if err != nil {
		return "", fmt.Errorf("creating module %s: %w", name, err)
	}
	return dir, nil
}

// describe completes the manifest by the encoder.
func (e *encdec) describe(graph *onnx.Model, m *modules.Manifest) error {
	modality := abi.Audio
	if e.loop.From == modules.LoopText {
		modality = abi.Text
	}
	described, err := Describe(graph, Function{Type: abi.Decoder, Modality: modality, Preprocess: e.pre})
	if err != nil {
		return err
	}
	m.Type, m.Modality, m.ABI = abi.Decoder, abi.Text, abi.V1_2
	m.Inputs, m.Outputs, m.Preprocess = described.Inputs, described.Outputs, described.Preprocess
	return nil
}

// models writes or copies the ONNX files and returns the name of the encoder's.
func (e *encdec) models(ctx context.Context, d *fsx.Dir, m *modules.Manifest) (string, []modules.File, error) {
	switch {
	case e.ort:
		return e.unpacked(ctx, d, m)
	case e.onnx != "":
		return e.copied(ctx, d, m)
	}
	all, err := e.h.Tensors("")
	if err != nil {
		return "", nil, err
	}
	weights := tower.Safetensors(all)
	var files []modules.File
	type part struct {
		name  string
		build func(tower.Weights) (*onnx.Model, error)
	}
	var parts []part
	if e.ctc != nil {
		parts = []part{{encoderFile, e.ctc.Model}}
	} else {
		parts = []part{{encoderFile, e.graphs.Encoder}, {pastFile, e.graphs.Decoder}}
		e.loop.Past = pastFile
	}
	for _, part := range parts {
		graph, err := part.build(weights)
		if err != nil {
			return "", nil, err
		}
		if part.name == encoderFile {
			if err := e.describe(graph, m); err != nil {
				return "", nil, err
			}
		}
		file, err := WriteFile(d, part.name, func(w io.Writer) error {
			_, err := onnx.Write(fsx.Writer{Context: ctx, W: w}, graph)
			return err
		})
		if err != nil {
			return "", nil, err
		}
		files = append(files, file)
	}
	return encoderFile, files, nil
}

// copied copies Optimum's files with their external data. A merged decoder is used if
// there is one.
func (e *encdec) copied(ctx context.Context, d *fsx.Dir, m *modules.Manifest) (string, []modules.File, error) {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(e.onnx, name))
		return !errors.Is(err, fs.ErrNotExist)
	}
	names := []string{encoderFile}
	switch {
	case has(mergedFile):
		e.loop.Past = mergedFile
	case has(decoderFile) && has(pastFile):
		e.loop.Decoder, e.loop.Past = decoderFile, pastFile
		names = append(names, decoderFile)
	default:
		return "", nil, fmt.Errorf("missing %s, or %s and %s, in %s", mergedFile, decoderFile, pastFile, e.onnx)
	}
	names = append(names, e.loop.Past)
	var files []modules.File
	all := map[string]string{}
	for _, name := range names {
		path := filepath.Join(e.onnx, name)
		graph, err := onnx.Open(path)
		if err != nil {
			return "", nil, err
		}
		found, err := sources(graph, path, name, nil)
		if err == nil && name == encoderFile {
			err = e.describe(graph, m)
		}
		if err == nil && e.family == "moonshine" && unshare(graph) {
			delete(found, name)
			var f modules.File
			f, err = WriteFile(d, name, func(w io.Writer) error {
				_, err := onnx.Write(fsx.Writer{Context: ctx, W: w}, graph)
				return err
			})
			files = append(files, f)
		}
		if err = errors.Join(err, graph.Close()); err != nil {
			return "", nil, err
		}
		maps.Copy(all, found)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f, err := copied(ctx, d, name, all[name])
		if err != nil {
			return "", nil, err
		}
		files = append(files, f)
	}
	return encoderFile, files, nil
}
