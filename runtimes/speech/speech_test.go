package speech_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/speech"
)

const manifest = `name: toy
version: 1.0.0
type: decoder
modality: audio
abi: mm-abi-1.2
license: MIT
inputs:
  - {name: tokens, shape: [T], dtype: int64}
  - {name: style, shape: [2], dtype: fp32}
  - {name: speed, shape: [1], dtype: fp32}
outputs:
  - {name: audio, shape: [S], dtype: fp32}
speech:
  symbols: symbols.json
  ids: tokens
  begin: [0]
  end: [0]
  max_ids: 6
  voices: {input: style, files: [af.npy, bm.bin]}
  speed: speed
  languages: {b: en-gb}
  pause_ms: 2
caps: {sample_rate: 1000}
export: {onnx: toy.onnx}
`

// toy returns a voice whose samples are its ids, divided by the speed, plus the sum
// of the vector of the voice.
func toy() *onnx.Model {
	m := onnx.New("toy", 17)
	m.Graph.Inputs = []onnx.Value{
		onnx.TensorValue("tokens", onnx.INT64, 1, "T"), onnx.TensorValue("style", onnx.FLOAT, 1, 2), onnx.TensorValue("speed", onnx.FLOAT, 1),
	}
	m.Graph.Add("Cast", []string{"tokens"}, "x", onnx.Int("to", int64(onnx.FLOAT)))
	m.Graph.Add("Div", []string{"x", "speed"}, "y")
	axis := m.Graph.Constant(onnx.Ints("axis", []int64{1}, []int64{1}))
	m.Graph.Add("ReduceSum", []string{"style", axis}, "s", onnx.Int("keepdims", 1))
	m.Graph.Add("Add", []string{"y", "s"}, "z")
	flat := m.Graph.Constant(onnx.Ints("flat", []int64{1}, []int64{-1}))
	m.Graph.Add("Reshape", []string{"z", flat}, "audio")
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("audio", onnx.FLOAT, "S")}
	return m
}

// floats returns little-endian float32 numbers.
func floats(v ...float32) (out []byte) {
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}

// folder contains the files of a build.
type folder string

func (f folder) Open(name string) (*os.File, error)             { return os.Open(filepath.Join(string(f), name)) }
func (f folder) Path(name string) (string, error)               { return filepath.Join(string(f), name), nil }
func (f folder) Dir(context.Context, ...string) (string, error) { return string(f), nil }

// files writes the files of the toy voice.
func files(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var model bytes.Buffer
	if _, err := onnx.Write(&model, toy()); err != nil {
		t.Fatal(err)
	}
	af, err := npy.Encode(&npy.Array{Type: "f4", Shape: []int{3, 1, 2}, Data: floats(0, 0, 10, 0, 10, 10)})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"module.yaml": []byte(manifest), "toy.onnx": model.Bytes(), "af.npy": af, "bm.bin": floats(0.5, 0.5),
		"symbols.json": []byte(`{"vocab": {"a": 1, "b": 2, "c": 3, " ": 4, ".": 5, ",": 6}}`),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// open opens the voice in a folder.
func open(t *testing.T, dir string, p speech.Phonemizer) (*speech.Speaker, error) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "module.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	m, list := modules.Parse("module.yaml", data)
	for _, d := range list {
		if d.Severity == diag.Error && d.Code != diag.FileMissing {
			t.Fatal(d)
		}
	}
	one := builds.Part{Name: m.Name, Version: m.Version, Type: m.Type, Modality: m.Modality, Manifest: "module.yaml", Files: builds.Formats{"onnx": {"toy.onnx"}}}
	b := &builds.Build{
		Assembly:  &builds.Assembly{Name: "voice", ABI: abi.V1_2, Decoders: []builds.DecoderPart{{Part: one}}},
		Manifests: map[string]*modules.Manifest{m.Name: m}, Files: folder(dir),
	}
	set, err := part.Open(t.Context(), b, part.Options{Engines: []runtimes.Engine{engines.ONNX{}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	return speech.Open(t.Context(), set.Function(m.Name), p)
}

// letters is a phonemizer that spells the text and the language.
type letters struct{}

func (letters) Phonemes(_ context.Context, text, language string, _ bool) (string, error) {
	if language == "en-gb" {
		text += "c"
	}
	return strings.ToLower(text), nil
}

func (letters) Version(context.Context) (string, error) { return "letters 1", nil }

func TestSynthesize(t *testing.T) {
	s, err := open(t, files(t), letters{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"af", "bm"}, s.Voices()); d != "" || s.Rate() != 1000 || s.Version(t.Context()) != "letters 1" {
		t.Errorf("voices (-want +got):\n%s%d %q", d, s.Rate(), s.Version(t.Context()))
	}
	for name, c := range map[string]struct {
		req     speech.Request
		want    [][]float32
		symbols []string
		dropped string
	}{
		"first voice":         {speech.Request{Text: "a"}, [][]float32{{0, 1, 0}}, []string{"a"}, ""},
		"row of two":          {speech.Request{Text: "ab"}, [][]float32{{10, 11, 12, 10}}, []string{"ab"}, ""},
		"last row":            {speech.Request{Text: "abc ab"}, [][]float32{{20, 21, 22, 23, 24, 21, 22, 20}}, []string{"abc ab"}, ""},
		"language of a voice": {speech.Request{Text: "a", Voice: "bm"}, [][]float32{{1, 2, 4, 1}}, []string{"ac"}, ""},
		"own language":        {speech.Request{Text: "a", Voice: "bm", Language: "en-us"}, [][]float32{{1, 2, 1}}, []string{"a"}, ""},
		"speed":               {speech.Request{Text: "b", Voice: "bm", Language: "en-us", Speed: 2}, [][]float32{{1, 2, 1}}, []string{"b"}, ""},
		"phonemes":            {speech.Request{Text: "ac", Voice: "bm", Phonemes: true}, [][]float32{{1, 2, 4, 1}}, []string{"ac"}, ""},
		"two sentences":       {speech.Request{Text: "ac. b"}, [][]float32{{20, 21, 23, 25, 20}, {0, 0, 0, 2, 0}}, []string{"ac.", "b"}, ""},
		"long":                {speech.Request{Text: "abc, abc"}, [][]float32{{20, 21, 22, 23, 26, 20}, {0, 0, 20, 21, 22, 23, 20}}, []string{"abc,", "abc"}, ""},
		"dropped":             {speech.Request{Text: "a\u00e4z"}, [][]float32{{10, 11, 11, 10}}, []string{"aa"}, "\u0308z"},
	} {
		var got [][]float32
		var symbols []string
		dropped := ""
		err := s.Synthesize(t.Context(), c.req, func(p speech.Piece) error {
			got, symbols, dropped = append(got, p.Samples), append(symbols, p.Symbols), dropped+p.Dropped
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(c.want, got) + cmp.Diff(c.symbols, symbols); d != "" || dropped != c.dropped {
			t.Errorf("%s (-want +got):\n%s%q", name, d, dropped)
		}
	}
}

// code returns the code of the first diagnostic of an error.
func code(err error) diag.Code {
	if faults := (*diag.Faults)(nil); errors.As(err, &faults) {
		return faults.List[0].Code
	}
	return ""
}

func TestRefusedRequests(t *testing.T) {
	with, err := open(t, files(t), letters{})
	if err != nil {
		t.Fatal(err)
	}
	without, err := open(t, files(t), speech.Espeak{Program: "no-such-program"})
	if err != nil {
		t.Fatal(err)
	}
	none, err := open(t, files(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := without.Version(t.Context()) + none.Version(t.Context()); v != "" {
		t.Errorf("version %q", v)
	}
	long := strings.Repeat("a", speech.TextLimit)
	for name, c := range map[string]struct {
		s    *speech.Speaker
		req  speech.Request
		code diag.Code
		want string
	}{
		"unknown voice":  {with, speech.Request{Text: "a", Voice: "am"}, diag.VoiceUnknown, "af, bm"},
		"no program":     {without, speech.Request{Text: "a"}, diag.NoPhonemizer, "--phonemes"},
		"no phonemizer":  {none, speech.Request{Text: "a"}, diag.NoPhonemizer, "--phonemes"},
		"no symbols":     {with, speech.Request{Text: "zzz ..."}, diag.NothingSaid, "zzz"},
		"empty":          {with, speech.Request{}, diag.NothingSaid, ""},
		"long":           {with, speech.Request{Text: long + "a", Phonemes: true}, diag.SpeechLong, "1048577 bytes"},
		"slow":           {with, speech.Request{Text: "a", Speed: 0.24}, "", "want 0.25 to 4"},
		"fast":           {with, speech.Request{Text: "a", Speed: 4.1}, "", "want 0.25 to 4"},
		"not a number":   {with, speech.Request{Text: "a", Speed: math.NaN()}, "", "want 0.25 to 4"},
		"not a language": {with, speech.Request{Text: "a", Language: "-w"}, "", "language"},
	} {
		err := c.s.Synthesize(t.Context(), c.req, func(speech.Piece) error { return nil })
		if text := hints(err); err == nil || code(err) != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: %v %s, want %s %q", name, err, text, c.code, c.want)
		}
	}
	if err := none.Synthesize(t.Context(), speech.Request{Text: "a", Phonemes: true, Speed: speech.MaxSpeed}, func(speech.Piece) error { return nil }); err != nil {
		t.Errorf("phonemes without a phonemizer: %v", err)
	}
	stopped := errors.New("stopped")
	if err := with.Synthesize(t.Context(), speech.Request{Text: "a. b"}, func(speech.Piece) error { return stopped }); !errors.Is(err, stopped) {
		t.Errorf("stopped: %v", err)
	}
}

// hints returns the text of an error with its hints.
func hints(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if faults := (*diag.Faults)(nil); errors.As(err, &faults) {
		for _, d := range faults.List {
			text += " " + d.Detail + " " + d.Hint
		}
	}
	return text
}

func TestRefusedFiles(t *testing.T) {
	for name, c := range map[string]struct {
		file, content string
		code          diag.Code
	}{
		"no symbols":       {"symbols.json", "{}", diag.BadSymbols},
		"symbols of text":  {"symbols.json", "hello", diag.BadSymbols},
		"negative id":      {"symbols.json", `{"a": -1}`, diag.BadSymbols},
		"short vector":     {"bm.bin", "abcd", diag.BadVoices},
		"empty voice":      {"bm.bin", "", diag.BadVoices},
		"infinite":         {"bm.bin", string(floats(float32(math.Inf(1)), 0)), diag.BadVoices},
		"broken archive":   {"af.npy", "PK\x03\x04 and no more", diag.BadVoices},
		"broken array":     {"af.npy", "\x93NUMPY\x01\x00", diag.BadVoices},
		"no speech at all": {"module.yaml", strings.ReplaceAll(manifest[:strings.Index(manifest, "speech:")], "mm-abi-1.2", "mm-abi-1.0") + "export: {onnx: toy.onnx}\n", diag.NoSpeech},
	} {
		dir := files(t)
		if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := open(t, dir, letters{}); code(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	for file, want := range map[string]diag.Code{"af.npy": diag.BadVoices, "symbols.json": diag.BadSymbols} {
		dir := files(t)
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
		if _, err := open(t, dir, letters{}); code(err) != want {
			t.Errorf("without %s: %v", file, err)
		}
	}
}
