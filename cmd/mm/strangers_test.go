package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// stranger is a build of a model that nobody here trained.
type stranger struct {
	graph, ref string     // the graph's path in builds
	modules    [][]string // how its modules are made
	backends   []string   // the engines that run it; the first one's answer is what others' are compared with
	folders    []string   // of the repository, which hold modules as well
}

// must runs mm and gives what it prints.
func must(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := mm(t, args...)
	if code != exitOK {
		t.Fatalf("mm %s: exit %d: %s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// shipped makes the modules, composes and signs the build, pushes it to a
// registry, and pulls and verifies it in another home. It gives the reference
// there.
func shipped(t *testing.T, s stranger, server string) string {
	t.Helper()
	home, away := filepath.Join(t.TempDir(), "home"), filepath.Join(t.TempDir(), "away")
	t.Setenv("MM_KEY_PASSWORD", "")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("MM_HOME", home)
	root := testfiles.Root(t)
	data, err := os.ReadFile(filepath.Join(root, "builds", s.graph))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	graph, folders := filepath.Base(s.graph), []string{"modules"}
	if err := os.WriteFile(graph, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range s.folders {
		folders = append(folders, filepath.Join(root, dir))
	}
	if err := os.WriteFile("mm.yaml", fmt.Appendf(nil, "modules: [%s]\n", strings.Join(folders, ", ")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range s.modules {
		must(t, args...)
	}
	must(t, "keys", "generate", "--unencrypted")
	must(t, "lock", graph)
	must(t, "validate", graph, "modules")
	must(t, "assemble", graph, "--sign", "default")
	name, version, _ := strings.Cut(s.ref, ":")
	at := server + "/team/" + name
	must(t, "push", s.ref, at)
	t.Setenv("MM_HOME", away)
	at += ":" + version
	if _, _, code := mm(t, "pull", at); code == exitOK {
		t.Fatal("pulled before the key is trusted")
	}
	must(t, "trust", "add", filepath.Join(home, "keys", "mm.pub"), "--name", "team", "--match", server+"/team/**")
	must(t, "pull", at)
	must(t, "verify", at)
	for _, name := range s.backends[1:] {
		installed := map[string]string{"onnxruntime": native.ONNXRuntime, "llamacpp": native.LlamaCPP}[name]
		if _, err := native.Install(t.Context(), native.Options{Home: away, Name: installed, From: runtimetest.Libraries(t, installed)}); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

// numbers are the elements of a .npy file of float32.
func numbers(t *testing.T, path string) []float64 {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a, err := npy.Decode(data)
	if err != nil || a.Type != "f4" {
		t.Fatalf("%s: %v %v", path, a, err)
	}
	out := make([]float64, len(a.Data)/4)
	for i := range out {
		out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(a.Data[4*i:])))
	}
	return out
}

func cosine(a, b []float64) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab, aa, bb = ab+a[i]*b[i], aa+a[i]*a[i], bb+b[i]*b[i]
	}
	return ab / math.Sqrt(aa*bb)
}

// answers has every engine run a function and compares an output: f32 tensors
// agree to a cosine of 0.9999.
func answers(t *testing.T, ref, output string, backends []string, args ...string) []part.Report {
	t.Helper()
	var all []part.Report
	var first []float64
	for _, b := range backends {
		file := filepath.Join(t.TempDir(), "out.npy")
		text := must(t, append([]string{"run", ref, "--backend", b, "--output", output + "=" + file, "--json"}, args...)...)
		var parts struct{ Parts []part.Report }
		if err := json.Unmarshal([]byte(text), &parts); err != nil || len(parts.Parts) != 1 {
			t.Fatalf("%v: %s", err, text)
		}
		got := parts.Parts[0]
		if got.Backend != b {
			t.Errorf("asked for %s, ran on %s", b, got.Backend)
		}
		all = append(all, got)
		values := numbers(t, file)
		if first == nil {
			first = values
			continue
		}
		if c := cosine(first, values); len(first) != len(values) || !(c >= 0.9999) {
			t.Errorf("%s: %d and %d numbers, cosine %v", b, len(first), len(values), c)
		} else {
			t.Logf("%s: %s beside %s: %d numbers, cosine %.7f; %.0f ms and %.0f ms", ref, b, backends[0], len(values), c, got.Timings.RunMS, all[0].Timings.RunMS)
		}
	}
	return all
}

// foreignRegistry serves another project's registry.
func foreignRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// PP-OCRv4 reads drawn text, on both engines, after the whole way of a build.
func TestStrangersRead(t *testing.T) {
	s := stranger{"strangers/ocr.graph.yaml", "ocr:4.0.0", [][]string{{
		"module", "import", "onnx", testfiles.Models(t, "ocr", "ch_PP-OCRv4_rec_infer.onnx"),
		"--name", "ppocr-rec", "--version", "4.0.0", "--license", "Apache-2.0", "--dir", "modules/ppocr-rec",
		"--preprocess", "{height: 48, max_width: 3200, color: bgr, scale: 0.00392156862745098, mean: [0.5], std: [0.5]}",
		"--postprocess", "softmax_11.tmp_0={ctc: {labels: ppocr_keys_v1.txt, space: true}}", "--with", testfiles.Models(t, "ocr", "ppocr_keys_v1.txt"),
	}}, []string{"onnx", "onnxruntime"}, nil}
	runtimetest.Libraries(t, native.ONNXRuntime)
	runtimetest.Program(t)
	ref := shipped(t, s, foreignRegistry(t))
	for i, text := range []string{"Modular ABI 1.0", "slope = 3.14", "invoice 20456"} {
		file := fmt.Sprintf("%d.png", i)
		if err := os.WriteFile(file, testfiles.Line(t, text, 32), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, got := range answers(t, ref, "softmax_11.tmp_0", s.backends, "--image", file) {
			if got.Text != text {
				t.Errorf("%s reads %q for %q", got.Backend, got.Text, text)
			}
		}
	}
}

// Silero VAD finds every spoken digit of people it has never heard, on both
// engines, and nothing in the seconds between them.
func TestStrangersListen(t *testing.T) {
	s := stranger{"strangers/vad.graph.yaml", "vad:6.0.0", [][]string{{
		"module", "import", "onnx", testfiles.Models(t, "vad", "silero_vad_v6.onnx"),
		"--name", "silero-vad", "--version", "6.0.0", "--license", "MIT", "--dir", "modules/silero-vad",
		"--preprocess", "input={sample_rate: 16000, chunk: 512, context: 64}", "--state", "state=stateN", "--constant", "sr=16000",
		"--postprocess", "output={segments: {min_ms: 60, min_silence_ms: 100}}",
	}}, []string{"onnx", "onnxruntime"}, nil}
	runtimetest.Libraries(t, native.ONNXRuntime)
	sound, digits := recordings(t)
	runtimetest.Program(t)
	ref := shipped(t, s, foreignRegistry(t))
	if err := os.WriteFile("digits.wav", preprocess.EncodeWAV(sound), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, got := range answers(t, ref, "output", s.backends, "--audio", "digits.wav") {
		found, astray := 0, 0
		for _, d := range digits {
			for _, seg := range got.Segments {
				if seg.Start < d[1] && seg.End > d[0] {
					found++
					break
				}
			}
		}
		for _, seg := range got.Segments {
			heard := false
			for _, d := range digits {
				heard = heard || seg.Start < d[1] && seg.End > d[0]
			}
			if !heard {
				astray++
			}
		}
		t.Logf("%s: %d of %d spoken digits found, %d of %d segments where nobody speaks", got.Backend, found, len(digits), astray, len(got.Segments))
		if found != len(digits) || astray > 0 {
			t.Errorf("%s: %d of %d digits, %d segments astray", got.Backend, found, len(digits), astray)
		}
	}
}

// recordings are all spoken digits at hand with a second of silence around
// each, and where they are, in seconds.
func recordings(t *testing.T) (*preprocess.Wave, [][2]float64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testfiles.Shared(t, "fsdd"), "*.wav"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	const rate = 8000
	sound := &preprocess.Wave{Rate: rate, Samples: make([]float32, rate)}
	var at [][2]float64
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		w, err := preprocess.DecodeWAV(data)
		if err != nil || w.Rate != rate {
			t.Fatalf("%s: %v", file, err)
		}
		from := float64(len(sound.Samples)) / rate
		sound.Samples = append(sound.Samples, w.Samples...)
		at = append(at, [2]float64{from, float64(len(sound.Samples)) / rate})
		sound.Samples = append(sound.Samples, make([]float32, rate)...)
	}
	return sound, at
}

// The encoder that builds/own-encoder cuts out of openWakeWord's speech embedding.
var heard = []string{
	"--from", "model/conv2d/Conv2D__6:0=float32[1,1,T,32]", "--to", "model/max_pooling2d_4/MaxPool:0=float32[1,96,T_enc,1]", "--rows", "frame_tokens",
}

// hearing is the block of its front end.
const hearing = "{layout: NCTM, sample_rate: 16000, chunk: 48000, window: 400, n_fft: 512, hop: 160, uncenter: true, n_mels: 32," +
	" f_min: 60, f_max: 3800, log: db, floor: 9.3e-20, range: 80, mean: [-110.309], std: [10]}"

// The speech embedding, cut, says through a projector trained behind it which
// digits it hears, after the whole way of a build; what is cut gives what the
// whole model gives.
func TestStrangersHear(t *testing.T) {
	file, mel := testfiles.Models(t, "oww", "embedding_model.onnx"), testfiles.Models(t, "oww", "melspectrogram.onnx")
	cut := filepath.Join(t.TempDir(), "cut.onnx")
	shown := filepath.Join(testfiles.Root(t), "builds", "own-encoder", "digit-proj")
	s := stranger{"own-encoder/digits.graph.yaml", "digits:1.0.0", [][]string{
		append([]string{"onnx", "cut", file, "-o", cut}, heard...),
		{"module", "import", "onnx", cut, "--name", "oww-speech", "--version", "1.0.0", "--license", "Apache-2.0", "--dir", "modules/oww-speech",
			"--cap", "window_ms=3000", "--preprocess", hearing},
	}, []string{"onnx"}, []string{"catalog", "builds/own-encoder"}}
	ref := shipped(t, s, foreignRegistry(t))
	if out := must(t, "run", ref, "--smoke"); !strings.Contains(out, "2 of 2 golden prompts") {
		t.Errorf("%s", out)
	}
	for _, c := range []struct{ file, ask, want string }{
		{"seven.wav", "which digit is spoken?", "7"}, {"four-two.wav", "which digits are spoken?", "4 2"}, {"seven.wav", "how many digits are spoken?", "one"},
	} {
		var got runner.Report
		text := must(t, "run", ref, "--audio", filepath.Join(shown, c.file), "--prompt", c.ask, "--max-tokens", "8", "--json")
		if err := json.Unmarshal([]byte(text), &got); err != nil || strings.TrimSpace(got.Text) != c.want {
			t.Errorf("%s: %s %q, %v", c.file, c.ask, got.Text, err)
		}
	}
	asOpenWakeWord(t, mel, file, filepath.Join(shown, "seven.wav"))
}

// asOpenWakeWord compares what the cut encoder makes of a sound, our front end
// before it, with what the two whole models make: three vectors that lie 80 ms
// apart are what the head makes one of, so heads are compared.
func asOpenWakeWord(t *testing.T, mel, file, wav string) {
	t.Helper()
	must(t, "run", "modules/oww-speech", "--input", wav, "--output", "frame_tokens=frames.npy")
	frames := numbers(t, "frames.npy")
	must(t, "onnx", "cut", file, "--from", "model/max_pooling2d_4/MaxPool:0=float32[1,96,3,1]", "--to", "conv2d_19", "-o", "head.onnx")
	data, err := os.ReadFile(wav)
	if err != nil {
		t.Fatal(err)
	}
	w, err := preprocess.DecodeSound(data)
	if err != nil || w.Rate != 16000 {
		t.Fatalf("%v", err)
	}
	samples := make([]float32, 48000)
	for i, v := range w.Samples {
		samples[i] = 32768 * v // it takes the numbers of 16 bits
	}
	bands := computed(t, mel, "input", samples, 1, 48000)
	for i := range bands {
		bands[i] = bands[i]/10 + 2
	}
	for _, k := range []int{0, 2, 9} {
		want := computed(t, file, "input_1", bands[8*k*32:(8*k+76)*32], 1, 76, 32, 1)
		three := make([]float32, 96*3)
		for i := range three {
			three[i] = float32(frames[(k+i%3)*96+i/3])
		}
		got := computed(t, "head.onnx", "model/max_pooling2d_4/MaxPool:0", three, 1, 96, 3, 1)
		worst, top := 0.0, 0.0
		for i := range want {
			worst, top = max(worst, math.Abs(float64(want[i]-got[i]))), max(top, math.Abs(float64(want[i])))
		}
		t.Logf("at %d ms: %.2g apart, of up to %.1f", 80*k, worst, top)
		if len(got) != 96 || !(worst < 1e-4*top) {
			t.Errorf("at %d ms the whole models and the cut are %v apart, of up to %v", 80*k, worst, top)
		}
	}
}

// computed is the only output of an ONNX file for its only input.
func computed(t *testing.T, path, input string, x []float32, shape ...int) []float32 {
	t.Helper()
	m, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := engine.Compile(t.Context(), m, engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	in := engine.Tensor{Type: onnx.FLOAT, Shape: shape}
	for _, v := range x {
		in.Data = binary.LittleEndian.AppendUint32(in.Data, math.Float32bits(v))
	}
	out, err := p.Run(t.Context(), map[string]engine.Tensor{input: in})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	data := out[p.Outputs()[0]].Data
	y := make([]float32, len(data)/4)
	for i := range y {
		y[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return y
}

// SmolLM2 chats, with 32-bit weights in the same words on both engines.
func TestStrangersChat(t *testing.T) {
	if os.Getenv("MM_TEST_LARGE") == "" {
		t.Skip("skipped: half a gigabyte goes the whole way (make strangers)")
	}
	from := testfiles.Native(t, "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
	wide := filepath.Join(t.TempDir(), "smollm2-f32.gguf")
	s := stranger{"strangers/smollm2.graph.yaml", "smollm2:1.0.0", [][]string{
		{"quantize", "--to", "F32", from, wide},
		{"module", "import", "gguf", wide, "--name", "smollm2-135m", "--version", "1.0.0", "--license", "Apache-2.0", "--dir", "modules/smollm2-135m"},
	}, []string{"core", "llamacpp"}, nil}
	runtimetest.Libraries(t, native.LlamaCPP)
	runtimetest.Program(t)
	ref := shipped(t, s, foreignRegistry(t))
	for _, prompt := range []string{"What is the capital of France?", "Write one sentence about the sea.", "Name three colours."} {
		var first string
		for _, b := range s.backends {
			var got runner.Report
			text := must(t, "run", ref, "--backend", b, "--max-tokens", "48", "--json", "--prompt", prompt)
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			if got.Backend != b || got.Text == "" {
				t.Errorf("asked for %s, %s says %q", b, got.Backend, got.Text)
			}
			if first == "" {
				first = got.Text
				t.Logf("%s: %q", prompt, first)
			} else if got.Text != first {
				t.Errorf("%s says %q, %s %q", b, got.Text, s.backends[0], first)
			}
		}
	}
}
