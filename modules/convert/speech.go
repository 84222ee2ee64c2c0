package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
)

// maxVoiceConfig bounds the configuration of a voice, in bytes.
const maxVoiceConfig = 4 << 20

// voiceConfig is the part of Piper's configuration, MODEL.onnx.json, that is used.
type voiceConfig struct {
	Audio struct {
		SampleRate int64 `json:"sample_rate"`
	} `json:"audio"`
	Espeak struct {
		Voice string `json:"voice"`
	} `json:"espeak"`
	Inference struct {
		Noise  *float64 `json:"noise_scale"`
		Length *float64 `json:"length_scale"`
		NoiseW *float64 `json:"noise_w"`
	} `json:"inference"`
	PhonemeType string             `json:"phoneme_type"`
	PhonemeMap  map[string]any     `json:"phoneme_map"`
	IDs         map[string][]int64 `json:"phoneme_id_map"`
	Speakers    map[string]int64   `json:"speaker_id_map"`
	NumSpeakers int64              `json:"num_speakers"`
}

// Voice completes fn for the ONNX file of a voice: one of Piper, whose configuration
// is next to it, or one of Kokoro, whose files of voices and symbols are in fn.With.
// It returns fn unchanged for other files and if fn has a speech block.
func Voice(file string, model *onnx.Model, fn Function) (Function, error) {
	if fn.Speech != nil || fn.Type != "" && fn.Type != abi.Decoder {
		return fn, nil
	}
	inputs := map[string]bool{}
	for _, v := range model.Inputs() {
		inputs[v.Name] = true
	}
	switch {
	case inputs["input"] && inputs["input_lengths"] && inputs["scales"]:
		return piper(file+".json", inputs["sid"], fn)
	case inputs["style"] && inputs["speed"] && (inputs["tokens"] || inputs["input_ids"]):
		return kokoro(inputs["tokens"], fn)
	}
	return fn, nil
}

// piper reads the configuration of a voice of Piper.
func piper(config string, many bool, fn Function) (Function, error) {
	data, err := fsx.ReadFile(config, maxVoiceConfig)
	if errors.Is(err, fs.ErrNotExist) && fn.Type == "" {
		return fn, nil
	}
	if err != nil {
		return fn, fmt.Errorf("a voice of Piper needs its configuration: %w", err)
	}
	var c voiceConfig
	if err := json.Unmarshal(data, &c); err != nil {
		return fn, fmt.Errorf("%s: %w", config, err)
	}
	s, err := c.speech(filepath.Base(config))
	if err != nil {
		return fn, fmt.Errorf("%s: %w", config, err)
	}
	if many {
		s.Speakers = &modules.Speakers{Input: "sid", IDs: c.Speakers}
	}
	fn = speaking(fn, s, c.Audio.SampleRate)
	fn.With = append(slices.Clone(fn.With), config)
	return fn, nil
}

// speech converts the configuration. Piper puts "^" before the phonemes, "$" after
// them and "_" after each but the last.
func (c voiceConfig) speech(name string) (*modules.Speech, error) {
	s := &modules.Speech{Symbols: name, IDs: "input", Length: "input_lengths", Language: c.Espeak.Voice, PauseMS: 200}
	switch c.PhonemeType {
	case "", "espeak":
	case "text":
		s.From = modules.SpeechText
	default:
		return nil, fmt.Errorf("unsupported phoneme_type %q, want espeak or text", c.PhonemeType)
	}
	if len(c.PhonemeMap) > 0 {
		return nil, fmt.Errorf("unsupported phoneme_map of %d entries, want none", len(c.PhonemeMap))
	}
	begin, pad, end := c.IDs["^"], c.IDs["_"], c.IDs["$"]
	if len(begin) == 0 || len(pad) == 0 || len(end) == 0 {
		return nil, errors.New("phoneme_id_map lacks one of ^, _ and $")
	}
	if c.Audio.SampleRate < 1000 || c.Audio.SampleRate > 384000 {
		return nil, fmt.Errorf("got a sample_rate of %d, want 1000 to 384000", c.Audio.SampleRate)
	}
	s.Begin, s.After, s.End = append(slices.Clone(begin), pad...), pad, end
	value := func(v *float64, absent float64) float64 {
		if v == nil {
			return absent
		}
		return *v
	}
	s.Scales = &modules.Scales{
		Input: "scales", Length: 1,
		Values: []float64{value(c.Inference.Noise, 0.667), value(c.Inference.Length, 1), value(c.Inference.NoiseW, 0.8)},
	}
	return s, nil
}

// kokoroLanguages are the languages of Kokoro's voices by their first letters.
var kokoroLanguages = map[string]string{
	"a": "en-us", "b": "en-gb", "e": "es", "f": "fr-fr", "h": "hi", "i": "it", "j": "ja", "p": "pt-br", "z": "cmn",
}

// kokoro describes a model of Kokoro.
func kokoro(tokens bool, fn Function) (Function, error) {
	s := &modules.Speech{
		From: modules.SpeechKokoro, IDs: "input_ids", Begin: []int64{0}, End: []int64{0}, MaxIDs: 510,
		Voices: &modules.Voices{Input: "style"}, Speed: "speed", Language: "en-us", Languages: maps.Clone(kokoroLanguages),
	}
	if tokens {
		s.IDs = "tokens"
	}
	for _, file := range fn.With {
		switch name := filepath.Base(file); strings.ToLower(filepath.Ext(name)) {
		case ".json":
			s.Symbols = name
		case ".npz", ".npy", ".bin":
			s.Voices.Files = append(s.Voices.Files, name)
		}
	}
	if s.Symbols == "" || len(s.Voices.Files) == 0 {
		if fn.Type == "" {
			return fn, nil
		}
		return fn, errors.New("a model of Kokoro needs its symbols and its voices: add --with config.json and --with voices.bin (.npz, .npy)")
	}
	return speaking(fn, s, 24000), nil
}

// speaking adds a speech block to fn.
func speaking(fn Function, s *modules.Speech, rate int64) Function {
	fn.Type, fn.Speech = abi.Decoder, s
	if fn.Modality == "" {
		fn.Modality = abi.Audio
	}
	fn.Caps = maps.Clone(fn.Caps)
	if fn.Caps == nil {
		fn.Caps = modules.Figures{}
	}
	if _, ok := fn.Caps["sample_rate"]; !ok {
		fn.Caps["sample_rate"] = float64(rate)
	}
	return fn
}
