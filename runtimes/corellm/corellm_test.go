package corellm_test

import (
	"context"
	"path/filepath"
	"testing"

	"mm/abi"
	"mm/builds"
	"mm/modules/seed"
	"mm/runtimes"
	"mm/runtimes/corellm"
	"mm/runtimes/runtimetest"
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
