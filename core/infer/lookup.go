package infer

import (
	"context"
	"math/bits"
	"time"
)

// Parameters of the lookup.
const (
	longGram     = 3       // tokens of the first search
	shortGram    = 2       // and of the second
	farthestBack = 16      // tokens compared
	lookupTokens = 15      // limit of tokens proposed at a time
	mostPlaces   = 1 << 16 // limit of places, 256 KiB
	leastPlaces  = 1 << 10
)

// lookup finds the continuation of an earlier occurrence of the last tokens of
// a text (prompt lookup decoding). A place is a position in the text; places
// are indexed by the hash of the tokens before them, the latest one of each.
// They are hints: the text is compared before use, so the text may be cut and
// continued differently, and places may be lost.
type lookup struct {
	places  []int32
	indexed int // tokens of the text whose places are indexed
	next    int // place that the last match has reached, or 0
	at      int // length of the text at that time
	matched int // tokens before the place that equal the last of the text
	right   [4]share
}

// cut forgets the tokens from n on.
func (l *lookup) cut(n int) {
	l.indexed = min(l.indexed, n)
	if l.at > n {
		l.next = 0
	}
}

// slot returns the index slot of the place after a gram.
func (l *lookup) slot(gram []int32) int {
	h := uint64(len(gram))
	for _, t := range gram {
		h = (h ^ uint64(uint32(t))) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	return int(h & uint64(len(l.places)-1))
}

// follow indexes the new part of text. Room is its maximum length.
func (l *lookup) follow(text []int32, room int) {
	if l.places == nil {
		n := min(max(2*room, leastPlaces), mostPlaces)
		l.places = make([]int32, 1<<bits.Len(uint(n-1)))
	}
	for ; l.indexed < len(text); l.indexed++ {
		for n := shortGram; n <= longGram && n <= l.indexed; n++ {
			l.places[l.slot(text[l.indexed-n:l.indexed])] = int32(l.indexed)
		}
	}
	l.match(text)
}

// match finds the place with the longest match of the last tokens of the text.
func (l *lookup) match(text []int32) {
	from := 0
	if l.next > 0 {
		from = l.next + len(text) - l.at // the same match, extended by the new text
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

// same returns how many tokens before a place equal the last ones of the text;
// 0 if a vector or nothing follows.
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

// proposals returns at most n of the tokens that followed the match. They end
// before a vector; near the end of the text they repeat themselves.
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

// expected estimates how many of n proposals will be accepted for the current
// match: the longer the match, the more likely.
func (l *lookup) expected(n int) float64 {
	sum, all := 0.0, 1.0
	for i := range n {
		all *= l.right[grade(l.matched+i)].value()
		sum += all
	}
	return sum
}

// learn records whether the i-th proposal after a match of that length was
// right.
func (l *lookup) learn(matched int, right bool) { l.right[grade(matched)].add(right) }

// grade classifies matches by length.
func grade(matched int) int { return min(bits.Len(uint(matched))-2, 3) } // 2, 4, 8, 16 tokens

// share is a recent frequency.
type share struct{ yes, all float64 }

// fade is the weight of an observation after the next; about the last thirty
// decide.
const fade = 0.97

func (s *share) add(yes bool) {
	s.yes, s.all = fade*s.yes, fade*s.all+1
	if yes {
		s.yes++
	}
}

// value returns the share, with a few negative observations as a prior.
func (s *share) value() float64 { return s.yes / (s.all + 2) }

// stepLookup is a step with the tokens that the text itself proposes, if that
// pays. Unused proposals are compared with the drawn token anyway, which is
// free: text without repetition is generated as without lookup. A step is
// measured if the session is alone; otherwise, costs are estimated.
func (g *generation) stepLookup(ctx context.Context, last int32, others int) (int32, error) {
	l, t := &g.s.lookup, &g.s.m.trade
	l.follow(g.history, g.s.context)
	most := min(g.opt.DraftTokens, g.room())
	n := 0
	switch {
	case l.next == 0:
	case g.opt.AlwaysDraft:
		n = most
	case others > 0:
		n = amongst(others, most, l.expected)
	default:
		n = t.choose(most, l.expected)
	}
	matched := l.matched
	proposals := l.proposals(g.history, max(n, min(most, 1)))
	before, start := len(g.history), time.Now()
	if n == 0 {
		next, err := g.alone(ctx, last)
		if others == 0 {
			t.spent(1, time.Since(start))
		}
		if err == nil && len(proposals) > 0 {
			l.learn(matched, next == proposals[0])
		}
		return next, err
	}
	next, err := g.verify(ctx, last, proposals)
	if err != nil {
		return next, err
	}
	if others == 0 {
		t.spent(1+len(proposals), time.Since(start))
	}
	accepted := len(g.history) - before
	for i := range min(accepted+1, len(proposals)) {
		if i == accepted && g.stats.Reason != "" {
			break // the text has ended: the continuation is unknown
		}
		l.learn(matched+i, i < accepted)
	}
	return next, nil
}
