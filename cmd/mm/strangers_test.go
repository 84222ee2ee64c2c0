package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/internal/testfiles"
	native "mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/engines/enginestest"
)

// Models that nobody here trained, as a build without a core: made modules,
// assembled, signed, pushed, pulled into another home, verified there and run,
// on our engine and on ONNX Runtime, which agree.
func TestStrangersAsAGraph(t *testing.T) {
	rec, keys := testfiles.Models(t, "ocr", "ch_PP-OCRv4_rec_infer.onnx"), testfiles.Models(t, "ocr", "ppocr_keys_v1.txt")
	vad, digit := testfiles.Models(t, "vad", "silero_vad_v6.onnx"), testfiles.Shared(t, "fsdd", "7_jackson_6.wav")
	layout := filepath.Join(t.TempDir(), "usb")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	t.Setenv("MM_KEY_PASSWORD", "")
	home, away := t.TempDir(), t.TempDir()
	must := func(args ...string) string {
		t.Helper()
		stdout, stderr, code := mm(t, args...)
		if code != exitOK {
			t.Fatalf("mm %s: exit %d: %s", strings.Join(args, " "), code, stderr)
		}
		return stdout
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("MM_HOME", home)
	must("module", "import", "onnx", rec, "--name", "rec", "--version", "4.0.0", "--license", "Apache-2.0", "--dir", at("modules/rec"), "--with", keys,
		"--preprocess", "x={height: 48, max_width: 3200, color: bgr, scale: 0.00392156862745098, mean: [0.5], std: [0.5]}",
		"--postprocess", "softmax_11.tmp_0={ctc: {labels: ppocr_keys_v1.txt, space: true}}")
	must("module", "import", "onnx", vad, "--name", "vad", "--version", "6.0.0", "--license", "MIT", "--dir", at("modules/vad"),
		"--preprocess", "input={sample_rate: 16000, chunk: 512, context: 64}", "--state", "state=stateN", "--constant", "sr=16000",
		"--postprocess", "output={segments: {min_ms: 60, min_silence_ms: 100}}")
	write("mm.yaml", "modules: [modules]\n")
	write("senses.graph.yaml", "name: senses\nversion: 1.0.0\nmodalities:\n  - enc: {ref: vad@^6}\n  - enc: {ref: rec@4.0.0}\n")
	write("line.png", string(testfiles.Line(t, "slope = 3.14", 32)))
	must("keys", "generate")
	must("assemble", at("senses.graph.yaml"), "--sign", "default")
	must("push", "senses:1.0.0", "oci:"+layout+":senses")
	t.Setenv("MM_HOME", away)
	must("trust", "add", filepath.Join(home, "keys", "mm.pub"))
	must("pull", "oci:"+layout+":senses")
	ref := "senses:1.0.0"
	must("verify", ref)

	type heard struct {
		Parts []functionAnswer `json:"parts"`
	}
	sense := func(t *testing.T, engine string) (heard, []float64, []float64) {
		t.Helper()
		var got heard
		dir := t.TempDir()
		a, b := filepath.Join(dir, "a.npy"), filepath.Join(dir, "b.npy")
		if err := json.Unmarshal([]byte(must("run", ref, "--image", at("line.png"), "--audio", digit, "--backend", engine, "--output", "vad.output="+a, "--output", "rec.softmax_11.tmp_0="+b, "--json")), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Parts) != 2 || got.Parts[1].Text != "slope = 3.14" || len(got.Parts[0].Segments) != 1 || got.Parts[0].Backend != engine || got.Parts[1].Backend != engine {
			t.Errorf("%s: %+v", engine, got)
		}
		return got, numbers(t, a), numbers(t, b)
	}
	_, speech, text := sense(t, "onnx")
	t.Run("onnxruntime", func(t *testing.T) {
		from := enginestest.Libraries(t, native.ONNXRuntime)
		enginestest.Program(t)
		if _, err := native.Install(t.Context(), native.Options{Home: away, Name: native.ONNXRuntime, From: from}); err != nil {
			t.Fatal(err)
		}
		_, s, x := sense(t, "onnxruntime")
		for name, c := range map[string]float64{"speech": cosine(speech, s), "text": cosine(text, x)} {
			t.Logf("%s: cosine %.7f", name, c)
			if !(c >= 0.9999) {
				t.Errorf("%s: the engines agree with a cosine of %v", name, c)
			}
		}
	})
}

// numbers reads an array of float32.
func numbers(t *testing.T, path string) []float64 {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a, err := npy.Decode(data)
	if err != nil || a.Type != "f4" {
		t.Fatal(a, err)
	}
	var out []float64
	for i := 0; i < len(a.Data); i += 4 {
		bits := uint32(a.Data[i]) | uint32(a.Data[i+1])<<8 | uint32(a.Data[i+2])<<16 | uint32(a.Data[i+3])<<24
		out = append(out, float64(math.Float32frombits(bits)))
	}
	return out
}

// cosine is how alike two directions are; NaN where lengths differ.
func cosine(a, b []float64) float64 {
	if len(a) != len(b) || len(a) == 0 {
		return math.NaN()
	}
	var ab, aa, bb float64
	for i := range a {
		ab, aa, bb = ab+a[i]*b[i], aa+a[i]*a[i], bb+b[i]*b[i]
	}
	return ab / math.Sqrt(aa*bb)
}
