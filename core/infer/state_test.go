package infer

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"mm-abi.org/mm/core/gguf/arch"
)

// recurrent lists the architectures with layers that have a state.
var recurrent = []string{"lfm2", "lfm2moe", "mamba2", "granitehybrid"}

// logitsOf returns the logits after each token, read alone.
func logitsOf(t *testing.T, m *Model, tokens []int32) [][]float32 {
	t.Helper()
	s, err := m.NewSession(SessionOptions{KV: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	var out [][]float32
	for _, k := range tokens {
		if err := s.Feed(t.Context(), []int32{k}); err != nil {
			t.Fatal(err)
		}
		out = append(out, slices.Clone(s.Logits()))
	}
	return out
}

func stateModel(t *testing.T, name string, opt Options) *Model {
	t.Helper()
	cfg := small(name)
	m, err := New(cfg, weightsOf(cfg, 1), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestStateCut: a session that is cut anywhere goes on as one that never had the
// rest, in one reading or in many, and Recall finds the same logits.
func TestStateCut(t *testing.T) {
	for _, name := range recurrent {
		m := stateModel(t, name, Options{Threads: 2, Prefixes: -1})
		tokens := draw(200, m.cfg.Vocab)
		want := logitsOf(t, m, tokens)
		s, err := m.NewSession(SessionOptions{KV: "f32"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Feed(t.Context(), tokens[:150]); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{149, 150, 100, 1, 0, 120} {
			if err := s.Feed(t.Context(), tokens[s.Len():max(n+1, s.Len()+1)]); err != nil {
				t.Fatal(err)
			}
			if err := s.Feed(t.Context(), []int32{3, 4, 5}); err != nil {
				t.Fatal(err)
			}
			s.Truncate(n)
			if s.Len() != n {
				t.Fatalf("%s: cut to %d, want %d", name, s.Len(), n)
			}
			if n > 0 {
				if err := s.Recall(t.Context()); err != nil || s.Len() != n || !slices.Equal(s.Logits(), want[n-1]) {
					t.Errorf("%s: recalled after %d of %d: %v", name, n, s.Len(), err)
				}
			}
			if err := s.Feed(t.Context(), tokens[n:n+40]); err != nil || !slices.Equal(s.Logits(), want[n+39]) {
				t.Errorf("%s: cut to %d: other logits, %v", name, n, err)
			}
		}
	}
}

// TestStateBatch: sessions in one batch have the bits that they have alone.
func TestStateBatch(t *testing.T) {
	for _, name := range recurrent {
		m := stateModel(t, name, Options{Threads: 2, Prefixes: -1})
		var feeds []Feed
		var want [][]float32
		for i := range 5 {
			tokens := draw(20+17*i, m.cfg.Vocab)
			want = append(want, logitsOf(t, m, tokens)[len(tokens)-1])
			s, err := m.NewSession(SessionOptions{KV: "f32"})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Feed(t.Context(), tokens[:i]); err != nil {
				t.Fatal(err)
			}
			feeds = append(feeds, Feed{s, []Input{{Tokens: tokens[i:]}}})
		}
		if err := m.FeedBatch(t.Context(), feeds...); err != nil {
			t.Fatal(err)
		}
		for i, f := range feeds {
			if !slices.Equal(f.Session.Logits(), want[i]) {
				t.Errorf("%s: session %d differs in a batch", name, i)
			}
		}
	}
}

// TestStatePrefix: a text that another session read begins with its state, a text
// that only begins the same is read as a whole, and the logits are the same.
func TestStatePrefix(t *testing.T) {
	for _, name := range recurrent {
		m := stateModel(t, name, Options{Threads: 1})
		tokens := draw(300, m.cfg.Vocab)
		want := logitsOf(t, m, tokens)
		for i, shared := range []int{0, 249, 249, 0} {
			n := []int{250, 300, 250, 200}[i]
			s, err := m.NewSession(SessionOptions{KV: "f32"})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Feed(t.Context(), tokens[:n]); err != nil {
				t.Fatal(err)
			}
			if s.Shared() != shared || !slices.Equal(s.Logits(), want[n-1]) {
				t.Errorf("%s: text %d: shared %d positions, want %d, same logits %v", name, i, s.Shared(), shared, slices.Equal(s.Logits(), want[n-1]))
			}
			s.Close()
		}
		if got, least := m.prefixes.bytes(), 4*memory(&m.cfg); got < least {
			t.Errorf("%s: texts take %d bytes, want at least a state of %d", name, got, least)
		}
	}
}

// TestStateMemory: states count, and sessions that were preempted go on with the
// same bits.
func TestStateMemory(t *testing.T) {
	for _, name := range recurrent {
		probe := stateModel(t, name, Options{Threads: 1})
		cache, err := newCache(probe.cacheShape(), 0)
		if err != nil {
			t.Fatal(err)
		}
		one := cache.ChunkBytes() + 3*4*memory(&probe.cfg) // a session with its marks
		m := stateModel(t, name, Options{Threads: 1, KVMemory: one + one/2, Prefixes: -1})
		tokens := draw(120, m.cfg.Vocab)
		want := logitsOf(t, probe, tokens)
		var all []*Session
		for range 3 {
			s, err := m.NewSession(SessionOptions{KV: "f32"})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		for n := 0; n < len(tokens); n += 40 {
			for i, s := range all {
				if err := s.Feed(t.Context(), tokens[n:n+40]); err != nil || !slices.Equal(s.Logits(), want[n+39]) {
					t.Fatalf("%s: session %d after %d tokens: %v", name, i, s.Len(), err)
				}
			}
		}
		m.mu.Lock()
		used, lost := m.kvUsed(nil), 0
		for _, s := range all {
			if s.lost {
				lost++
			}
		}
		m.mu.Unlock()
		if used > m.kvLimit || used < 4*memory(&m.cfg) || lost == 0 {
			t.Errorf("%s: %d bytes in use of %d, %d of 3 sessions preempted", name, used, m.kvLimit, lost)
		}
		small := stateModel(t, name, Options{Threads: 1, KVMemory: 12*memory(&probe.cfg) - 1})
		s, err := small.NewSession(SessionOptions{KV: "f32"})
		if err == nil {
			err = s.Feed(t.Context(), tokens)
		}
		if !errors.Is(err, ErrMemory) {
			t.Errorf("%s: a state without memory: %v", name, err)
		}
	}
}

// ends is a context that is cancelled after some looks at it.
type ends struct {
	context.Context
	left int
}

func (e *ends) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestStateCancelled: a reading that is cancelled within a pass leaves no trace.
func TestStateCancelled(t *testing.T) {
	for _, name := range recurrent {
		m := stateModel(t, name, Options{Threads: 1, Prefixes: -1})
		tokens := draw(400, m.cfg.Vocab)
		want := logitsOf(t, m, tokens)
		s, err := m.NewSession(SessionOptions{KV: "f32"})
		if err != nil {
			t.Fatal(err)
		}
		for n := 10; n < 60; n += 7 {
			if err := s.Feed(t.Context(), tokens[s.Len():n]); err != nil || !slices.Equal(s.Logits(), want[n-1]) {
				t.Fatalf("%s: after %d: %v", name, n, err)
			}
			for left := range 9 {
				if err := s.Feed(&ends{t.Context(), left}, tokens[n:]); !errors.Is(err, context.Canceled) || s.Len() != n {
					t.Fatalf("%s: %d looks: %v, %d positions", name, left, err, s.Len())
				}
				if err := s.Feed(&ends{t.Context(), min(left, 3)}, tokens[n:n+1]); !errors.Is(err, context.Canceled) || s.Len() != n {
					t.Fatalf("%s: one token, %d looks: %v, %d positions", name, left, err, s.Len())
				}
			}
		}
	}
}

// TestStateVectors: a cut among vectors goes back to where they begin, and
// snapshots of a cut session hold its state.
func TestStateVectors(t *testing.T) {
	for _, name := range recurrent {
		m := stateModel(t, name, Options{Threads: 1, Prefixes: -1})
		tokens := draw(30, m.cfg.Vocab)
		want := logitsOf(t, m, tokens)
		vectors, err := m.Embed(tokens[10:20])
		if err != nil {
			t.Fatal(err)
		}
		s, err := m.NewSession(SessionOptions{KV: "f32"})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Feed(t.Context(), tokens[:10]), s.FeedVectors(t.Context(), vectors), s.Feed(t.Context(), tokens[20:])); err != nil || !slices.Equal(s.Logits(), want[29]) {
			t.Fatalf("%s: vectors: %v", name, err)
		}
		s.Truncate(25)
		var saved bytes.Buffer
		if err := s.WriteSnapshot(&saved); err != nil {
			t.Fatal(err)
		}
		back, err := m.NewSession(SessionOptions{KV: "f32"})
		if err != nil {
			t.Fatal(err)
		}
		if err := back.ReadSnapshot(&saved); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Session{s, back} {
			if err := s.Feed(t.Context(), tokens[25:]); err != nil || !slices.Equal(s.Logits(), want[29]) {
				t.Errorf("%s: after a cut of tokens: %v", name, err)
			}
		}
		s.Truncate(15)
		if s.Len() > 15 || s.Len() < 0 {
			t.Errorf("%s: cut to %d, want at most 15", name, s.Len())
		}
		if err := s.Feed(t.Context(), tokens[s.Len():]); err != nil || !slices.Equal(s.Logits(), want[29]) {
			t.Errorf("%s: after a cut of vectors at %d: %v", name, s.Len(), err)
		}
	}
}

// TestNarrowStateSpace: the least state space, of one number, reads a text.
func TestNarrowStateSpace(t *testing.T) {
	cfg := small("mamba2")
	cfg.Mixer = &arch.Mixer{Kernel: 4, Inner: 1, State: 16, Heads: 1, Groups: 1}
	m, err := New(cfg, weightsOf(cfg, 1), Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tokens := draw(8, cfg.Vocab)
	want := logitsOf(t, m, tokens)
	s, err := m.NewSession(SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Feed(t.Context(), tokens); err != nil || !slices.Equal(s.Logits(), want[len(tokens)-1]) {
		t.Errorf("logits differ when fed together, or %v", err)
	}
}
