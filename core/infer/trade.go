package infer

import (
	"sync"
	"time"
)

// trade weighs the cost of reading several tokens at a time against how many
// will be accepted. It belongs to the measured model and is safe for concurrent
// use. It changes the time, never the text.
type trade struct {
	mu       sync.Mutex
	costs    [lookupTokens + 2]cost // of reading so many tokens at a time
	since    int                    // steps of many tokens since the cost of one was measured
	passed   int                    // times that only a measured cost decided against proposals
	patience int                    // how many of these before the costs are measured again
}

const (
	dearest     = 0.2  // initial estimate of the cost of each extra token, relative to one
	least       = 1.05 // gain below which nothing is proposed
	aloneEvery  = 64   // steps of many tokens before a step of one measures its cost
	firstPassed = 32
	mostPassed  = 1 << 14
)

// cost is the time of a step, averaged over recent ones.
type cost struct {
	time  float64 // ns
	times int
}

// enough is the number of samples that determine a cost; the first is often
// slower, since caches are cold.
const enough = 2

// add records a step. A single slow step of a busy processor has a small
// weight.
func (c *cost) add(d time.Duration) {
	x := max(float64(d), 1)
	switch c.times++; {
	case c.times == 1 || c.times == enough && x < c.time:
		c.time = x
	case c.times > enough:
		c.time += (min(x, 2*c.time) - c.time) / 8
	}
}

// spent records a step that read so many tokens.
func (t *trade) spent(tokens int, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.costs[tokens].add(d)
	t.since++
	if tokens == 1 {
		t.since = 0
	}
}

// sizes lists the numbers of tokens read at a time.
var sizes = [...]int{2, 4, 8, lookupTokens + 1}

// choose returns how many tokens to propose, at most most: 0 if a single token
// is faster. Expected estimates how many of n will be accepted.
func (t *trade) choose(most int, expected func(n int) float64) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.costs[1]
	if one.times < enough || t.since >= aloneEvery {
		return 0
	}
	best, hoped := 0, false
	gain, dear, before := least, 1.0, 1
	for _, n := range sizes {
		if n-1 > most {
			break
		}
		tokens := 1 + expected(n-1)
		hoped = hoped || tokens > least*(1+dearest*float64(n-1))
		c := t.costs[n]
		if c.times >= enough {
			dear = c.time / one.time
		} else {
			dear += dearest * float64(n-before)
		}
		if tokens > gain*dear {
			best, gain = n-1, tokens/dear
		}
		before = n
		if c.times < enough {
			break // sizes are tried in order
		}
	}
	switch {
	case best > 0:
		t.passed = 0
	case hoped:
		if t.passed++; t.passed >= max(t.patience, firstPassed) {
			t.patience, t.passed = min(2*max(t.patience, firstPassed), mostPassed), 0
			clear(t.costs[2:])
		}
	}
	return best
}

// fixedRows is the cost of a step without its rows, in rows.
const fixedRows = 8

// amongst returns how many tokens a session should propose in a step that it
// shares with others, whose rows already pay for most of the step.
func amongst(others, most int, expected func(n int) float64) int {
	each := 1 / (1 + float64(fixedRows)/float64(1+others)) // cost of a further row, relative to one session's share
	best, gain := 0, least
	for _, n := range sizes {
		if n-1 > most {
			break
		}
		if g := (1 + expected(n-1)) / (1 + each*float64(n-1)); g > gain {
			best, gain = n-1, g
		}
	}
	return best
}
