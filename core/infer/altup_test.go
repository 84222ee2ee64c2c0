package infer

import (
	"slices"
	"testing"

	"mm-abi.org/mm/core/gguf/arch"
)

// TestResidualStreams: vectors have the numbers of token 0 for each layer, the last
// position is computed again with those of its token, and only layers whose keys are not
// shared take memory.
func TestResidualStreams(t *testing.T) {
	cfg := small("gemma3n")
	weights := weightsOf(cfg, 1)
	s := open(t, cfg, weights, SessionOptions{KV: "f32"})
	read := func(feed func() error) []float32 {
		t.Helper()
		s.Truncate(0)
		if err := feed(); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(s.Logits())
	}
	for _, token := range []int32{0, 5} {
		vectors, err := s.Model().Embed([]int32{token})
		if err != nil {
			t.Fatal(err)
		}
		a := read(func() error { return s.Feed(t.Context(), []int32{token}) })
		b := read(func() error { return s.FeedVectors(t.Context(), vectors) })
		if slices.Equal(a, b) != (token == 0) {
			t.Errorf("token %d: its vector gives the same logits: %v", token, slices.Equal(a, b))
		}
	}
	text := draw(20, cfg.Vocab)
	want := read(func() error { return s.Feed(t.Context(), text) })
	if err := s.Feed(t.Context(), []int32{7}); err != nil {
		t.Fatal(err)
	}
	s.Truncate(len(text))
	if err := s.Recall(t.Context()); err != nil || !slices.Equal(s.Logits(), want) {
		t.Errorf("recalled logits are the same: %v, %v", slices.Equal(s.Logits(), want), err)
	}
	if n := s.Model().cacheShape().Layers; n != 3 {
		t.Errorf("layers with keys: got %d, want 3 of %d", n, cfg.Layers)
	}
	cfg.Altup.Cutoffs[2] = arch.Dense
	other := open(t, cfg, weights, SessionOptions{KV: "f32"})
	if err := other.Feed(t.Context(), text); err != nil || slices.Equal(other.Logits(), want) {
		t.Error("a layer without a cutoff changes nothing", err)
	}
}

// TestStreamsOfFingerprint: every tensor of residual streams counts.
func TestStreamsOfFingerprint(t *testing.T) {
	cfg := small("gemma3n")
	sum := func(w Memory) [32]byte {
		m, err := New(cfg, w, Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		f, err := m.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	want := sum(weightsOf(cfg, 1))
	names := []string{"altup_proj.weight", "altup_unembd_proj.weight", arch.PerLayerEmbedding, "per_layer_model_proj.weight", "per_layer_proj_norm.weight"}
	for _, part := range []string{"inp_gate", "proj", "post_norm", "altup_correct_coef", "altup_correct_scale", "altup_predict_coef", "altup_router", "altup_router_norm", "laurel_l", "laurel_r", "laurel_post_norm"} {
		names = append(names, "blk.1."+part+".weight")
	}
	for _, name := range names {
		w := weightsOf(cfg, 1)
		w[name].Data[0]++
		if sum(w) == want {
			t.Errorf("another tensor %s has the same fingerprint", name)
		}
	}
}
