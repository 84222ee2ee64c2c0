package modality_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
)

// function is a function that a test computes.
type function struct {
	run  func(in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error)
	runs []map[string]runtimes.Tensor
}

func (f *function) Close() error { return nil }

func (f *function) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	f.runs = append(f.runs, in)
	return f.run(in)
}

func floats(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func tensor(shape []int64, v ...float32) runtimes.Tensor {
	return runtimes.Tensor{Type: runtimes.Float32, Shape: shape, Data: floats(v...)}
}

// manifest parses a module.yaml of an encoder without files.
func manifest(t *testing.T, rest string) *modules.Manifest {
	t.Helper()
	dir := t.TempDir()
	text := "name: enc\nversion: 1.0.0\ntype: encoder\nmodality: audio\nabi: mm-abi-1.1\nlicense: MIT\n" + rest
	for name, body := range map[string]string{"module.yaml": text, "labels.txt": "a\nb\n\u3000\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, list := modules.Load(dir)
	if m == nil || len(list) > 0 {
		t.Fatal(list)
	}
	return m
}

// summing adds its samples to a state and returns both.
func summing() *function {
	f := &function{}
	f.run = func(in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
		x, _ := modality.Numbers(in["x"])
		h, _ := modality.Numbers(in["h"])
		sum := float32(h[0])
		for _, v := range x {
			sum += float32(v)
		}
		return map[string]runtimes.Tensor{"y": tensor([]int64{1, 1}, sum), "hn": tensor([]int64{1}, sum)}, nil
	}
	return f
}

const stream = `inputs: [{name: x, shape: [S], dtype: fp32}, {name: h, shape: [1], dtype: fp32}, {name: sr, shape: [], dtype: int64}]
outputs: [{name: y, shape: [1], dtype: fp32}, {name: hn, shape: [1], dtype: fp32}]
preprocess: {x: {sample_rate: 8000, chunk: 4, context: 2}}
state: {h: {from: hn, init: 100}}
constants: {sr: 8000}
postprocess: {y: {segments: {threshold: 102, low: 102}}}
`

func wav(samples ...float32) modality.Input {
	return modality.Input{Data: preprocess.EncodeWAV(&preprocess.Wave{Rate: 8000, Samples: samples})}
}

// State is carried from window to window and from run to run, separately in each session; Reset
// restores it, and a failed run does not change it.
func TestState(t *testing.T) {
	f := summing()
	m := manifest(t, stream)
	open := func() *modality.Session {
		s, err := modality.New(f, m, modality.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := open(), open()
	step := func(s *modality.Session, want []float32, samples ...float32) *modality.Result {
		t.Helper()
		r, err := s.Run(t.Context(), map[string]modality.Input{"": wav(samples...)})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tensor([]int64{1, int64(len(want))}, want...), r.Outputs["y"]); d != "" {
			t.Error(d)
		}
		if _, ok := r.Outputs["hn"]; ok || len(r.Outputs) != 1 {
			t.Errorf("outputs %v", r.Outputs)
		}
		return r
	}
	// Context counts twice: 0.5 of window one precedes window two.
	step(a, []float32{101, 102}, 0.25, 0.25, 0.25, 0.25, 0.5)
	if sr := f.runs[0]["sr"]; sr.Type != runtimes.Int64 || len(sr.Shape) != 0 || !bytes.Equal(sr.Data, []byte{0x40, 0x1f, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("sr is %+v", sr)
	}
	if x := f.runs[1]["x"]; !cmp.Equal(x, tensor([]int64{1, 6}, 0.25, 0.25, 0.5, 0, 0, 0)) {
		t.Errorf("the second window is %+v", x)
	}
	step(b, []float32{100.5}, 0.5)
	// The stream goes on: its last two samples were zeros of the padding.
	r := step(a, []float32{102.5}, 0.5)
	if want := []modality.Segment{{Output: "y", Start: 8.0 / 8000, End: 12.0 / 8000, Score: 102.5}}; !cmp.Equal(r.Segments, want) {
		t.Errorf("segments %+v, want %+v", r.Segments, want)
	}
	original := f.run
	broken := errors.New("broken")
	n := 0
	f.run = func(in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
		if n++; n == 2 {
			return nil, broken
		}
		return original(in)
	}
	if _, err := a.Run(t.Context(), map[string]modality.Input{"x": wav(0.5, 0, 0, 0, 0.5)}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	f.run = original
	step(a, []float32{103}, 0.5)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Run(ended, map[string]modality.Input{"x": wav(0.5)}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	a.Reset()
	step(a, []float32{100.5}, 0.5)

	// An explicit state holds for one run.
	input := tensor([]int64{1}, 7)
	if r, err := a.Run(t.Context(), map[string]modality.Input{"x": wav(0.5), "h": {Tensor: &input}}); err != nil || !cmp.Equal(r.Outputs["y"], tensor([]int64{1, 1}, 7.5)) {
		t.Errorf("%+v, %v", r, err)
	}
	f.run = func(in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
		return map[string]runtimes.Tensor{"y": tensor([]int64{1, 1}, 0), "hn": tensor([]int64{2}, 0, 0)}, nil
	}
	if _, err := a.Run(t.Context(), map[string]modality.Input{"x": wav(0.5)}); err == nil || !strings.Contains(err.Error(), "the next value of") {
		t.Errorf("a state of another shape: %v", err)
	}
}

// The old form, output to input, and ports that only the state block names.
func TestStateEitherWay(t *testing.T) {
	for _, state := range []string{"{hn: h}", "{h: hn}", "{h: {from: hn, shape: [1], dtype: fp32}}"} {
		f := summing()
		s, err := modality.New(f, manifest(t, strings.NewReplacer("{h: {from: hn, init: 100}}", state, "threshold: 102, low: 102", "").Replace(stream)), modality.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), map[string]modality.Input{"x": wav(0.5)})
		if err != nil || !cmp.Equal(r.Outputs["y"], tensor([]int64{1, 1}, 0.5)) {
			t.Errorf("%s: %+v, %v", state, r, err)
		}
	}
	private := strings.NewReplacer(", {name: h, shape: [1], dtype: fp32}, {name: sr, shape: [], dtype: int64}", "", ", {name: hn, shape: [1], dtype: fp32}", "", "sr: 8000", "sr: {value: 8000, dtype: int64}").Replace(stream)
	if _, err := modality.New(summing(), manifest(t, private), modality.Options{}); err == nil || !strings.Contains(err.Error(), `state "h": unknown type`) {
		t.Errorf("%v", err)
	}
	s, err := modality.New(summing(), manifest(t, strings.Replace(private, "init: 100", "shape: [1], dtype: fp32", 1)), modality.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := s.Run(t.Context(), map[string]modality.Input{"": wav(0.5)}); err != nil || !cmp.Equal(r.Outputs["y"], tensor([]int64{1, 1}, 0.5)) {
		t.Errorf("%+v, %v", r, err)
	}
}

// An input that is missing, unknown or ambiguous is named.
func TestInputs(t *testing.T) {
	f := summing()
	s, err := modality.New(f, manifest(t, stream), modality.Options{MaxBytes: 2000})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "long.wav")
	if err := os.WriteFile(file, preprocess.EncodeWAV(&preprocess.Wave{Rate: 8000, Samples: make([]float32, 1000)}), 0o644); err != nil {
		t.Fatal(err)
	}
	picture := drawn(t, 2, 2)
	one := tensor([]int64{1}, 1)
	for name, c := range map[string]struct {
		in    map[string]modality.Input
		want  string
		input bool
	}{
		"missing":    {nil, `input "x" is missing`, true},
		"unknown":    {map[string]modality.Input{"x": wav(1), "z": wav(1)}, `input "z" is not an input of enc@1.0.0`, true},
		"twice":      {map[string]modality.Input{"x": wav(1), "": wav(1)}, "without a name", true},
		"neither":    {map[string]modality.Input{"x": {}}, "one of a file", false},
		"both":       {map[string]modality.Input{"x": {File: file, Tensor: &one}}, "one of a file", false},
		"too large":  {map[string]modality.Input{"x": {File: file}}, "2000", false},
		"no file":    {map[string]modality.Input{"x": {File: file + "x"}}, "no such file", false},
		"a folder":   {map[string]modality.Input{"x": {File: filepath.Dir(file)}}, "regular", false},
		"bytes":      {map[string]modality.Input{"x": {Data: make([]byte, 2001)}}, "2000", false},
		"text":       {map[string]modality.Input{"x": {Data: []byte("hello")}}, "unrecognized format", false},
		"a picture":  {map[string]modality.Input{"x": {Data: picture}}, "got an image, want a sound", false},
		"no samples": {map[string]modality.Input{"x": {Data: preprocess.EncodeWAV(&preprocess.Wave{Rate: 8000})}}, "empty sound", false},
		"bad tensor": {map[string]modality.Input{"x": {Tensor: &runtimes.Tensor{Type: "fp32", Shape: []int64{2}}}}, "0 bytes", false},
		"bad array":  {map[string]modality.Input{"x": {Data: []byte("\x93NUMPY\x01\x00\x00\x00")}}, "dictionary", false},
	} {
		_, err := s.Run(t.Context(), c.in)
		var in *modality.InputError
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &in) != c.input {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if len(f.runs) > 0 {
		t.Errorf("the function ran %d times", len(f.runs))
	}
}

func drawn(t *testing.T, w, h int) []byte {
	t.Helper()
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		m.SetNRGBA(i%w, i/w, color.NRGBA{uint8(i), 51, 255, 255})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// echo returns its input.
func echo() *function {
	f := &function{}
	f.run = func(in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
		return map[string]runtimes.Tensor{"y": in["x"]}, nil
	}
	return f
}

// An image is accepted by an input that fits images only, with the assumptions reported; an
// ambiguous input refuses it.
func TestObvious(t *testing.T) {
	for _, c := range []struct {
		port, want string // the result's, or the error's
		assumed    string
	}{
		{"[3, H, W], dtype: fp32", "fp32 [3 2 4]", "CHW, RGB, values 0 to 1"},
		{"[1, 3, 6, 8], dtype: fp16", "fp16 [1 3 6 8]", "NCHW, RGB, resized to 6 × 8, values 0 to 1"},
		{"[3, 4, W], dtype: fp32", "fp32 [3 4 8]", "CHW, RGB, of height 4, values 0 to 1"},
		{"[H, W, 3], dtype: uint8", "uint8 [2 4 3]", "HWC, RGB, values 0 to 255"},
		{"[N, H, W, 1], dtype: uint8", "uint8 [1 2 4 1]", "NHWC, gray, values 0 to 255"},
		{"[1, H, W], dtype: fp32", "fp32 [1 2 4]", "CHW, gray, values 0 to 1"},
		{"[H, W], dtype: fp32", "describe it in preprocess", ""},
		{"[7, H, W], dtype: fp32", "describe it in preprocess", ""},
		{"[3, H, W], dtype: int64", "describe it in preprocess", ""},
	} {
		f := echo()
		s, err := modality.New(f, manifest(t, "inputs: [{name: x, shape: "+c.port+"}]\noutputs: [{name: y, shape: [A], dtype: fp32}]\n"), modality.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), map[string]modality.Input{"": {Data: drawn(t, 4, 2)}})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			y := r.Outputs["y"]
			if err := y.Check(); err != nil {
				t.Error(err)
			}
			got = fmt.Sprint(y.Type, " ", y.Shape)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.port, got, c.want)
		}
		if c.assumed != "" && (len(r.Assumed) != 1 || !strings.HasSuffix(r.Assumed[0], "as "+c.assumed)) {
			t.Errorf("%s: assumed %q, want %q", c.port, r.Assumed, c.assumed)
		}
	}
	for port, want := range map[string]string{
		"[S], dtype: fp32}]\ncaps: {sample_rate: 16000": "16000 Hz (caps.sample_rate)",
		"[N, S], dtype: fp32":                           "refused",
		"[S], dtype: fp32":                              "the file's own rate, 8000 Hz",
		"[80, T], dtype: fp32":                          "refused",
		"[S], dtype: int64":                             "refused",
	} {
		close := "}]"
		if strings.Contains(port, "caps") {
			close = "}"
		}
		s, err := modality.New(echo(), manifest(t, "outputs: [{name: y, shape: [A], dtype: fp32}]\ninputs: [{name: x, shape: "+port+close+"\n"), modality.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), map[string]modality.Input{"": wav(0.5, 0.25)})
		switch {
		case port == "[N, S], dtype: fp32": // one of the two is open: N is 1
			if err != nil || !cmp.Equal(r.Outputs["y"], tensor([]int64{1, 2}, 0.5, 0.25)) {
				t.Errorf("%s: %+v, %v", port, r, err)
			}
		case want == "refused":
			if err == nil || !strings.Contains(err.Error(), "describe it in preprocess") {
				t.Errorf("%s: %v", port, err)
			}
		case err != nil || len(r.Assumed) != 1 || !strings.Contains(r.Assumed[0], want):
			t.Errorf("%s: %+v, %v", port, r, err)
		}
	}
}

// Without a manifest tensors and arrays pass unchanged.
func TestNoManifest(t *testing.T) {
	f := echo()
	s, err := modality.New(f, nil, modality.Options{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := npy.Encode(&npy.Array{Type: "i2", Shape: []int{2}, Data: []byte{1, 0, 2, 0}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), map[string]modality.Input{"x": {Data: data}})
	if want := (runtimes.Tensor{Type: runtimes.Int16, Shape: []int64{2}, Data: []byte{1, 0, 2, 0}}); err != nil || !cmp.Equal(r.Outputs["y"], want) {
		t.Errorf("%+v, %v", r, err)
	}
	for name, in := range map[string]modality.Input{"x": {Data: drawn(t, 1, 1)}, "": {Data: data}} {
		if _, err := s.Run(t.Context(), map[string]modality.Input{name: in}); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
	if _, err := s.Literal("x", []float64{1}); err == nil {
		t.Error("a literal of no type")
	}
}

// Postprocessing of outputs.
func TestPostprocess(t *testing.T) {
	scores := func(rows ...int) []float32 {
		var v []float32
		for _, best := range rows {
			row := make([]float32, 5)
			row[best] = 0.9
			v = append(v, row...)
		}
		return v
	}
	nan := float32(math.NaN())
	for _, c := range []struct {
		name, post string
		out        runtimes.Tensor
		want       modality.Result
		fault      string
	}{
		{"text", "ctc: {labels: labels.txt, space: true}", tensor([]int64{1, 8, 5}, scores(1, 1, 0, 1, 4, 2, 2, 3)...), modality.Result{Text: "aa b\u3000"}, ""},
		{"two lines", "ctc: {labels: labels.txt, space: true}", tensor([]int64{2, 2, 5}, scores(1, 2, 2, 2)...), modality.Result{Text: "ab\nb"}, ""},
		{"another blank", "ctc: {labels: labels.txt, blank: 3, space: true}", tensor([]int64{3, 5}, scores(0, 3, 2)...), modality.Result{Text: "a\u3000"}, ""},
		{"classes", "ctc: {labels: labels.txt}", tensor([]int64{1, 2, 5}, scores(1, 2)...), modality.Result{}, "want [N, T, 4]"},
		{"no number", "ctc: {labels: labels.txt, space: true}", tensor([]int64{1, 1, 5}, 0, 0, nan, 0, 0), modality.Result{}, "NaN"},
		{"likeliest", "labels: {file: labels.txt, top: 2}", tensor([]int64{1, 3}, 1, 3, 3), modality.Result{Labels: []modality.Label{{"y", 1, "b", 3}, {"y", 2, "\u3000", 3}}}, ""},
		{"probabilities", "labels: {softmax: true, top: 1}", tensor([]int64{1, 2}, 1000, 1000), modality.Result{Labels: []modality.Label{{"y", 0, "", 0.5}}}, ""},
		{"as many labels", "labels: {file: labels.txt}", tensor([]int64{1, 2}, 1, 2), modality.Result{}, "want 3"},
	} {
		f := &function{run: func(map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
			return map[string]runtimes.Tensor{"y": c.out}, nil
		}}
		s, err := modality.New(f, manifest(t, "inputs: [{name: x, shape: [3, H, W], dtype: fp32}]\noutputs: [{name: y, shape: [A, C], dtype: fp32}]\npostprocess: {y: {"+c.post+"}}\n"), modality.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), map[string]modality.Input{"x": {Tensor: &c.out}})
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %q", c.name, err, c.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if r.Text != c.want.Text || !cmp.Equal(r.Labels, c.want.Labels) {
			t.Errorf("%s: %q %v, want %q %v", c.name, r.Text, r.Labels, c.want.Text, c.want.Labels)
		}
	}
}

// Spans with hysteresis; a value lasts 100 ms here.
func TestSegments(t *testing.T) {
	for _, c := range []struct {
		post   string
		values []float32
		want   [][2]float64
	}{
		{"", []float32{0, .6, .4, .36, .6, .3, 0}, [][2]float64{{.1, .5}}},
		{"threshold: 0.5, low: 0.5", []float32{0, .6, .4, .6, 0}, [][2]float64{{.1, .2}, {.3, .4}}},
		{"min_silence_ms: 200", []float32{.6, 0, .6, 0, 0, .6}, [][2]float64{{0, .3}, {.5, .6}}},
		{"min_ms: 200", []float32{.6, 0, .6, .6, 0}, [][2]float64{{.2, .4}}},
		{"pad_ms: 150", []float32{.6, 0, 0, .6, 0, .6}, [][2]float64{{0, .2}, {.2, .45}, {.45, .6}}},
		{"min_silence_ms: 300", []float32{.6, .6, 0, 0}, [][2]float64{{0, .2}}},
		{"", []float32{0, 0}, nil},
	} {
		values := c.values
		f := &function{run: func(map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
			return map[string]runtimes.Tensor{"y": tensor([]int64{1, int64(len(values))}, values...)}, nil
		}}
		s, err := modality.New(f, manifest(t, "inputs: [{name: x, shape: [S], dtype: fp32}]\noutputs: [{name: y, shape: [T], dtype: fp32}]\npreprocess: {sample_rate: 8000}\npostprocess: {y: {segments: {"+c.post+"}}}\n"), modality.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), map[string]modality.Input{"": wav(make([]float32, 800*len(values))...)})
		if err != nil {
			t.Fatal(err)
		}
		var got [][2]float64
		for _, seg := range r.Segments {
			got = append(got, [2]float64{math.Round(seg.Start*1000) / 1000, math.Round(seg.End*1000) / 1000})
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%q %v: %s", c.post, c.values, d)
		}
	}
}

// fleeting is a context that ends after a number of calls of Err.
type fleeting struct {
	context.Context
	looks int
}

func (f *fleeting) Err() error {
	if f.looks--; f.looks < 0 {
		return context.Canceled
	}
	return nil
}

// A canceled caller does not wait for the decoding of an image.
func TestGivenUp(t *testing.T) {
	ran := false
	fn := &function{run: func(map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) { ran = true; return nil, nil }}
	s, err := modality.New(fn, manifest(t, "inputs: [{name: image, shape: [H, W, 3], dtype: uint8}]\noutputs: [{name: y, shape: [T], dtype: fp32}]\n"), modality.Options{})
	if err != nil {
		t.Fatal(err)
	}
	film := modality.Input{Frames: []*preprocess.Raster{{W: 1, H: 1, C: 3, Pix: make([]byte, 3)}, {W: 1, H: 1, C: 3, Pix: make([]byte, 3)}}}
	for looks, in := range map[int]modality.Input{20: {Data: drawn(t, 30, 40)}, 4: film} {
		if _, err := s.Run(&fleeting{t.Context(), looks}, map[string]modality.Input{"image": in}); !errors.Is(err, context.Canceled) || ran {
			t.Errorf("given up after %d looks: %v", looks, err)
		}
	}
}

// Literal numbers get the type and the shape of their input.
func TestLiteral(t *testing.T) {
	m := manifest(t, "inputs: [{name: x, shape: [2, N], dtype: int8}, {name: p, shape: [], dtype: bool}, {name: q, shape: [2, 2], dtype: fp16}]\noutputs: [{name: y, shape: [T], dtype: fp32}]\n")
	s, err := modality.New(echo(), m, modality.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		numbers []float64
		want    runtimes.Tensor
		fault   string
	}{
		{"x", []float64{1, 2, 3, -4}, runtimes.Tensor{Type: "int8", Shape: []int64{2, 2}, Data: []byte{1, 2, 3, 252}}, ""},
		{"x", []float64{5}, runtimes.Tensor{Type: "int8", Shape: []int64{2, 1}, Data: []byte{5, 5}}, ""},
		{"p", []float64{1}, runtimes.Tensor{Type: "bool", Data: []byte{1}}, ""},
		{"q", []float64{1, 2, 3, 4}, runtimes.Tensor{Type: "fp16", Shape: []int64{2, 2}, Data: []byte{0, 0x3c, 0, 0x40, 0, 0x42, 0, 0x44}}, ""},
		{"x", []float64{1, 2, 3}, runtimes.Tensor{}, "3 numbers"},
		{"q", []float64{1, 2}, runtimes.Tensor{}, "2 numbers"},
		{"x", []float64{1, 128}, runtimes.Tensor{}, "not a valid int8"},
		{"x", []float64{1.5, 1}, runtimes.Tensor{}, "not a valid int8"},
		{"p", []float64{2}, runtimes.Tensor{}, "not a valid bool"},
		{"p", []float64{math.NaN()}, runtimes.Tensor{}, "not a valid bool"},
		{"z", []float64{1}, runtimes.Tensor{}, "not an input of enc@1.0.0"},
		{"", []float64{1}, runtimes.Tensor{}, "without a name"},
	} {
		got, err := s.Literal(c.name, c.numbers)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s %v: %v, want %q", c.name, c.numbers, err, c.fault)
			}
			continue
		}
		if err != nil || got.Type != c.want.Type || !cmp.Equal(got.Shape, c.want.Shape) && len(got.Shape)+len(c.want.Shape) > 0 || !bytes.Equal(got.Data, c.want.Data) {
			t.Errorf("%s %v: %+v, %v", c.name, c.numbers, got, err)
		}
	}
}

// Outputs become files that can be read again.
func TestEncode(t *testing.T) {
	data, err := modality.EncodePicture(tensor([]int64{1, 1, 1, 3}, 0, 0.2, 1))
	if err != nil {
		t.Fatal(err)
	}
	r, err := preprocess.DecodeImage(data)
	if err != nil || !bytes.Equal(r.Pix, []byte{0, 0, 0, 51, 51, 51, 255, 255, 255}) {
		t.Errorf("%+v, %v", r, err)
	}
	data, err = modality.EncodePicture(tensor([]int64{1, 2, 3}, 1, 2, 300, -4, 5.5, 6))
	if r, _ := preprocess.DecodeImage(data); err != nil || !bytes.Equal(r.Pix, []byte{1, 1, 1, 2, 2, 2, 255, 255, 255, 0, 0, 0, 6, 6, 6, 6, 6, 6}) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []runtimes.Tensor{tensor([]int64{2, 2, 2}, make([]float32, 8)...), tensor([]int64{0, 3, 3}), tensor([]int64{1, 1}, float32(math.NaN())), tensor([]int64{7}, make([]float32, 7)...)} {
		if _, err := modality.EncodePicture(bad); err == nil {
			t.Errorf("%v is a picture", bad.Shape)
		}
	}
	s, err := modality.New(summing(), manifest(t, stream), modality.Options{})
	if err != nil {
		t.Fatal(err)
	}
	data, err = s.EncodeSound(tensor([]int64{1, 2}, 0.5, -0.5))
	if w, _ := preprocess.DecodeWAV(data); err != nil || w.Rate != 8000 || !cmp.Equal(w.Samples, []float32{0.5, -0.5}) {
		t.Errorf("%v", err)
	}
	if _, err := s.EncodeSound(tensor([]int64{2, 1}, 0.5, -0.5)); err == nil {
		t.Error("two channels are a sound")
	}
	a, err := modality.ToArray(runtimes.Tensor{Type: runtimes.BFloat16, Shape: []int64{1}, Data: []byte{0x80, 0x3f}})
	if err != nil || a.Type != "f4" || !bytes.Equal(a.Data, floats(1)) {
		t.Errorf("%+v, %v", a, err)
	}
}

// Unreadable labels and invalid constants are reported when the session is created.
func TestNewRefuses(t *testing.T) {
	base := "inputs: [{name: x, shape: [S], dtype: fp32}, {name: sr, shape: [], dtype: uint8}]\noutputs: [{name: y, shape: [T, C], dtype: fp32}]\n"
	for rest, want := range map[string]string{
		"postprocess: {y: {ctc: {labels: none.txt}}}\n":                  "none.txt",
		"constants: {sr: 300}\n":                                         "300 is not a valid uint8",
		"constants: {sr: {value: 1, shape: [2147483647, 2147483647]}}\n": "want 1 to",
		"constants: {sr: {value: 1, dtype: fp8}}\n":                      "unknown element type",
	} {
		if _, err := modality.New(echo(), manifest(t, base+rest), modality.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", rest, err, want)
		}
	}
}
