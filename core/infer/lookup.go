package infer

import (
	"context"
	"math/bits"
	"time"
)

// How a text is looked up in itself.
const (
	longGram     = 3       // tokens that are looked for, first
	shortGram    = 2       // and then
	farthestBack = 16      // tokens that are compared
	lookupTokens = 15      // proposed at a time, at most
	mostPlaces   = 1 << 16 // kept, 256 KiB
	leastPlaces  = 1 << 10
)

// lookup finds what followed the last tokens of a text when they stood in it
// before (prompt lookup decoding). A place is where something followed; the
// places are kept by the hash of the tokens before them, the latest one of
// each. They are hints: the text is compared before one is believed, so that
// it may be cut and go on differently, and so that places may be lost.
type lookup struct {
	places  []int32
	known   int // tokens of the text whose places are kept
	next    int // place that the tokens of the last match have led to, or 0
	at      int // length of the text then
	matched int // tokens before the place that are the last of the text
	right   [4]share
}

// cut forgets the tokens from n on.
func (l *lookup) cut(n int) {
	l.known = min(l.known, n)
	if l.at > n {
		l.next = 0
	}
}

// slot is where the place behind a gram is kept.
func (l *lookup) slot(gram []int32) int {
	h := uint64(len(gram))
	for _, t := range gram {
		h = (h ^ uint64(uint32(t))) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	return int(h & uint64(len(l.places)-1))
}

// follow takes up what text has more than it had. Room is how long it can be.
func (l *lookup) follow(text []int32, room int) {
	if l.places == nil {
		n := min(max(2*room, leastPlaces), mostPlaces)
		l.places = make([]int32, 1<<bits.Len(uint(n-1)))
	}
	for ; l.known < len(text); l.known++ {
		for n := shortGram; n <= longGram && n <= l.known; n++ {
			l.places[l.slot(text[l.known-n:l.known])] = int32(l.known)
		}
	}
	l.match(text)
}

// match finds the place whose tokens are the last of the text, as many as
// there are.
func (l *lookup) match(text []int32) {
	from := 0
	if l.next > 0 {
		from = l.next + len(text) - l.at // the same match, as far as the text went on
	}
	l.next, l.matched, l.at = 0, 0, len(text)
	take := func(place int) {
		if n := same(text, place); n > l.matched && n >= shortGram {
			l.next, l.matched = place, n
		}
	}
	for n := longGram; n >= shortGram && n < len(text); n-- {
		take(int(l.places[l.slot(text[len(text)-n:])]))
	}
	take(from)
}

// same is how many tokens before a place are the last ones of the text; none
// where nothing follows, or a vector does.
func same(text []int32, place int) int {
	if place <= 0 || place >= len(text) || text[place] == vector {
		return 0
	}
	n := 0
	for n < min(place, farthestBack) && text[place-1-n] == text[len(text)-1-n] && text[place-1-n] != vector {
		n++
	}
	return n
}

// proposals are at most n tokens of those that followed. They end before a
// vector; where the place is near the end of the text, what they repeat is
// what they are.
func (l *lookup) proposals(text []int32, n int) []int32 {
	var out []int32
	for place := l.next; place > 0 && len(out) < n; place++ {
		var t int32
		if place < len(text) {
			t = text[place]
		} else {
			t = out[place-len(text)]
		}
		if t == vector {
			break
		}
		out = append(out, t)
	}
	return out
}

// expected is how many of n proposals will stand, behind the match there is:
// the more tokens match, the likelier the next does.
func (l *lookup) expected(n int) float64 {
	sum, all := 0.0, 1.0
	for i := range n {
		all *= l.right[grade(l.matched+i)].value()
		sum += all
	}
	return sum
}

// learn takes account of whether the i-th token behind a match of that many
// was what the text that was found has.
func (l *lookup) learn(matched int, right bool) { l.right[grade(matched)].add(right) }

// grade sorts matches by their length.
func grade(matched int) int { return min(bits.Len(uint(matched))-2, 3) } // 2, 4, 8, 16 tokens

// share is how often something was so, lately.
type share struct{ yes, all float64 }

// fade is what an observation counts for after the next; the last thirty or
// so decide.
const fade = 0.97

func (s *share) add(yes bool) {
	s.yes, s.all = fade*s.yes, fade*s.all+1
	if yes {
		s.yes++
	}
}

// value is the share, with a few observations to the contrary beforehand.
func (s *share) value() float64 { return s.yes / (s.all + 2) }

// lookedUp is a step with the tokens that the text itself proposes, where
// that pays. What it would have proposed is compared with what was drawn in
// any case, which costs nothing: a text that does not repeat itself is
// written as without.
func (g *generation) lookedUp(ctx context.Context, last int32) (int32, error) {
	l, t := &g.s.lookup, &g.s.m.trade
	l.follow(g.history, g.s.context)
	most := min(g.opt.DraftTokens, g.room())
	n := 0
	switch {
	case l.next == 0:
	case g.opt.AlwaysDraft:
		n = most
	default:
		n = t.choose(most, l.expected)
	}
	matched := l.matched
	proposals := l.proposals(g.history, max(n, min(most, 1)))
	kept, start := len(g.history), time.Now()
	if n == 0 {
		next, err := g.alone(ctx, last)
		t.spent(1, time.Since(start))
		if err == nil && len(proposals) > 0 {
			l.learn(matched, next == proposals[0])
		}
		return next, err
	}
	next, err := g.verify(ctx, last, proposals)
	if err != nil {
		return next, err
	}
	t.spent(1+len(proposals), time.Since(start))
	stood := len(g.history) - kept
	for i := range min(stood+1, len(proposals)) {
		if i == stood && g.stats.Reason != "" {
			break // the text has ended: what would have followed is not known
		}
		l.learn(matched+i, i < stood)
	}
	return next, nil
}
