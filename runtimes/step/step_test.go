package step_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/window"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/runtimes/step"
)

// folder contains the files of a build.
type folder string

func (f folder) Path(name string) (string, error)               { return filepath.Join(string(f), name), nil }
func (f folder) Open(name string) (*os.File, error)             { return os.Open(filepath.Join(string(f), name)) }
func (f folder) Dir(context.Context, ...string) (string, error) { return string(f), nil }

// engine writes passes of a GGUF file as ONNX and runs them with mm's own engine.
type engine struct {
	engines.ONNX
	window    int
	positions []int
	span      window.Span // computed by a function; the zero value is all
}

func (engine) Can(part builds.Part) error { return engines.Core{}.Can(part) }

func (e engine) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (_ runtimes.Model, err error) {
	path, err := b.Entry(abi.GGUF)
	if err != nil {
		return nil, err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	opt := step.Options{Model: f, Window: e.window, Context: b.Tokens.MaxSeq, Time: l.Time}
	l.Time = 0
	defer func() {
		if err != nil {
			for _, p := range opt.Passes {
				err = errors.Join(err, p.Function.Close())
			}
			err = errors.Join(err, f.Close())
		}
	}()
	for _, n := range e.positions {
		name := fmt.Sprintf("%s.%d.onnx", path, n)
		m, err := window.Step(f, window.StepOptions{Positions: n, Window: e.window, Span: e.span})
		if err == nil {
			err = fsx.Replace(name, 0o600, func(w io.Writer) error { _, err := onnx.Write(w, m); return err })
		}
		if err != nil {
			return nil, err
		}
		part := builds.Part{Name: "pass", Type: abi.Encoder, Files: builds.Formats{"onnx": {filepath.Base(name)}}}
		p, err := e.ONNX.Open(ctx, runtimes.Bundle{Part: part, Files: folder(filepath.Dir(name))}, l)
		if err != nil {
			return nil, err
		}
		all, err := step.Around(ctx, f, step.Record{Window: e.window, Positions: n, Span: e.span}, p.(runtimes.Function), engines.ONNXFunction)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		opt.Passes = append(opt.Passes, step.Pass{Positions: n, Function: all})
	}
	return step.New(opt)
}

func bundle(path string) runtimes.Bundle {
	return runtimes.Bundle{
		Part:  builds.Part{Name: "core", Version: "0.1.0", Type: abi.Core, Files: builds.Formats{"gguf": {filepath.Base(path)}}},
		Files: folder(filepath.Dir(path)), NoDraft: true,
	}
}

// seeded writes a small model of random weights.
func seeded(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "core")
	if err := seed.Write(dir, seed.Options{Type: abi.Core, Name: "core", Seed: 3, DModel: 64}); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "core.gguf")
}

func TestConformance(t *testing.T) {
	path := seeded(t)
	for name, positions := range map[string][]int{"one at a time": {1}, "four": {4}, "five and one": {5, 1}} {
		t.Run(name, func(t *testing.T) {
			runtimetest.Run(t, runtimetest.Language{Engine: engine{window: 72, positions: positions}, Bundle: bundle(path), Prompt: []int32{0, 40, 41, 42, 43, 44, 45}}.Cases())
		})
	}
}

// Layers computed by a function between layers computed elsewhere form a language model with the same text
// as the whole; a span out of range is refused.
func TestMiddle(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: the suite of engines for a span of layers")
	}
	path := filepath.Join(t.TempDir(), "core-llm.gguf")
	if err := os.CopyFS(filepath.Dir(path), os.DirFS(filepath.FromSlash("../../catalog/core-llm"))); err != nil {
		t.Fatal(err)
	}
	prompt := []int32{0, 340, 281, 500, 77, 612}
	want, margins := continuation(t, engine{window: 64, positions: []int{1, 4}}, bundle(path), prompt, 12)
	for _, span := range []window.Span{{First: 1, Count: 2}, {Count: 1}, {First: 3, Count: 1}, {First: 2, Count: 1}} {
		got, ownMargins := continuation(t, engine{window: 64, positions: []int{1, 4}, span: span}, bundle(path), prompt, 12)
		if !slices.Equal(got, want) {
			t.Errorf("layers %d to %d: %v, the whole %v", span.First, span.End()-1, got, want)
		}
		for i := range ownMargins {
			if math.Abs(ownMargins[i]-margins[i]) > 1e-3 {
				t.Errorf("layers %d to %d: token %d has a margin of %v, of the whole %v", span.First, span.End()-1, i, ownMargins[i], margins[i])
			}
		}
	}
	runtimetest.Run(t, runtimetest.Language{Engine: engine{window: 64, positions: []int{4}, span: window.Span{First: 1, Count: 2}}, Bundle: bundle(path), Prompt: prompt}.Cases())
	for _, span := range []window.Span{{First: 3, Count: 2}, {First: -1, Count: 2}, {First: 2}} {
		if m, err := (engine{window: 64, positions: []int{4}, span: span}).Open(t.Context(), bundle(path), runtimes.Limits{}); err == nil || !strings.Contains(err.Error(), "out of range 4") {
			t.Errorf("%+v: %v", span, err)
			if err == nil {
				m.Close()
			}
		}
	}
}

// continuation returns the continuation of a prompt, and the margin of each token over the next best.
func continuation(t *testing.T, e runtimes.Engine, b runtimes.Bundle, prompt []int32, n int) (ids []int32, margins []float64) {
	t.Helper()
	m, err := e.Open(t.Context(), b, runtimes.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.(runtimes.Language).NewSequence(t.Context(), runtimes.SequenceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	next := prompt
	for range n {
		if err := s.Feed(t.Context(), runtimes.Positions{Tokens: next}); err != nil {
			t.Fatal(err)
		}
		logits, err := s.(runtimes.Scorer).Logits(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		id := int32(slices.Index(logits, slices.Max(logits)))
		slices.Sort(logits)
		ids, margins = append(ids, id), append(margins, float64(logits[len(logits)-1]-logits[len(logits)-2]))
		next = []int32{id}
	}
	return ids, margins
}

// shaped writes a model of random weights.
func shaped(t *testing.T, name string) string {
	t.Helper()
	s := arch.Shape{
		Arch: name, Context: 128, Layers: 4, Width: 64, Heads: 4, KVHeads: 2, HeadDim: 32, Hidden: 96, Epsilon: 1e-5,
		Rope: arch.Rope{Dims: 32, Base: 10000, OriginalContext: 128, ExtFactor: -1},
	}
	s.Rope.Halves = s.Style().Halves
	switch name {
	case "llama": // as in Mistral
		s.Window, s.Windowed = 9, []bool{true, true, true, true}
	case "gemma3":
		local := s.Rope
		local.Base = 100
		s.Window, s.Windowed, s.Local, s.Rope.Base = 7, []bool{true, true, false, true}, &local, 1e6
	case "phi3":
		s.Rope.Scaling, s.Rope.Factor = "linear", 4
	case "smollm3":
		s.Unrotated = []bool{false, true, false, true}
	case "granite":
		s.EmbeddingScale, s.ResidualScale, s.AttentionScale, s.LogitDivisor = 3, 0.4, 0.2, 2
	case "gemma2":
		s.Window, s.Windowed, s.AttentionCap, s.LogitCap = 7, []bool{true, false, true, false}, 50, 30
	}
	dir := filepath.Join(t.TempDir(), "core")
	if err := seed.Write(dir, seed.Options{Type: abi.Core, Name: "core", Seed: 3, Shape: &s}); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "core.gguf")
}

// Passes of every architecture, also with a middle span, compute the logits of the backend
// core, beyond the windows of layers that have one.
func TestArchitectures(t *testing.T) {
	prompt := []int32{3, 40, 41, 42, 43, 90, 45, 100, 7, 8, 9}
	for _, name := range []string{"llama", "qwen2", "qwen3", "smollm3", "phi3", "gemma", "gemma2", "gemma3", "granite", "olmo2", "stablelm"} {
		t.Run(name, func(t *testing.T) {
			path := shaped(t, name)
			want := logits(t, engines.Core{}, path, prompt)
			for _, e := range []engine{{window: 32, positions: []int{1, 4}}, {window: 32, positions: []int{3}, span: window.Span{First: 1, Count: 2}}} {
				got := logits(t, e, path, prompt)
				most, diff := 0.0, 0.0
				for i := range want {
					most, diff = max(most, math.Abs(float64(want[i]))), max(diff, math.Abs(float64(got[i]-want[i])))
				}
				if !(diff <= 2e-3*most) { // keys and values of the backend core have 16 bits
					t.Errorf("%+v: logits differ by %v of %v", e, diff, most)
				}
			}
		})
	}
}

// logits returns the logits after tokens.
func logits(t *testing.T, e runtimes.Engine, path string, tokens []int32) []float32 {
	t.Helper()
	m, err := e.Open(t.Context(), bundle(path), runtimes.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.(runtimes.Language).NewSequence(t.Context(), runtimes.SequenceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Feed(t.Context(), runtimes.Positions{Tokens: tokens}); err != nil {
		t.Fatal(err)
	}
	out, err := s.(runtimes.Scorer).Logits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A model of a story, written as passes of 1 and of 8 positions, generates the same tokens as the engine of
// language models.
func TestStories(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stories")
	if _, err := convert.Llama2C(t.Context(), testfiles.Shared(t, "models", "stories260K.bin"), testfiles.Shared(t, "models", "tok512.bin"), convert.Options{Name: "stories", Version: "1.0.0", Dir: dir}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "stories.gguf")
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.FromGGUF(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	prompt := tok.Encode("Once upon a time", tokenizer.Options{Add: true})
	want, _ := continuation(t, engines.Core{}, bundle(path), prompt, 90)
	got, margins := continuation(t, engine{window: 128, positions: []int{1, 8}}, bundle(path), prompt, 90)
	if !slices.Equal(got, want) {
		t.Errorf("%v, by the engine of language models %v", got, want)
	}
	text := tok.Decode(got, tokenizer.DecodeOptions{Continued: true})
	if !strings.HasPrefix(text, ", there was a little girl named Lily") {
		t.Errorf("it says %q", text)
	}
	t.Logf("%d tokens, smallest margin %.3f: %s", len(got), slices.Min(margins), text)
}

// The shipped core has weights of 8 bits: its engine computes in integers, a pass in floats. A token may
// differ only if two are nearly as likely.
func TestCore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "core-llm.gguf")
	if err := os.CopyFS(filepath.Dir(path), os.DirFS(filepath.FromSlash("../../catalog/core-llm"))); err != nil {
		t.Fatal(err)
	}
	prompt := []int32{0, 340, 281, 500, 77, 612}
	want, margins := continuation(t, engines.Core{}, bundle(path), prompt, 24)
	got, _ := continuation(t, engine{window: 64, positions: []int{1}}, bundle(path), prompt, 24)
	for i := range want {
		if got[i] != want[i] {
			if margins[i] > 0.25 {
				t.Errorf("token %d is %d, and %d by the engine of language models with a margin of %.3f", i, got[i], want[i], margins[i])
			}
			t.Logf("token %d differs, where the margin is %.3f", i, margins[i])
			break
		}
	}
}

// odd is a function that changes the results of another.
type odd struct {
	runtimes.Function
	change func(map[string]runtimes.Tensor)
}

func (o odd) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	out, err := o.Function.Run(ctx, in)
	if err == nil {
		o.change(out)
	}
	return out, err
}

// Invalid results are refused and leave the sequence unchanged.
func TestOddResults(t *testing.T) {
	path := seeded(t)
	m, err := engine{window: 16, positions: []int{2}}.Open(t.Context(), bundle(path), runtimes.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	pass := step.PassesOf(m)[0]
	for name, c := range map[string]struct {
		change func(map[string]runtimes.Tensor)
		want   string
	}{
		"no logits":  {func(out map[string]runtimes.Tensor) { delete(out, window.Logits) }, window.Logits},
		"other keys": {func(out map[string]runtimes.Tensor) { out[window.Key(0)] = out[window.States] }, window.Key(0)},
		"cut values": {func(out map[string]runtimes.Tensor) {
			v := out[window.Value(0)]
			v.Data = v.Data[4:]
			out[window.Value(0)] = v
		}, window.Value(0)},
		"NaN logits": {func(out map[string]runtimes.Tensor) { nan(out[window.Logits]) }, "is NaN"},
	} {
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		broken := false
		l, err := step.New(step.Options{Model: f, Window: 16, Passes: []step.Pass{{Positions: 2, Function: odd{pass.Function, func(out map[string]runtimes.Tensor) {
			if broken {
				c.change(out)
			}
		}}}}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.NewSequence(t.Context(), runtimes.SequenceOptions{})
		if err == nil {
			err = s.Feed(t.Context(), runtimes.Positions{Tokens: []int32{1, 2, 3}})
		}
		if err != nil {
			t.Fatal(err)
		}
		before, err := s.(runtimes.Scorer).Logits(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		broken = true
		if err := s.Feed(t.Context(), runtimes.Positions{Tokens: []int32{4}}); err == nil || !strings.Contains(err.Error(), c.want) || s.Len() != 3 {
			t.Errorf("%s: %v, %d positions", name, err, s.Len())
		}
		broken = false
		if after, err := s.(runtimes.Scorer).Logits(t.Context()); err != nil || !slices.Equal(after, before) {
			t.Errorf("%s: other logits behind it, %v", name, err)
		}
		f.Close()
	}
}

func nan(t runtimes.Tensor) {
	for i := 0; i < len(t.Data); i += 4 {
		binary.LittleEndian.PutUint32(t.Data[i:], math.Float32bits(float32(math.NaN())))
	}
}

func TestRefused(t *testing.T) {
	f, err := gguf.Open(seeded(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for want, opt := range map[string]step.Options{
		"bad passes: 0": {Window: 16}, "window of 0": {}, "window of 100000": {Window: 100000},
		"bad passes: 1 for a window of 4": {Window: 4, Passes: []step.Pass{{Positions: 5}}},
	} {
		opt.Model = f
		if _, err := step.New(opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
