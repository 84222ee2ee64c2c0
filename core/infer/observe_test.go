package infer

import (
	"slices"
	"testing"
)

// TestStreams: the stream before layer 0 holds the embeddings, the one after the
// last layer is that before the output norm, and a model of fewer layers
// has the same streams.
func TestStreams(t *testing.T) {
	cfg := small("qwen3")
	weights := weightsOf(cfg, 2)
	s := open(t, cfg, weights, SessionOptions{KV: "f32", Hidden: true})
	m, n := s.Model(), maxBatch+20
	tokens := draw(n, cfg.Vocab)
	got, err := m.Streams(t.Context(), tokens, 0, 1, cfg.Layers, 1)
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := m.Embed(tokens)
	if err != nil || !slices.Equal(got[0], embedded) {
		t.Errorf("layer 0: got %d numbers, %v, want the embeddings", len(got[0]), err)
	}
	if len(got[1]) != n*cfg.Width || !slices.Equal(got[1], got[3]) || slices.Equal(got[1], got[0]) {
		t.Errorf("layer 1: got %d numbers", len(got[1]))
	}
	if err := s.Feed(t.Context(), tokens); err != nil {
		t.Fatal(err)
	}
	want, err := s.Hidden(0, n)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		row := slices.Clone(got[2][i*cfg.Width : (i+1)*cfg.Width])
		if m.outputNorm.apply(row, row, cfg.Epsilon); !slices.Equal(row, want[i*cfg.Width:(i+1)*cfg.Width]) {
			t.Fatalf("row %d after the last layer is not the state before the output norm", i)
		}
	}
	one := cfg
	one.Layers = 1
	fewer := Memory{}
	for name, a := range weights {
		if !slices.ContainsFunc([]string{"blk.1.", "blk.2.", "blk.3."}, func(p string) bool { return len(name) > len(p) && name[:len(p)] == p }) {
			fewer[name] = a
		}
	}
	last, err := open(t, one, fewer, SessionOptions{}).Model().Streams(t.Context(), tokens, 1)
	if err != nil || !slices.Equal(last[0], got[1]) {
		t.Errorf("the output of a model of one layer is not the input of layer 1: %v", err)
	}
	for _, layer := range []int{-1, cfg.Layers + 1} {
		if _, err := m.Streams(t.Context(), tokens, layer); err == nil {
			t.Errorf("no error for layer %d", layer)
		}
	}
}
