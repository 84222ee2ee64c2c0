package infer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestKVMemory: sessions that need several times the memory draw the tokens that
// they draw alone, in turns; idle ones lose theirs and go on as before.
func TestKVMemory(t *testing.T) {
	cfg := small("llama")
	cfg.Context = 1024
	weights := weightsOf(cfg, 1)
	m, err := New(cfg, weights, Options{Threads: 1, KVMemory: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	alone, err := New(cfg, weights, Options{Threads: 1, Prefixes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	m.kvLimit = 4 * session(t, m, SessionOptions{KV: "f32"}).cache.ChunkBytes()
	m.prefixes.limit = m.kvLimit

	idle, idle1 := session(t, m, SessionOptions{KV: "f32"}), session(t, alone, SessionOptions{KV: "f32"})
	read(t, "idle", idle, idle1, draw(500, 40))

	all := requests(20, cfg.Vocab)
	want := make([][]int32, len(all))
	for i := range all {
		all[i].kv, all[i].opt.MaxTokens = "f32", 5+i*7
		if want[i], err = all[i].run(t.Context(), alone, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	most := 0
	var wg sync.WaitGroup
	errs := make(chan error, 4*len(all))
	for i := range 2 * len(all) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 2))
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 4 {
				time.AfterFunc(time.Duration(rng.IntN(80))*time.Millisecond, cancel)
			}
			got, err := all[i%len(all)].run(ctx, m, func() {
				m.mu.Lock()
				most = max(most, m.kvUsed(nil))
				m.mu.Unlock()
			})
			own := want[i%len(all)]
			if err != nil && ctx.Err() == nil || err == nil && len(got) != len(own) || !slices.Equal(got, own[:min(len(got), len(own))]) {
				errs <- fmt.Errorf("request %d: got %v, %v, want %v", i, got, err, own)
			}
		})
	}
	wg.Wait()
	if most > m.kvLimit {
		t.Errorf("%d bytes in use, limit %d", most, m.kvLimit)
	}
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if !idle.lost {
		t.Error("an idle session was not preempted")
	}
	read(t, "idle again", idle, idle1, draw(20, 40))
	if len(m.holders) != 1 {
		t.Errorf("%d sessions hold memory, want 1", len(m.holders))
	}
}

// TestShareOfPreempted: a text is not taken from a session that has lost its keys
// in the same step.
func TestShareOfPreempted(t *testing.T) {
	m, _ := pair(t, Options{Threads: 1, Prefixes: 1})
	old, young, third := session(t, m, SessionOptions{}), session(t, m, SessionOptions{}), session(t, m, SessionOptions{})
	m.kvLimit = 1 << 30
	for i, s := range []*Session{old, young} {
		if err := s.Feed(t.Context(), draw(200, 40-i)); err != nil {
			t.Fatal(err)
		}
	}
	m.prefixes.all = nil
	m.kvLimit = 3 * old.cache.ChunkBytes()
	var pending []*reading
	for i, s := range []*Session{young, old, third} {
		in := draw(300, 38)
		if s == third {
			in = append(slices.Clone(young.tokens), make([]int32, 90)...)
		}
		r := &reading{}
		if err := s.reading(r, []Input{{Tokens: in}}, 1, nil); err != nil {
			t.Fatal(err)
		}
		s.users.Add(1)
		r.ctx, r.number = t.Context(), uint64(i+1)
		pending = append(pending, r)
	}
	if !m.pass(pending, 0) || !young.lost || old.lost || third.shared != 0 {
		t.Errorf("lost: %t and %t, want true and false; %d positions are shared, want 0", young.lost, old.lost, third.shared)
	}
}

// TestPreempted: whatever is asked of a preempted session is as without.
func TestPreempted(t *testing.T) {
	m, alone := pair(t, Options{Threads: 1})
	m.kvLimit = 1 << 30
	lose := func(s *Session) {
		m.mu.Lock()
		m.preempt(s)
		m.prefixes.all = nil
		m.mu.Unlock()
	}
	s, s1 := session(t, m, SessionOptions{}), session(t, alone, SessionOptions{})
	read(t, "first", s, s1, draw(300, 40))
	lose(s)
	var got, want bytes.Buffer
	if s.WriteSnapshot(&got) != nil || s1.WriteSnapshot(&want) != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Error("snapshots differ")
	}
	lose(s)
	for _, x := range []*Session{s, s1} {
		x.Truncate(280)
		if err := x.Recall(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(s.Logits(), s1.Logits()) {
		t.Error("recalled logits differ")
	}
	lose(s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Feed(ctx, draw(9, 40)); !errors.Is(err, context.Canceled) || s.Len() != 280 {
		t.Errorf("a canceled feed: %v, %d positions", err, s.Len())
	}
	lose(s)
	var rows, rows1 []int
	for _, x := range []struct {
		s    *Session
		rows *[]int
	}{{s, &rows}, {s1, &rows1}} {
		if err := x.s.Predict(t.Context(), draw(40, 40), func(i int, _ []float32) { *x.rows = append(*x.rows, i) }); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(rows, rows1) || !slices.Equal(s.Logits(), s1.Logits()) {
		t.Errorf("predictions differ: %v, want %v", rows, rows1)
	}
}

// TestKVMemoryRefuses: a text that can never fit is refused, and one that waits
// for sessions that cannot be computed again.
func TestKVMemoryRefuses(t *testing.T) {
	m, _ := pair(t, Options{Threads: 1})
	s := session(t, m, SessionOptions{})
	m.kvLimit = 2 * s.cache.ChunkBytes()
	if err := s.Feed(t.Context(), draw(513, 40)); !errors.Is(err, ErrMemory) || s.Len() != 0 {
		t.Errorf("three chunks: %v", err)
	}
	if err := s.Feed(t.Context(), draw(512, 40)); err != nil {
		t.Errorf("two chunks: %v", err)
	}
	s.Close()
	hidden := session(t, m, SessionOptions{Hidden: true})
	if err := hidden.Feed(t.Context(), draw(257, 40)); err != nil {
		t.Fatal(err)
	}
	late := session(t, m, SessionOptions{})
	if err := late.Feed(t.Context(), draw(10, 40)); !errors.Is(err, ErrMemory) {
		t.Errorf("no room with states: %v", err)
	}
	hidden.Close()
	if err := late.Feed(t.Context(), draw(10, 40)); err != nil {
		t.Errorf("room again: %v", err)
	}
}

// TestRestored: a restored session shares its text, is preempted if it holds only
// tokens, and is refused where its memory exceeds the limit.
func TestRestored(t *testing.T) {
	m, alone := pair(t, Options{Threads: 1})
	text := draw(300, 40)
	a, a1 := session(t, m, SessionOptions{}), session(t, alone, SessionOptions{})
	read(t, "first", a, a1, text)
	var saved bytes.Buffer
	if err := a.WriteSnapshot(&saved); err != nil {
		t.Fatal(err)
	}
	m.kvLimit = 4 * a.cache.ChunkBytes() // two for a, two for s
	s := session(t, m, SessionOptions{})
	m.hold(a)
	for limit, want := range map[int]error{m.kvLimit - 1: ErrMemory, m.kvLimit: nil} {
		m.kvLimit = limit
		if err := s.ReadSnapshot(bytes.NewReader(saved.Bytes())); !errors.Is(err, want) || err != nil && s.Len() != 0 {
			t.Errorf("limit %d: got %v, want %v", limit, err, want)
		}
		s.Truncate(0)
	}
	m.kvLimit = 1 << 30
	if err := s.ReadSnapshot(bytes.NewReader(saved.Bytes())); err != nil {
		t.Fatal(err)
	}
	b, b1 := session(t, m, SessionOptions{}), session(t, alone, SessionOptions{})
	if n := b.Reusable(slices.Concat(text, []int32{1})); n != len(text) {
		t.Errorf("%d tokens are known, want %d", n, len(text))
	}
	read(t, "of a restored one", b, b1, slices.Concat(text, []int32{1, 2}))
	if b.Shared() != len(text) {
		t.Errorf("%d positions are shared, want %d", b.Shared(), len(text))
	}
	if s.fixed {
		t.Error("tokens cannot be computed again")
	}
	m.mu.Lock()
	m.preempt(s)
	m.prefixes.all = nil
	m.mu.Unlock()
	read(t, "preempted", s, a1, draw(20, 40))
}

// TestLoser: if no reading can continue, one ends whose call holds memory of the others,
// not one that only waits.
func TestLoser(t *testing.T) {
	m, _ := pair(t, Options{Threads: 1})
	holder, second, bystander := session(t, m, SessionOptions{Hidden: true}), session(t, m, SessionOptions{}), session(t, m, SessionOptions{})
	m.kvLimit = 1 << 30
	for _, s := range []*Session{holder, second} {
		if err := s.Feed(t.Context(), draw(200, 40)); err != nil {
			t.Fatal(err)
		}
	}
	call := func(all ...*Session) []*reading {
		var rs []*reading
		for _, s := range all {
			rs = append(rs, &reading{s: s})
		}
		for _, r := range rs {
			r.all = rs
		}
		return rs
	}
	one := call(holder)
	two := call(bystander)
	both := call(session(t, m, SessionOptions{}), second)
	for name, c := range map[string]struct {
		pending []*reading
		want    *reading
	}{
		"the bystander came first":   {append(slices.Clone(two), one...), one[0]},
		"the bystander came last":    {append(slices.Clone(one), two...), one[0]},
		"a call of two that hold":    {append(slices.Clone(both[:1]), two...), both[0]},
		"the later of two that hold": {append(slices.Clone(both[1:]), one...), both[1]},
		"only bystanders":            {append(call(second), two...), two[0]},
	} {
		if got := m.loser(c.pending); got != c.want {
			t.Errorf("%s: the reading of session %d ends, want %d", name, got.s.admitted, c.want.s.admitted)
		}
	}
}
