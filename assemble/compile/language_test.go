package compile_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/htp/htptest"
	"mm-abi.org/mm/onnx/window"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/runtimes/step"
)

// folder is files under their own names.
type folder string

func (f folder) Path(name string) (string, error)               { return filepath.Join(string(f), name), nil }
func (f folder) Open(name string) (*os.File, error)             { return os.Open(filepath.Join(string(f), name)) }
func (f folder) Dir(context.Context, ...string) (string, error) { return string(f), nil }

// mirror is an engine whose contexts are made up, and compute what our own
// engine does with the model that they were to be compiled of.
type mirror struct {
	model *string
	began *[]bool // of each run: no keys were held yet
}

func newMirror() mirror { return mirror{new(string), new([]bool)} }

// watched returns a function that reports which runs begin a text.
type watched struct {
	runtimes.Function
	began *[]bool
}

func (w watched) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	held := in[first(in)].Data
	*w.began = append(*w.began, len(held) > 0 && !slices.ContainsFunc(held, func(b byte) bool { return b != 0 }))
	return w.Function.Run(ctx, in)
}

// first is the first layer whose keys are among inputs.
func first(in map[string]runtimes.Tensor) string {
	for i := range len(in) {
		if _, ok := in[window.PastKey(i)]; ok {
			return window.PastKey(i)
		}
	}
	return ""
}

func (m mirror) Compile(_ context.Context, c qnn.Compilation) (qnn.Compiled, error) {
	*m.model = c.Model
	out := qnn.Compiled{Context: filepath.Join(filepath.Dir(c.Out), "c.bin"), SoC: 69, Digest: "sha256:00"}
	return out, os.WriteFile(out.Context, htptest.Context(htptest.Sample()), 0o600)
}

func (m mirror) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	b.Part.Files, b.Files = builds.Formats{"onnx": {filepath.Base(*m.model)}}, folder(filepath.Dir(*m.model))
	f, err := engines.ONNX{}.Open(ctx, b, l)
	if err != nil {
		return nil, err
	}
	return watched{f.(runtimes.Function), m.began}, nil
}

func sm8750(t *testing.T) htp.Chip {
	t.Helper()
	chip, ok := htp.KnownChips().Named("SM8750")
	if !ok {
		t.Fatal("no SM8750")
	}
	return chip
}

// A middle of layers is compared on the complete model's output, and its record
// names them.
func TestMiddle(t *testing.T) {
	model := filepath.FromSlash("../../catalog/core-llm/core-llm.gguf")
	npu := newMirror()
	opt := compile.LanguageOptions{Model: model, Chip: sm8750(t), Window: 40, Layers: window.Span{First: 1, Count: 2}, MinCosine: 0.9999, Out: filepath.Join(t.TempDir(), "core.bin")}
	made, err := compile.Language(t.Context(), npu, opt)
	if err != nil {
		t.Fatal(err)
	}
	want := step.Record{Model: made.Record.Source, Vocab: 1024, Window: 40, Positions: 1, Span: opt.Layers}
	if *made.Record.Language != want || made.Record.Sets < 2 {
		t.Errorf("%+v", made.Record)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(opt.Out), "core.json"))
	if err != nil || !strings.Contains(string(text), `"first": 1`) || !strings.Contains(string(text), `"count": 2`) {
		t.Errorf("%s, %v", text, err)
	}
}

// A language model is compiled as one pass; the record next to the context names
// both, and is not written over unasked.
func TestLanguage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "core")
	if err := seed.Write(dir, seed.Options{Type: abi.Core, Name: "core", Seed: 3, DModel: 64}); err != nil {
		t.Fatal(err)
	}
	for _, positions := range []int{0, 5} {
		opt := compile.LanguageOptions{Model: filepath.Join(dir, "core.gguf"), Chip: sm8750(t), Window: 40, Positions: positions, MinCosine: 0.9999, Out: filepath.Join(t.TempDir(), "core.bin")}
		npu := newMirror()
		made, err := compile.Language(t.Context(), npu, opt)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(opt.Out), "core.json"))
		if err != nil {
			t.Fatal(err)
		}
		var r compile.Record
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		want := step.Record{Model: made.Record.Source, Vocab: r.Language.Vocab, Window: 40, Positions: max(positions, 1)}
		if r.Language == nil || *r.Language != want || r.Source != made.Record.Source || r.Cosine < 0.9999 || !r.Simulated || r.Sets < 2 || r.Context != "sha256:00" {
			t.Errorf("%s", text)
		}
		// It is compared where a text begins, and further on.
		if runs := *npu.began; len(runs) < 2 || !runs[0] || slices.Contains(runs[1:], true) {
			t.Errorf("%d at a time, texts began at %v", positions, runs)
		}
		if err := os.Remove(opt.Out); err != nil {
			t.Fatal(err)
		}
		if _, err := compile.Language(t.Context(), newMirror(), opt); !errors.Is(err, compile.ErrExists) {
			t.Errorf("where a record lies: %v", err)
		}
	}
}

func TestLanguageRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "core")
	if err := seed.Write(dir, seed.Options{Type: abi.Core, Name: "core", Seed: 3, DModel: 64}); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*compile.LanguageOptions){
		"a window of 100000":             func(o *compile.LanguageOptions) { o.Window = 100000 },
		"50 positions in a window of 40": func(o *compile.LanguageOptions) { o.Positions = 50 },
		"layers 3 to 5":                  func(o *compile.LanguageOptions) { o.Layers = window.Span{First: 3, Count: 3} },
		"gone.gguf":                      func(o *compile.LanguageOptions) { o.Model = "gone.gguf" },
		"want NAME.bin":                  func(o *compile.LanguageOptions) { o.Out = strings.TrimSuffix(o.Out, ".bin") },
		"got 69, want SM8750":            func(o *compile.LanguageOptions) { o.Chip.Model = 57 },
	} {
		opt := compile.LanguageOptions{Model: filepath.Join(dir, "core.gguf"), Chip: sm8750(t), Window: 40, Out: filepath.Join(t.TempDir(), "core.bin")}
		change(&opt)
		if _, err := compile.Language(t.Context(), newMirror(), opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if left, _ := os.ReadDir(filepath.Dir(opt.Out)); len(left) > 0 {
			t.Errorf("%s left %v", want, left)
		}
	}
	// The pass is described as the input file.
	opt := compile.LanguageOptions{Model: filepath.Join(dir, "core.gguf"), Chip: sm8750(t), Window: 40, MinCosine: 2, Out: filepath.Join(t.TempDir(), "core.bin")}
	_, err := compile.Language(t.Context(), newMirror(), opt)
	if list, ok := diag.From(err); !ok || list[0].Code != diag.QNNDrift || list[0].Pos.File != opt.Model {
		t.Errorf("too far: %v", err)
	}
}

// next returns a model's next token and its margin over the second.
func next(t *testing.T, s runtimes.Sequence) (int32, float64) {
	t.Helper()
	logits, err := s.(runtimes.Scorer).Logits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := int32(slices.Index(logits, slices.Max(logits)))
	slices.Sort(logits)
	return id, float64(logits[len(logits)-1] - logits[len(logits)-2])
}

func begin(t *testing.T, e runtimes.Engine, b runtimes.Bundle, prompt []int32) runtimes.Sequence {
	t.Helper()
	m, err := e.Open(t.Context(), b, runtimes.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	s, err := m.(runtimes.Language).NewSequence(t.Context(), runtimes.SequenceOptions{})
	if err == nil {
		err = s.Feed(t.Context(), runtimes.Positions{Tokens: prompt})
	}
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := m.(runtimes.Documented); ok {
		f := d.Facts()
		if f["simulated"] != "true" || !strings.HasPrefix(f["chip"], "SM8750") || !strings.HasPrefix(f["digest"], "sha256:") || f["sdk"] == "" || f["libraries"] == "" || f["model"] == "" {
			t.Errorf("facts %v", f)
		}
		t.Logf("facts %v", f)
	}
	return s
}

// stories is stories260K as a module, and what "Once upon a time" is to it.
func stories(t *testing.T) (path string, prompt []int32, tok *tokenizer.Tokenizer) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "stories")
	_, err := convert.Llama2C(t.Context(), testfiles.Shared(t, "models", "stories260K.bin"), testfiles.Shared(t, "models", "tok512.bin"), convert.Options{Name: "stories", Version: "1.0.0", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "stories.gguf")
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	tok, err = tokenizer.FromGGUF(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return path, tok.Encode("Once upon a time", tokenizer.Options{Add: true}), tok
}

// Complete language models on Qualcomm's libraries, which emulate: compiled for
// SM8750, they generate the tokens of the core engine. Sixteen-bit floats may
// choose another token where two are nearly as likely; that is reported with the
// margin, and beyond tie is a fault.
func TestLanguageNPU(t *testing.T) {
	libs := os.Getenv("MM_QNN_LIB")
	if libs == "" {
		t.Skip("skipped: MM_QNN_LIB names no folder with Qualcomm's libraries")
	}
	runtimetest.Program(t)
	e := &qnn.Engine{Library: libs}
	story, prompt, tok := stories(t)
	compiled := func(model, out string, places, positions int, layers window.Span) {
		began := time.Now()
		made, err := compile.Language(t.Context(), e, compile.LanguageOptions{Model: model, Chip: sm8750(t), Window: places, Positions: positions, Layers: layers, MinCosine: 0.999, Out: out})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s, %d positions of %d: %.1f s, %d bytes, cosine %.5f", filepath.Base(out), positions, places, time.Since(began).Seconds(), made.Record.Bytes, made.Record.Cosine)
	}
	dir := filepath.Dir(story)
	compiled(story, filepath.Join(dir, "one.bin"), 128, 1, window.Span{})
	compiled(story, filepath.Join(dir, "eight.bin"), 128, 8, window.Span{})
	of := func(path string, names ...string) runtimes.Bundle {
		return runtimes.Bundle{Part: builds.Part{Name: "core", Version: "1.0.0", Type: abi.Core, Files: builds.Formats{"gguf": {filepath.Base(path)}, "qnn": names}}, Files: folder(filepath.Dir(path)), NoDraft: true}
	}
	t.Run("stories", func(t *testing.T) {
		text := same(t, e, of(story, "one.bin", "one.json", "eight.bin", "eight.json"), prompt, 64, 0)
		if said := tok.Decode(text, tokenizer.DecodeOptions{Continued: true}); !strings.HasPrefix(said, ", there was a little girl named Lily.") {
			t.Errorf("it says %q", said)
		} else {
			t.Log("Once upon a time" + said)
		}
	})
	t.Run("core-llm", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "core-llm.gguf")
		data, err := os.ReadFile(filepath.FromSlash("../../catalog/core-llm/core-llm.gguf"))
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		compiled(path, filepath.Join(filepath.Dir(path), "core.bin"), 64, 1, window.Span{})
		same(t, e, of(path, "core.bin", "core.json"), []int32{0, 340, 281, 500, 77, 612}, 12, tie)
		// Its middle as a context, layers 0 and 3 and the head around it in Go.
		compiled(path, filepath.Join(filepath.Dir(path), "middle.bin"), 64, 1, window.Span{First: 1, Count: 2})
		same(t, e, of(path, "middle.bin", "middle.json"), []int32{0, 340, 281, 500, 77, 612}, 12, tie)
	})
	t.Run("conformance", func(t *testing.T) {
		small := filepath.Join(t.TempDir(), "core")
		if err := seed.Write(small, seed.Options{Type: abi.Core, Name: "core", Seed: 3, DModel: 32}); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(small, "core.gguf")
		compiled(path, filepath.Join(small, "core.bin"), 64, 8, window.Span{})
		runtimetest.Run(t, runtimetest.Language{Engine: e, Bundle: of(path, "core.bin", "core.json"), Prompt: []int32{0, 40, 41, 42, 43, 44, 45}}.Cases())
	})
	t.Run("too long", func(t *testing.T) {
		s := begin(t, e, of(story, "one.bin", "one.json"), prompt)
		if err := s.Feed(t.Context(), runtimes.Positions{Tokens: slices.Repeat([]int32{5}, 128)}); !errors.Is(err, runtimes.ErrFull) || s.Len() != len(prompt) {
			t.Errorf("%v, %d positions", err, s.Len())
		}
	})
	t.Run("another digest", func(t *testing.T) {
		data, err := os.ReadFile(filepath.Join(dir, "one.bin"))
		if err == nil {
			data[len(data)-100] ^= 1
			err = os.WriteFile(filepath.Join(dir, "one.bin"), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Open(t.Context(), of(story, "one.bin", "one.json"), runtimes.Limits{})
		if list, ok := diag.From(err); !ok || list[0].Code != diag.QNNUnpaired {
			t.Errorf("a context with a changed bit: %v", err)
		}
	})
}

// tie is a margin of logits that 16-bit floats, or the integers of the engine of
// language models, may turn over.
const tie = 0.25

// same has both engines generate n tokens after a prompt, the NPU's as the other
// generates them, and reports where they would differ.
func same(t *testing.T, e runtimes.Engine, b runtimes.Bundle, prompt []int32, n int, most float64) []int32 {
	t.Helper()
	ours := begin(t, engines.Core{}, b, prompt)
	began := time.Now()
	theirs := begin(t, e, b, prompt)
	reading := time.Since(began)
	began = time.Now()
	var text []int32
	parted, smallest := 0, 1e9
	for i := range n {
		want, margin := next(t, ours)
		got, own := next(t, theirs)
		if smallest = min(smallest, margin); got != want {
			parted++
			t.Logf("token %d is %d, by the engine of language models %d: margins %.4f and %.4f", i, got, want, own, margin)
			if margin > most {
				t.Errorf("token %d differs beyond a tie", i)
			}
		}
		text = append(text, want)
		for _, s := range []runtimes.Sequence{ours, theirs} {
			if err := s.Feed(t.Context(), runtimes.Positions{Tokens: []int32{want}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d of %d tokens equal, smallest margin %.4f; opened and read in %.1f s, %.2f tokens/s in emulation", n-parted, n, smallest, reading.Seconds(), float64(n)/time.Since(began).Seconds())
	return text
}
