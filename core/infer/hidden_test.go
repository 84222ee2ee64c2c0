package infer

import (
	"bytes"
	"math"
	"slices"
	"testing"
)

// TestHidden: the output matrix maps the states to the logits, and the states
// do not depend on batching.
func TestHidden(t *testing.T) {
	cfg := tiny("llama", 10)
	cfg.Context = 600
	w := random(cfg, 4)
	tokens := make([]int32, 300) // more than one batch
	for i := range tokens {
		tokens[i] = int32(i*i) % 10
	}
	batched, single := open(t, cfg, w, SessionOptions{KV: "f32", Hidden: true}), open(t, cfg, w, SessionOptions{KV: "f32", Hidden: true})
	plain := open(t, cfg, w, SessionOptions{KV: "f32"})
	if err := batched.Feed(t.Context(), tokens); err != nil {
		t.Fatal(err)
	}
	if err := plain.Feed(t.Context(), tokens); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(batched.Logits(), plain.Logits()) {
		t.Error("keeping states changes the logits")
	}
	out := w["token_embd.weight"].Data
	for i, token := range tokens {
		if err := single.Feed(t.Context(), []int32{token}); err != nil {
			t.Fatal(err)
		}
		one, err := single.Hidden(i, i+1)
		if err != nil {
			t.Fatal(err)
		}
		many, err := batched.Hidden(i, i+1)
		if err != nil || !slices.Equal(one, many) || len(one) != cfg.Width {
			t.Fatalf("position %d: %v; fed together and alone the states differ", i, err)
		}
		for v, want := range single.Logits() {
			var sum float64
			for c, h := range one {
				sum += float64(h) * float64(out[v*cfg.Width+c])
			}
			if math.Abs(sum-float64(want)) > 1e-3 {
				t.Fatalf("position %d: the state gives logit %d as %v, the session as %v", i, v, sum, want)
			}
		}
	}
	all, err := batched.Hidden(0, 300)
	if err != nil || len(all) != 300*cfg.Width {
		t.Errorf("%d numbers, %v", len(all), err)
	}
	batched.Truncate(10)
	if _, err := batched.Hidden(5, 11); err == nil {
		t.Error("a state of a position that was forgotten")
	}
	if err := batched.Feed(t.Context(), tokens[10:12]); err != nil {
		t.Fatal(err)
	}
	if got, err := batched.Hidden(9, 12); err != nil || !slices.Equal(got, all[9*cfg.Width:12*cfg.Width]) {
		t.Errorf("after Truncate the states differ: %v", err)
	}
	for _, r := range [][2]int{{-1, 1}, {2, 1}, {0, 13}} {
		if _, err := batched.Hidden(r[0], r[1]); err == nil {
			t.Errorf("states of %v", r)
		}
	}
	if _, err := plain.Hidden(0, 1); err == nil {
		t.Error("states that were not kept")
	}
	var b bytes.Buffer
	if err := batched.WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	restored, err := batched.m.NewSession(SessionOptions{KV: "f32", Hidden: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := restored.ReadSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	if err := restored.Feed(t.Context(), tokens[12:13]); err != nil {
		t.Fatal(err)
	}
	if _, err := restored.Hidden(11, 12); err == nil {
		t.Error("a state that the snapshot does not hold")
	}
	if got, err := restored.Hidden(12, 13); err != nil || !slices.Equal(got, all[12*cfg.Width:13*cfg.Width]) {
		t.Errorf("the state behind a snapshot: %v", err)
	}
}

// TestEmbed: a token's vector has the effect of the token.
func TestEmbed(t *testing.T) {
	cfg := tiny("qwen3", 10)
	a, b := open(t, cfg, random(cfg, 4), SessionOptions{}), open(t, cfg, random(cfg, 4), SessionOptions{})
	tokens := []int32{3, 1, 4}
	vectors, err := a.Model().Embed(tokens)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.FeedVectors(t.Context(), vectors); err != nil {
		t.Fatal(err)
	}
	if err := b.Feed(t.Context(), tokens); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.Logits(), b.Logits()) {
		t.Error("vectors and tokens differ")
	}
	if _, err := a.Model().Embed([]int32{10}); err == nil {
		t.Error("a token outside the vocabulary has a vector")
	}
	a.Model().Close()
	if _, err := a.Model().Embed(tokens); err == nil {
		t.Error("a closed model gives vectors")
	}
}
