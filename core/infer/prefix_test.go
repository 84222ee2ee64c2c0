package infer

import (
	"bytes"
	"slices"
	"testing"
)

// pair returns a model that shares keys and values and one that does not.
func pair(t *testing.T, opt Options) (shares, alone *Model) {
	t.Helper()
	cfg := small("llama")
	cfg.Context = 1024
	for _, m := range []**Model{&shares, &alone} {
		var err error
		if *m, err = New(cfg, weightsOf(cfg, 1), opt); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*m).Close() })
		opt.Prefixes = -1
	}
	return shares, alone
}

func session(t *testing.T, m *Model, opt SessionOptions) *Session {
	t.Helper()
	s, err := m.NewSession(opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read feeds both and compares the logits.
func read(t *testing.T, what string, shares, alone *Session, tokens []int32) {
	t.Helper()
	for _, s := range []*Session{shares, alone} {
		if err := s.Feed(t.Context(), tokens); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	if !slices.Equal(shares.Logits(), alone.Logits()) || !slices.Equal(shares.Tokens(), alone.Tokens()) {
		t.Errorf("%s: the logits differ", what)
	}
}

// TestShare: a session takes what another computed, of a complete chunk and of a
// part of one, and neither changes the other afterwards.
func TestShare(t *testing.T) {
	for _, kv := range []string{"f16", "q8_0", "f32"} {
		for _, n := range []int{leastShare, 255, 256, 257, 300, 600} {
			m, alone := pair(t, Options{Threads: 1})
			opt := SessionOptions{KV: kv}
			text := draw(n, 40)
			a, a1 := session(t, m, opt), session(t, alone, opt)
			read(t, "first", a, a1, slices.Concat(text, draw(leastKeep, 40)))
			b, b1 := session(t, m, opt), session(t, alone, opt)
			read(t, "second", b, b1, slices.Concat(text, []int32{39, 38}))
			if b.Shared() != n || a.Shared() != 0 {
				t.Errorf("%s, %d positions: %d and %d are shared", kv, n, a.Shared(), b.Shared())
			}
			read(t, "first again", a, a1, draw(40, 40))
			for _, s := range []*Session{a, a1} {
				s.Truncate(n - 20)
			}
			read(t, "first, changed", a, a1, draw(50, 40))
			read(t, "second again", b, b1, draw(70, 40))
			b.Close()
			c, c1 := session(t, m, opt), session(t, alone, opt)
			read(t, "third", c, c1, slices.Concat(text, []int32{39, 38}, draw(70, 40)[:69], []int32{1, 2}))
			if c.Shared() != n+71 {
				t.Errorf("%s: %d positions of a closed session are shared, want %d", kv, c.Shared(), n+71)
			}
			read(t, "first once more", a, a1, draw(20, 40))
		}
	}
}

// TestShareInFlight: of texts that arrive together, one computes their common
// beginning.
func TestShareInFlight(t *testing.T) {
	m, alone := pair(t, Options{Threads: 1})
	text := draw(500, 40)
	var feeds []Feed
	for i := range int32(5) {
		feeds = append(feeds, Feed{session(t, m, SessionOptions{}), []Input{{Tokens: slices.Concat(text, draw(20, 40)[:i], []int32{i + 10})}}})
	}
	if err := m.FeedBatch(t.Context(), feeds...); err != nil {
		t.Fatal(err)
	}
	for i, f := range feeds {
		s := session(t, alone, SessionOptions{})
		if err := s.FeedInputs(t.Context(), f.Inputs...); err != nil || !slices.Equal(s.Logits(), f.Session.Logits()) {
			t.Errorf("text %d differs: %v", i, err)
		}
		if got := f.Session.Shared(); i > 0 && got < 500 || i == 0 && got != 0 {
			t.Errorf("text %d shares %d positions", i, got)
		}
	}
}

// TestNotShared: what differs in the type of keys and values, is too short or
// has no room is computed.
func TestNotShared(t *testing.T) {
	text := draw(300, 40)
	for name, c := range map[string]struct {
		prefixes int
		first    SessionOptions
		second   SessionOptions
		n, want  int
		after    int
		mutual   bool
	}{
		"same":       {want: 299, n: 300},
		"another kv": {first: SessionOptions{KV: "q8_0"}, n: 300},
		"hidden":     {second: SessionOptions{Hidden: true}, n: 300},
		"short":      {n: leastShare},
		"long":       {n: leastShare + 1, want: leastShare},
		"off":        {prefixes: -1, n: 300},
		"no room":    {prefixes: 1, n: 300},
		"mutual":     {n: 300, mutual: true, after: 100, want: 100},
		"vectors":    {n: 300, after: 100, want: 100},
	} {
		m, _ := pair(t, Options{Threads: 1, Prefixes: c.prefixes})
		a, b := session(t, m, c.first), session(t, m, c.second)
		in := []Input{{Tokens: text}}
		if c.mutual {
			in = []Input{{Tokens: text[:c.after]}, {Tokens: text[c.after:], Mutual: true}}
		} else if c.after > 0 {
			v, err := m.Embed(text[c.after:])
			if err != nil {
				t.Fatal(err)
			}
			in = []Input{{Tokens: text[:c.after]}, {Vectors: v}}
		}
		if err := a.FeedInputs(t.Context(), in...); err != nil {
			t.Fatal(err)
		}
		if err := b.Feed(t.Context(), text[:c.n]); err != nil || b.Shared() != c.want {
			t.Errorf("%s: %d positions are shared, want %d, %v", name, b.Shared(), c.want, err)
		}
	}
}

// TestPrefixesLimit: the least recently used texts are dropped.
func TestPrefixesLimit(t *testing.T) {
	m, _ := pair(t, Options{Threads: 1})
	chunk := session(t, m, SessionOptions{}).cache.ChunkBytes()
	m.prefixes.limit = 2 * chunk
	texts := [][]int32{draw(100, 40), draw(101, 40), draw(102, 40)}
	for i := range texts {
		texts[i][0] = int32(i)
	}
	shared := func(i int) int {
		s := session(t, m, SessionOptions{})
		if err := s.Feed(t.Context(), texts[i]); err != nil {
			t.Fatal(err)
		}
		return s.Shared()
	}
	for _, c := range []struct{ text, want int }{{0, 0}, {1, 0}, {0, 99}, {2, 0}, {0, 99}, {1, 0}} {
		if got := shared(c.text); got != c.want {
			t.Errorf("text %d shares %d positions, want %d", c.text, got, c.want)
		}
	}
	if n := m.prefixes.bytes(); n > m.prefixes.limit {
		t.Errorf("%d bytes kept, limit %d", n, m.prefixes.limit)
	}
}

// TestShareSnapshot: a snapshot of shared positions restores to the same text,
// and writing it changes no other session.
func TestShareSnapshot(t *testing.T) {
	m, alone := pair(t, Options{Threads: 1})
	text := draw(300, 40)
	a, a1 := session(t, m, SessionOptions{}), session(t, alone, SessionOptions{})
	read(t, "first", a, a1, text)
	b, b1 := session(t, m, SessionOptions{}), session(t, alone, SessionOptions{})
	read(t, "second", b, b1, append(slices.Clone(text[:290]), 3))
	for _, s := range []*Session{a, a1} {
		s.Truncate(280)
	}
	var got, want bytes.Buffer
	if a.WriteSnapshot(&got) != nil || a1.WriteSnapshot(&want) != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Error("snapshots differ")
	}
	read(t, "second again", b, b1, []int32{4, 5})
	c, c1 := session(t, m, SessionOptions{}), session(t, alone, SessionOptions{})
	read(t, "third", c, c1, append(slices.Clone(text[:295]), 3))
}
