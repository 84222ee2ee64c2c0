package engines_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
)

func llamaBundle(path string) runtimes.Bundle {
	return runtimes.Bundle{
		Part:  builds.Part{Name: "m", Version: "1.0.0", Type: abi.Core, Files: builds.Formats{"gguf": {filepath.Base(path)}}},
		Files: folder(filepath.Dir(path)),
	}
}

func coreModule(t testing.TB) runtimes.Bundle {
	return llamaBundle(filepath.Join(testfiles.Root(t), "catalog", "core-llm", "core-llm.gguf"))
}

var llamaPrompt = []int32{1, 40, 41, 42, 43, 44, 45}

func TestLlamaCPPConformance(t *testing.T) {
	b := coreModule(t)
	b.Tokens.MaxSeq = 200
	runtimetest.Run(t, runtimetest.Language{Engine: engines.LlamaCPP{Home: runtimetest.Home(t, native.LlamaCPP)}, Bundle: b, Prompt: llamaPrompt}.Cases())
}

func llamaSay(t *testing.T, e runtimes.Engine, b runtimes.Bundle, opt runtimes.Generation) (ids []int32, logits []float32) {
	t.Helper()
	m, err := e.Open(t.Context(), b, runtimes.Limits{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.(runtimes.Language).NewSequence(t.Context(), runtimes.SequenceOptions{Context: 256})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Feed(t.Context(), runtimes.Positions{Tokens: llamaPrompt}); err != nil {
		t.Fatal(err)
	}
	if logits, err = s.(runtimes.Scorer).Logits(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Generate(t.Context(), opt, func(id int32) error { ids = append(ids, id); return nil }); err != nil {
		t.Fatal(err)
	}
	return ids, logits
}

// The two engines return the same logits except for rounding, and so the same greedy text. Sampled text
// may differ if rounding swaps two tokens of similar probability: the difference is only logged.
func TestSaysWhatCoreSays(t *testing.T) {
	home := runtimetest.Home(t, native.LlamaCPP)
	same := func(t *testing.T, b runtimes.Bundle, n, greedy int, cosine float64) {
		for name, o := range map[string]sample.Options{"greedy": {}, "sampled": {Temperature: 0.8, TopK: 40, TopP: 0.9, Seed: 6}} {
			opt := runtimes.Generation{Options: o, MaxTokens: n}
			want, near := llamaSay(t, engines.Core{}, b, opt)
			got, also := llamaSay(t, engines.LlamaCPP{Home: home}, b, opt)
			equal := 0
			for equal < len(want) && equal < len(got) && want[equal] == got[equal] {
				equal++
			}
			c := alike(near, also)
			t.Logf("%s: the first %d of %d tokens are the same; cosine of the prompt's logits %.7f", name, equal, len(want), c)
			if name == "greedy" && equal < greedy || c < cosine {
				t.Errorf("%s: core says %v, llama.cpp %v", name, want, got)
			}
		}
	}
	t.Run("core-llm", func(t *testing.T) { same(t, coreModule(t), 100, 100, 0.9999) })
	dir := t.TempDir()
	if err := seed.Write(filepath.Join(dir, "s"), seed.Options{Type: abi.Core, Name: "s", Seed: 3, DModel: 64}); err != nil {
		t.Fatal(err)
	}
	t.Run("F32", func(t *testing.T) {
		b := llamaBundle(filepath.Join(dir, "s", "s.gguf"))
		b.KV = abi.FP32
		same(t, b, 100, 100, 0.999999)
	})
	t.Run("SmolLM2", func(t *testing.T) {
		same(t, llamaBundle(testfiles.Native(t, "models", "SmolLM2-135M-Instruct.Q4_1.gguf")), 48, 8, 0.99)
	})
}

// Both engines return the same states of a prompt except for rounding, including vectors, the end of a
// chunk, and after Truncate.
func TestShowsWhatCoreShows(t *testing.T) {
	dir := t.TempDir()
	if err := seed.Write(filepath.Join(dir, "s"), seed.Options{Type: abi.Core, Name: "s", Seed: 3, DModel: 64}); err != nil {
		t.Fatal(err)
	}
	seeded := llamaBundle(filepath.Join(dir, "s", "s.gguf"))
	seeded.KV = abi.FP32
	shown := func(e runtimes.Engine, b runtimes.Bundle) (all [][]float32) {
		m, err := e.Open(t.Context(), b, runtimes.Limits{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		s, err := m.(runtimes.Language).NewSequence(t.Context(), runtimes.SequenceOptions{Context: 256, Hidden: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		vectors, err := m.(runtimes.Embedder).Embed([]int32{50, 51, 52})
		if err != nil {
			t.Fatal(err)
		}
		states := func(in ...runtimes.Positions) {
			if err := s.Feed(t.Context(), in...); err != nil {
				t.Fatal(err)
			}
			x, err := s.(runtimes.Hidden).Hidden(0, s.Len())
			if err != nil || len(x) != s.Len()*m.(runtimes.Language).Shape().Width {
				t.Fatalf("%d numbers of %d positions, %v", len(x), s.Len(), err)
			}
			all = append(all, x)
		}
		states(runtimes.Positions{Tokens: slices.Repeat(llamaPrompt, 20)}, runtimes.Positions{Vectors: vectors}, runtimes.Positions{Tokens: llamaPrompt})
		if err := s.Truncate(9); err != nil {
			t.Fatal(err)
		}
		states(runtimes.Positions{Tokens: llamaPrompt})
		return all
	}
	for name, b := range map[string]runtimes.Bundle{"core-llm": coreModule(t), "F32": seeded} {
		want, got := shown(engines.Core{}, b), shown(engines.LlamaCPP{Home: runtimetest.Home(t, native.LlamaCPP)}, b)
		for i := range want {
			if len(want[i]) != len(got[i]) {
				t.Fatalf("%s: %d numbers, %d numbers", name, len(want[i]), len(got[i]))
			}
			least := 1.0
			width := map[string]int{"core-llm": 256, "F32": 64}[name]
			for from := 0; from < len(want[i]); from += width {
				least = min(least, alike(want[i][from:from+width], got[i][from:from+width]))
			}
			if t.Logf("%s: least cosine of a position %.7f", name, least); least < 0.999 {
				t.Errorf("%s, prompt %d: other states", name, i)
			}
		}
	}
}

// alike returns the cosine of two vectors.
func alike(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

func TestLlamaCPPRefuses(t *testing.T) {
	home := runtimetest.Home(t, native.LlamaCPP)
	ok := coreModule(t)
	good, err := ok.Entry("gguf")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.gguf")
	if err := os.WriteFile(cut, data[:len(data)-40], 0o600); err != nil {
		t.Fatal(err)
	}
	wide := coreModule(t)
	wide.Tokens.DModel = 7
	for name, b := range map[string]runtimes.Bundle{"cut short": llamaBundle(cut), "absent": llamaBundle(cut + "x"), "another width": wide} {
		if m, err := (engines.LlamaCPP{Home: home}).Open(t.Context(), b, runtimes.Limits{}); err == nil {
			m.Close()
			t.Errorf("%s: it opened", name)
		}
	}
	nowhere := func() (string, error) { return t.TempDir(), nil }
	if _, err := (engines.LlamaCPP{Home: nowhere}).Probe(t.Context()); !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("no library: %v", err)
	}
	t.Setenv("MM_NATIVE", filepath.Join(t.TempDir(), "none"))
	if _, err := (engines.LlamaCPP{Home: home}).Probe(t.Context()); !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("no program: %v", err)
	}
	if !slices.Contains(engines.LlamaCPP{}.Aliases(), "gguf") {
		t.Error("graphs call it gguf")
	}
}
