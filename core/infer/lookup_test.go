package infer

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"mm-abi.org/mm/core/infer/sample"
)

// TestLookupText: lookup does not change the text at any temperature, always or
// adaptively, and repetitive text uses it much.
func TestLookupText(t *testing.T) {
	cfg, weights := stories(t)
	m, err := New(cfg, weights, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	session := func(prompt []int32) *Session {
		s, err := m.NewSession(SessionOptions{Context: 300})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Prompt(t.Context(), prompt); err != nil {
			t.Fatal(err)
		}
		return s
	}
	once, _, _ := collect(t, session([]int32{1}), GenerateOptions{MaxTokens: 90})
	// A repeated story: the model continues as the first time.
	twice := append(append([]int32{1}, once...), append([]int32{1}, once[:20]...)...)
	for _, prompt := range [][]int32{{1}, twice} {
		for _, mode := range []sample.Options{{}, {Temperature: 1, Seed: 4}, {Temperature: 0.7, TopK: 30, TopP: 0.9, RepeatPenalty: 1.1, Seed: 5}} {
			want, _, _ := collect(t, session(prompt), GenerateOptions{Sampler: mode, MaxTokens: 150})
			for _, opt := range []GenerateOptions{{AlwaysDraft: true}, {AlwaysDraft: true, DraftTokens: 1}, {}} {
				opt.Sampler, opt.MaxTokens, opt.Lookup = mode, 150, true
				s := session(prompt)
				got, _, stats := collect(t, s, opt)
				if !slices.Equal(got, want) {
					t.Fatalf("%d tokens of prompt, %+v: the text differs", len(prompt), opt)
				}
				if stats.Tokens != len(want) || s.Len() != len(prompt)+149 {
					t.Errorf("%+v, %d positions", stats, s.Len())
				}
				// Sampled text differs between processors, the most likely text
				// hardly does.
				greedy := mode == sample.Options{}
				if opt.AlwaysDraft && len(prompt) > 1 && (stats.Accepted == 0 || greedy && (stats.Drafted < 30 || stats.Accepted < 20)) {
					t.Errorf("%+v of a repeated text", stats)
				}
			}
		}
	}
}

// TestLookupMask: a forbidden token is not generated although the text had it,
// and a forced one is.
func TestLookupMask(t *testing.T) {
	cfg := tiny("llama", 10)
	w := random(cfg, 1)
	opt := GenerateOptions{MaxTokens: 30, Mask: func(history []int32, logits []float32) error {
		for i := range logits { // 1 2 3 4 1 2 3 4 …, with an occasional 9
			want := int32(len(history)%4 + 1)
			if len(history)%11 == 0 {
				want = 9
			}
			if int32(i) != want {
				logits[i] = float32(math.Inf(-1))
			}
		}
		return nil
	}}
	var want []int32
	for _, lookup := range []bool{false, true} {
		s := open(t, cfg, w, SessionOptions{})
		if err := s.Feed(t.Context(), []int32{1, 2, 3, 4, 1, 2, 3, 4}); err != nil {
			t.Fatal(err)
		}
		opt.Lookup, opt.AlwaysDraft = lookup, lookup
		got, _, stats := collect(t, s, opt)
		if !lookup {
			want = got
			continue
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, without %v", got, want)
		}
		if stats.Accepted == 0 || stats.Accepted == stats.Drafted {
			t.Errorf("%+v: some are right, some are not", stats)
		}
	}
}

// TestLookupFinds: the longest match is used, and proposals follow it.
func TestLookupFinds(t *testing.T) {
	for name, c := range map[string]struct {
		text    []int32
		matched int
		want    []int32
	}{
		"nothing":                 {[]int32{1, 2, 3, 4}, 0, nil},
		"one token is not enough": {[]int32{1, 2, 3, 1}, 0, nil},
		"two":                     {[]int32{1, 2, 3, 4, 1, 2}, 2, []int32{3, 4, 1, 2, 3}},
		"the latest of two":       {[]int32{1, 2, 3, 1, 2, 4, 5, 1, 2}, 2, []int32{4, 5, 1, 2, 4}},
		"three before two":        {[]int32{7, 1, 2, 3, 8, 1, 2, 4, 7, 1, 2}, 3, []int32{3, 8, 1, 2, 4}},
		"what repeats goes on":    {[]int32{5, 5, 5, 5}, 3, []int32{5, 5, 5, 5, 5}},
		"a vector ends it":        {[]int32{1, 2, 3, vector, 4, 1, 2}, 2, []int32{3}},
		"nor what follows":        {[]int32{7, 1, 2, vector, 5, 1, 2, 3, 7, 1, 2}, 2, []int32{3, 7, 1, 2, 3}},
		"a vector does not match": {[]int32{vector, vector, 3, vector, vector}, 0, nil},
	} {
		var l lookup
		l.follow(c.text, 100)
		if got := l.proposals(c.text, 5); l.matched != c.matched || !slices.Equal(got, c.want) {
			t.Errorf("%s: %d match, %v; want %d, %v", name, l.matched, got, c.matched, c.want)
		}
	}
}

// TestLookupLongest: of two places after the same three tokens, the current
// match is continued.
func TestLookupLongest(t *testing.T) {
	text := []int32{10, 11, 1, 2, 3, 4, 0, 20, 21, 1, 2, 3, 5, 0, 10, 11}
	var l lookup
	for _, next := range []int32{1, 2, 3} {
		l.follow(text, 100)
		text = append(text, next)
	}
	l.follow(text, 100)
	if got := l.proposals(text, 1); !slices.Equal(got, []int32{4}) || l.matched != 5 {
		t.Errorf("%v after %d tokens", got, l.matched)
	}
}

// TestLookupCut: a text that was cut or replaced does not propose its former
// tokens.
func TestLookupCut(t *testing.T) {
	cfg := tiny("llama", 10)
	s := open(t, cfg, random(cfg, 1), SessionOptions{})
	other, err := s.m.NewSession(SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	feed := func(s *Session, tokens ...int32) {
		if err := s.Feed(t.Context(), tokens); err != nil {
			t.Fatal(err)
		}
	}
	found := func(s *Session) []int32 {
		s.lookup.follow(s.tokens, s.context)
		return s.lookup.proposals(s.tokens, 2)
	}
	feed(s, 1, 2, 3, 4, 5, 1, 2)
	if got := found(s); !slices.Equal(got, []int32{3, 4}) {
		t.Fatal(got)
	}
	s.Truncate(2)
	feed(s, 6, 7, 8, 6, 7)
	if got := found(s); !slices.Equal(got, []int32{8, 6}) {
		t.Errorf("after a cut: %v", got)
	}
	feed(other, 8, 9, 5, 8, 9, 0, 0)
	var b bytes.Buffer
	if err := other.WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	if err := s.ReadSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	s.Truncate(5)
	if got := found(s); !slices.Equal(got, []int32{5, 8}) {
		t.Errorf("after a snapshot was read: %v", got)
	}
}

// TestLookupMemory: memory is bounded for any length of text.
func TestLookupMemory(t *testing.T) {
	for room, want := range map[int]int{1: leastPlaces, 8192: 16384, 1 << 30: mostPlaces} {
		var l lookup
		l.follow([]int32{1, 2, 3}, room)
		if len(l.places) != want {
			t.Errorf("%d places for %d tokens, want %d", len(l.places), room, want)
		}
	}
	var l lookup
	text := make([]int32, 3*mostPlaces)
	for i := range text {
		text[i] = int32(i * 7919 % 10007)
	}
	l.follow(text, len(text))
	if l.next == 0 {
		t.Error("nothing is found in a text longer than the index")
	}
}

// TestLookupRoom: proposals do not exceed the remaining tokens.
func TestLookupRoom(t *testing.T) {
	cfg := tiny("llama", 10)
	s := open(t, cfg, random(cfg, 1), SessionOptions{})
	if err := s.Feed(t.Context(), []int32{1, 1, 1, 1}); err != nil {
		t.Fatal(err)
	}
	_, _, stats := collect(t, s, GenerateOptions{MaxTokens: 3, Lookup: true, AlwaysDraft: true, Mask: func(_ []int32, logits []float32) error {
		for i := range logits {
			if i != 1 {
				logits[i] = float32(math.Inf(-1))
			}
		}
		return nil
	}})
	if stats.Tokens != 3 || stats.Drafted != 2 {
		t.Errorf("%+v", stats)
	}
}

// TestCostOfABusyMoment: a single slow step does not count for many.
func TestCostOfABusyMoment(t *testing.T) {
	var c cost
	for range 10 {
		c.add(1000)
	}
	if c.add(time.Second); c.time > 1200 {
		t.Errorf("%.0f ns", c.time)
	}
}

// TestTrade: the number of proposals is the best for the measured costs.
func TestTrade(t *testing.T) {
	for name, c := range map[string]struct {
		more        float64 // cost of an extra token
		right       float64 // share of right tokens
		least, most float64 // tokens per unit of cost, after 5000 tokens
	}{
		"all is right":                  {0.1, 1, 4, 16},
		"all is right, at a high price": {0.5, 1, 1.5, 2},
		"cost equals gain":              {1, 1, 0.99, 1.01},
		"half is right":                 {0.1, 0.5, 1.2, 2},
		"half is right, at a price":     {0.6, 0.5, 0.99, 1.01},
		"nothing is right":              {0.1, 0, 0.999, 1.001},
		"dearer than alone":             {3, 0.9, 0.98, 1},
	} {
		var tr trade
		var l lookup
		rate := func(n int) float64 { l.matched = 16; return l.expected(n) }
		tokens, spent, draw := 0, 0.0, 0.0
		right := func() bool { // evenly spread
			if draw += c.right; draw >= 1 {
				draw--
				return true
			}
			return false
		}
		for tokens < 5000 {
			n := tr.choose(lookupTokens, rate)
			cost := 1 + c.more*float64(n)
			spent += cost
			tr.spent(n+1, time.Duration(1000*cost))
			tokens++
			for range max(n, 1) {
				ok := right()
				l.learn(16, ok)
				if !ok || n == 0 {
					break
				}
				tokens++
			}
		}
		if gain := float64(tokens) / spent; gain < c.least || gain > c.most {
			t.Errorf("%s: %.3f tokens for the cost of one, want %v to %v", name, gain, c.least, c.most)
		}
	}
}

// TestTradeForgets: a step that was slow once because the processor was busy is
// tried again; one that was fast once is not trusted for long.
func TestTradeForgets(t *testing.T) {
	all := func(n int) float64 { return float64(n) }
	var tr trade
	run := func(steps int, many time.Duration) (proposed int) {
		for range steps {
			n := tr.choose(lookupTokens, all)
			cost := time.Duration(1000)
			if n > 0 {
				cost, proposed = many, proposed+1
			}
			tr.spent(n+1, cost)
		}
		return proposed
	}
	run(100, 90_000)
	if n := run(1000, 90_000); n > 40 {
		t.Errorf("%d of 1000 steps at ninety times the cost", n)
	}
	run(2000, 1500)
	if n := run(1000, 1500); n < 900 {
		t.Errorf("%d of 1000 steps when it pays again", n)
	}
}

// blind ignores everything.
type blind struct{}

func (blind) Observe([]string, int, []float32, int) {}

// TestLookupObserved: an observer receives the text, not proposals.
func TestLookupObserved(t *testing.T) {
	cfg := tiny("llama", 10)
	s := open(t, cfg, random(cfg, 1), SessionOptions{})
	s.Observe(blind{})
	if err := s.Feed(t.Context(), []int32{1, 1, 1, 1}); err != nil {
		t.Fatal(err)
	}
	if _, _, stats := collect(t, s, GenerateOptions{MaxTokens: 30, Lookup: true, AlwaysDraft: true}); stats.Drafted != 0 {
		t.Errorf("%+v", stats)
	}
}

// TestTradeMeasuresAlone: the cost of a single token is measured again while
// many are read at a time.
func TestTradeMeasuresAlone(t *testing.T) {
	var tr trade
	for range 1000 {
		tr.spent(1+tr.choose(lookupTokens, func(n int) float64 { return float64(n) }), 1000)
	}
	if n := tr.costs[1].times; n < 1000/(aloneEvery+1) || n > 30 {
		t.Errorf("measured %d times in 1000 steps", n)
	}
}
