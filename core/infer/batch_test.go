package infer

import (
	"errors"
	"slices"
	"testing"

	"mm-abi.org/mm/core/gguf/arch"
)

// TestFeedBatch: texts of different lengths that join and leave get the logits
// that each gets alone, in every architecture and on any number of threads.
func TestFeedBatch(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	for _, name := range arch.Known() {
		cfg := small(name)
		m, err := New(cfg, weightsOf(cfg, 1), Options{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		one, err := New(cfg, weightsOf(cfg, 1), Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		types := []string{"f16", "f16", "q8_0", "f32", "f16"}
		var together, alone []*Session
		for _, kv := range types {
			for _, x := range []struct {
				m  *Model
				to *[]*Session
			}{{m, &together}, {one, &alone}} {
				s, err := x.m.NewSession(SessionOptions{KV: kv, Hidden: len(*x.to) == 1})
				if err != nil {
					t.Fatal(err)
				}
				*x.to = append(*x.to, s)
			}
		}
		// Tokens of each session in each step.
		for step, lengths := range [][]int{{270, 3, 1, 0, 40}, {1, 1, 1, 300, 1}, {1, 2, 9, 1, 1}, {1, 1, 1, 1, 1}, {0, 1, 0, 1, 300}} {
			var feeds []Feed
			for i, n := range lengths {
				in := Input{Tokens: draw(n+step+i, cfg.Vocab)[:n]}
				feeds = append(feeds, Feed{together[i], []Input{in}})
				if err := alone[i].FeedInputs(t.Context(), in); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.FeedBatch(t.Context(), feeds...); err != nil {
				t.Fatal(err)
			}
			for i := range lengths {
				if !slices.Equal(together[i].Logits(), alone[i].Logits()) || !slices.Equal(together[i].Tokens(), alone[i].Tokens()) {
					t.Fatalf("%s, step %d: session %d differs from its text alone", name, step, i)
				}
			}
		}
		got, err := together[1].Hidden(0, together[1].Len())
		want, err2 := alone[1].Hidden(0, alone[1].Len())
		if err := errors.Join(err, err2); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: states differ from those of the text alone: %v", name, err)
		}
	}
}

// TestFeedBatchAllOrNone: if one session has no room, none is fed.
func TestFeedBatchAllOrNone(t *testing.T) {
	cfg := small("llama")
	s := open(t, cfg, weightsOf(cfg, 1), SessionOptions{})
	full, err := s.Model().NewSession(SessionOptions{Context: 3})
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, cfg, weightsOf(cfg, 1), SessionOptions{})
	for _, c := range []struct {
		feeds []Feed
		ok    bool
	}{
		{[]Feed{{s, []Input{{Tokens: draw(3, 40)}}}, {full, []Input{{Tokens: draw(4, 40)}}}}, false},
		{[]Feed{{s, []Input{{Tokens: draw(3, 40)}}}, {full, []Input{{Tokens: []int32{40}}}}}, false},
		{[]Feed{{s, []Input{{Tokens: draw(3, 40)}}}, {s, []Input{{Tokens: draw(1, 40)}}}}, false},
		{[]Feed{{s, []Input{{Tokens: draw(3, 40)}}}, {other, []Input{{Tokens: draw(1, 40)}}}}, false},
		{[]Feed{{s, []Input{{Tokens: draw(3, 40)}}}, {full, []Input{{Tokens: draw(3, 40)}}}}, true},
	} {
		err := s.Model().FeedBatch(t.Context(), c.feeds...)
		if (err == nil) != c.ok || !c.ok && s.Len()+full.Len() != 0 {
			t.Errorf("%v: %v, %d and %d positions", c.feeds, err, s.Len(), full.Len())
		}
	}
	if s.Len() != 3 || full.Len() != 3 {
		t.Errorf("%d and %d positions, want 3 and 3", s.Len(), full.Len())
	}
}
