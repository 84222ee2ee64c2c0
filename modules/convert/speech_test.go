package convert_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/onnx"
)

// voice is a model with inputs of these names.
func voice(inputs ...string) *onnx.Model {
	m := &onnx.Model{IRVersion: 8, Opsets: []onnx.Opset{{Version: 13}}, Graph: onnx.Graph{Name: "g", Outputs: []onnx.Value{value("audio", onnx.FLOAT, open("S"))}}}
	for _, name := range inputs {
		m.Graph.Inputs = append(m.Graph.Inputs, value(name, onnx.FLOAT, size(1), open("T")))
	}
	return m
}

const piperConfig = `{"audio": {"sample_rate": 22050}, "espeak": {"voice": "de"}, "inference": {"noise_scale": 0.5},
 "phoneme_type": "espeak", "phoneme_id_map": {"_": [0], "^": [1], "$": [2], "a": [3]}, "speaker_id_map": {"x": 4}}`

func TestVoice(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "v.onnx")
	if err := os.WriteFile(file+".json", []byte(piperConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	fn, err := convert.Voice(file, voice("input", "input_lengths", "scales", "sid"), convert.Function{})
	if err != nil {
		t.Fatal(err)
	}
	want := convert.Function{
		Type: abi.Decoder, Modality: abi.Audio, Caps: modules.Figures{"sample_rate": 22050.0}, With: []string{file + ".json"},
		Speech: &modules.Speech{
			Symbols: "v.onnx.json", IDs: "input", Length: "input_lengths", Language: "de", PauseMS: 200,
			Begin: []int64{1, 0}, After: []int64{0}, End: []int64{2},
			Scales: &modules.Scales{Input: "scales", Length: 1, Values: []float64{0.5, 1, 0.8}}, Speakers: &modules.Speakers{Input: "sid", IDs: map[string]int64{"x": 4}},
		},
	}
	if d := cmp.Diff(want, fn); d != "" {
		t.Errorf("Piper (-want +got):\n%s", d)
	}
	fn, err = convert.Voice("k.onnx", voice("tokens", "style", "speed"), convert.Function{With: []string{"a/config.json", "b/voices.npz", "README"}})
	if err != nil || fn.Speech == nil || fn.Speech.Symbols != "config.json" || !cmp.Equal(fn.Speech.Voices.Files, []string{"voices.npz"}) || fn.Speech.IDs != "tokens" || fn.Caps["sample_rate"] != 24000.0 {
		t.Errorf("Kokoro: %+v, %v", fn.Speech, err)
	}
	for name, c := range map[string]struct {
		m  *onnx.Model
		fn convert.Function
	}{
		"another model":        {voice("x"), convert.Function{}},
		"an encoder":           {voice("tokens", "style", "speed"), convert.Function{Type: abi.Encoder, With: []string{"c.json", "v.npz"}}},
		"Kokoro without files": {voice("tokens", "style", "speed"), convert.Function{}},
		"no configuration":     {voice("input", "input_lengths", "scales"), convert.Function{}},
		"own speech":           {voice("input", "input_lengths", "scales"), convert.Function{Speech: &modules.Speech{IDs: "input"}}},
	} {
		got, err := convert.Voice(filepath.Join(dir, "none.onnx"), c.m, c.fn)
		if d := cmp.Diff(c.fn, got); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", name, err, d)
		}
	}
}

// Damaged configurations are refused; maxVoiceConfig bounds them.
func TestRefusedVoices(t *testing.T) {
	const maxVoiceConfig = 4 << 20
	for text, want := range map[string]string{
		"":   "unexpected end",
		"{}": "lacks one of",
		strings.Replace(piperConfig, "22050", "-1", 1):                                     "sample_rate of -1",
		strings.Replace(piperConfig, `"espeak",`, `"pinyin",`, 1):                          `phoneme_type "pinyin"`,
		strings.Replace(piperConfig, `{"audio"`, `{"phoneme_map": {"a": "b"}, "audio"`, 1): "phoneme_map of 1",
		strings.Replace(piperConfig, `"^": [1], `, "", 1):                                  "lacks one of",
		piperConfig + strings.Repeat(" ", maxVoiceConfig-len(piperConfig)+1):               "4194304",
		piperConfig + strings.Repeat(" ", maxVoiceConfig-len(piperConfig)):                 "",
	} {
		file := filepath.Join(t.TempDir(), "v.onnx")
		if err := os.WriteFile(file+".json", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := convert.Voice(file, voice("input", "input_lengths", "scales"), convert.Function{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	for _, fn := range []convert.Function{{Type: abi.Decoder}, {Type: abi.Decoder, With: []string{"c.json"}}} {
		if _, err := convert.Voice("k.onnx", voice("tokens", "style", "speed"), fn); err == nil || !strings.Contains(err.Error(), "--with") {
			t.Errorf("Kokoro without files: %v", err)
		}
	}
	if _, err := convert.Voice("none.onnx", voice("input", "input_lengths", "scales"), convert.Function{Type: abi.Decoder}); err == nil {
		t.Error("Piper without a configuration")
	}
}

func FuzzVoice(f *testing.F) {
	f.Add([]byte(piperConfig))
	m := voice("input", "input_lengths", "scales")
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "v.onnx")
		if err := os.WriteFile(file+".json", data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = convert.Voice(file, m, convert.Function{}) // must not panic
	})
}
