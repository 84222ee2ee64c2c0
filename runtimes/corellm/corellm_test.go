package corellm_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/corellm"
	"mm-abi.org/mm/runtimes/runtimetest"
)

func weights(t *testing.T) runtimes.Weights {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "core-llm")
	if err := seed.Write(dir, seed.Options{Type: abi.Core, Name: "core-llm", Seed: 3, DModel: 64}); err != nil {
		t.Fatal(err)
	}
	return runtimes.Weights{
		Part:  builds.Part{Name: "core-llm", Version: "0.1.0", Type: abi.Core},
		Paths: map[string]string{"gguf": filepath.Join(dir, "core-llm.gguf")},
		KV:    abi.Int8, Tokens: abi.TokenContract{DModel: 64, MaxSeq: 200},
	}
}

func TestConformance(t *testing.T) {
	runtimetest.Test(t, runtimetest.Subject{Backend: corellm.Backend{}, Weights: weights(t)})
}

// Vectors stand where tokens would, and one of another width is refused.
func TestVectors(t *testing.T) {
	ctx := context.Background()
	g, err := corellm.Backend{}.OpenGenerator(ctx, weights(t), runtimes.Settings{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if n, err := g.Feed(ctx, runtimes.Segment{Vectors: [][]float32{make([]float32, 64), make([]float32, 64)}}); n != 2 || err != nil {
		t.Errorf("two vectors took %d places, %v", n, err)
	}
	if _, err := g.Feed(ctx, runtimes.Segment{Vectors: [][]float32{make([]float32, 32)}}); err == nil {
		t.Error("a vector of another width fitted")
	}
}

func TestWidthOfAnotherBuild(t *testing.T) {
	w := weights(t)
	w.Tokens.DModel = 128
	if _, err := (corellm.Backend{}).OpenGenerator(context.Background(), w, runtimes.Settings{}); err == nil {
		t.Error("a core of d_model 64 opened for a build of 128")
	}
}

// A draft core changes nothing about what is said, and an adapter is applied
// or named as what is missing.
func TestDraftAndAdapters(t *testing.T) {
	ctx := context.Background()
	say := func(w runtimes.Weights) []int32 {
		t.Helper()
		g, err := corellm.Backend{}.OpenGenerator(ctx, w, runtimes.Settings{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		if _, err := g.Feed(ctx, runtimes.Segment{Text: "a prompt"}); err != nil {
			t.Fatal(err)
		}
		var ids []int32
		if _, err := g.Generate(ctx, runtimes.Generation{MaxTokens: 40}, func(tok runtimes.Token) error {
			ids = append(ids, tok.ID)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return ids
	}
	module := func(typ abi.ModuleType, width int) map[string]string {
		t.Helper()
		name := string(typ)
		dir := filepath.Join(t.TempDir(), name)
		if err := seed.Write(dir, seed.Options{Type: typ, Name: name, Seed: 4, DModel: width}); err != nil {
			t.Fatal(err)
		}
		return map[string]string{"gguf": filepath.Join(dir, name+".gguf")}
	}
	w := weights(t)
	want := say(w)
	w.Draft = &runtimes.Draft{Paths: module(abi.DraftCore, 32), Tokens: 3}
	if d := cmp.Diff(want, say(w)); d != "" {
		t.Errorf("with a draft core (-want +got)\n%s", d)
	}
	w.Adapters = []runtimes.Adapter{{Paths: module(abi.Adapter, 64), Scale: 1}}
	if d := cmp.Diff(want, say(w)); d != "" { // a seeded adapter changes nothing
		t.Errorf("with an adapter (-want +got)\n%s", d)
	}
	for name, change := range map[string]func(*runtimes.Weights){
		"draft without GGUF":   func(w *runtimes.Weights) { w.Draft = &runtimes.Draft{} },
		"draft of no file":     func(w *runtimes.Weights) { w.Draft.Paths = map[string]string{"gguf": "none"} },
		"adapter without GGUF": func(w *runtimes.Weights) { w.Adapters = []runtimes.Adapter{{Scale: 1}} },
		"adapter of a wider model": func(w *runtimes.Weights) {
			w.Adapters = []runtimes.Adapter{{Paths: module(abi.Adapter, 128), Scale: 1}}
		},
	} {
		bad := w
		bad.Draft = &runtimes.Draft{Paths: w.Draft.Paths}
		change(&bad)
		if g, err := (corellm.Backend{}).OpenGenerator(ctx, bad, runtimes.Settings{}); err == nil {
			g.Close()
			t.Errorf("%s: no error", name)
		}
	}
}
