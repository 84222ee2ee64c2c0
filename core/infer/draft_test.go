package infer

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/gguf/arch"
)

// A grammar that allows nothing after its end gives the same text with a draft,
// whose proposals stop there.
func TestDraftStopsAtTheEnd(t *testing.T) {
	cfg := tiny("llama", 10)
	w := random(cfg, 1)
	var want []int32
	for _, draft := range []bool{false, true} {
		s := open(t, cfg, w, SessionOptions{})
		if err := s.Feed(t.Context(), []int32{1, 2}); err != nil {
			t.Fatal(err)
		}
		opt := GenerateOptions{StopTokens: []int32{3}, MaxTokens: 20, Mask: func(history []int32, logits []float32) error {
			allowed := int32(7)
			switch {
			case slices.Contains(history, 3):
				allowed = -1
			case len(history) >= 5:
				allowed = 3
			}
			for i := range logits {
				if int32(i) != allowed {
					logits[i] = float32(math.Inf(-1))
				}
			}
			return nil
		}}
		if draft {
			opt.Draft = open(t, cfg, w, SessionOptions{})
		}
		var got []int32
		stats, err := s.Generate(t.Context(), opt, func(tok Token) error { got = append(got, tok.ID); return nil })
		if err != nil || stats.Reason != StopToken {
			t.Errorf("draft %v: %+v, %v", draft, stats, err)
		}
		if !draft {
			want = got
		} else if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
}

// An emit function may use the model, with and without a draft.
func TestEmitUsesTheModel(t *testing.T) {
	cfg := tiny("llama", 10)
	w := random(cfg, 1)
	for _, draft := range []bool{false, true} {
		s := open(t, cfg, w, SessionOptions{})
		other, err := s.Model().NewSession(SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Feed(t.Context(), []int32{1, 2}); err != nil {
			t.Fatal(err)
		}
		opt := GenerateOptions{MaxTokens: 5}
		if draft {
			opt.Draft, opt.DraftTokens = open(t, cfg, w, SessionOptions{}), maxDraft
		}
		if _, err := s.Generate(t.Context(), opt, func(Token) error { return other.Feed(context.Background(), []int32{1}) }); err != nil {
			t.Errorf("draft %v: %v", draft, err)
		}
	}
}

// Keys rotated for a short context are not reused in a long one.
func TestSnapshotOfAnotherRotation(t *testing.T) {
	cfg := tiny("llama", 50)
	cfg.Rope.Scaling, cfg.Rope.OriginalContext = "longrope", 32
	w := random(cfg, 1)
	short, long := make([]float32, cfg.Rope.Dims/2), make([]float32, cfg.Rope.Dims/2)
	for i := range short {
		short[i], long[i] = 1, 4
	}
	w[arch.RopeShort], w[arch.RopeLong] = Array{[]int{len(short)}, short}, Array{[]int{len(long)}, long}
	m, err := New(cfg, w, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	session := func(context int) *Session {
		s, err := m.NewSession(SessionOptions{Context: context})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a := session(32)
	if err := a.Feed(t.Context(), []int32{1, 2, 3, 4}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := a.WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	if err := session(64).ReadSnapshot(bytes.NewReader(b.Bytes())); !errors.Is(err, ErrSnapshot) {
		t.Errorf("into a long context: %v", err)
	}
	if err := session(24).ReadSnapshot(bytes.NewReader(b.Bytes())); err != nil {
		t.Errorf("into another short context: %v", err)
	}
}

// Limits apply to products as well.
func TestConfigProducts(t *testing.T) {
	c := tiny("llama", 10)
	c.Heads, c.KVHeads, c.HeadDim, c.Rope.Dims = 4096, 4096, 1024, 1024
	if c.Check() == nil {
		t.Error("heads of four million numbers")
	}
}
