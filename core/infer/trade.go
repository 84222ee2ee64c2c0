package infer

import (
	"sync"
	"time"
)

// trade weighs what it costs to read several tokens at a time against how
// many of them will stand. It belongs to the model whose costs it knows; it
// is safe for concurrent use. It changes how long a text takes, never what it
// says.
type trade struct {
	mu       sync.Mutex
	costs    [lookupTokens + 2]cost // of reading so many tokens at a time
	since    int                    // steps of many since the cost of one was measured
	passed   int                    // times that only a measured cost spoke against
	patience int                    // how many of them until costs are measured anew
}

const (
	dearest     = 0.2  // of a token's cost, what each more is thought to cost at first
	least       = 1.05 // gain below which nothing is risked
	aloneEvery  = 64   // steps of many, after which one of one measures its cost
	firstPassed = 32
	mostPassed  = 1 << 14
)

// cost is the time of a step, an average of the last ones.
type cost struct {
	time  float64 // ns
	times int
}

// enough samples say what a step costs; the first is often dearer, for caches
// are cold.
const enough = 2

// add takes account of a step. A processor that was busy elsewhere must not
// speak for long.
func (c *cost) add(d time.Duration) {
	x := max(float64(d), 1)
	switch c.times++; {
	case c.times == 1 || c.times == enough && x < c.time:
		c.time = x
	case c.times > enough:
		c.time += (min(x, 2*c.time) - c.time) / 8
	}
}

// spent takes account of a step that read so many tokens.
func (t *trade) spent(tokens int, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.costs[tokens].add(d)
	t.since++
	if tokens == 1 {
		t.since = 0
	}
}

// sizes are how many tokens are read at a time.
var sizes = [...]int{2, 4, 8, lookupTokens + 1}

// choose gives how many tokens to propose, at most so many: 0 where a token
// alone is quicker. Expected is how many of n will stand.
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
			break // one size is tried after the other
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
