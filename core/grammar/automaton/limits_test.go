package automaton

import (
	"errors"
	"math/big"
	"strconv"
	"strings"
	"testing"
)

// TestLimits has a language or a grammar at each limit, and one beyond it.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: expressions at the limits")
	}
	bound := func(digits int) error { // 0.00…01
		at := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil))
		_, err := decimal(Bound{At: at})
		return err
	}
	large := func(bits int) error {
		_, err := decimal(Bound{At: new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(bits-1)))})
		return err
	}
	nodes := func(n int) error {
		var b Builder
		for range n {
			b.Node()
		}
		return b.Err()
	}
	for _, c := range []struct {
		name  string
		limit int
		check func(n int) error
	}{
		{"maxDigits after the point", maxDigits, bound},
		{"maxDigits before the point, in bits", 8 * maxDigits, large},
		{"maxPattern", maxPattern, func(n int) error { _, err := Pattern("^aaa" + strings.Repeat("(?:)", (n-4)/4)); return err }},
		{"maxDFAStates", maxDFAStates - 1, func(n int) error { _, err := Length(0, n); return err }},
		{"maxNodes", maxNodes, nodes},
	} {
		if err := c.check(c.limit); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		over := c.limit + 1
		if c.name == "maxPattern" {
			over = c.limit + 4
		}
		if err := c.check(over); err == nil {
			t.Errorf("%s + 1 is accepted", c.name)
		}
	}
	if _, err := Pattern("^" + strings.Repeat("a{1000}", maxInstructions/1000)); !errors.Is(err, ErrManyStates) {
		t.Errorf("maxInstructions = %d: %v", maxInstructions, err)
	}
}

// TestMachineLimits: a machine forgets its states at the limits, keeps no more
// than maxThreads positions, and counts ended keys up to maxEnded.
func TestMachineLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: schemas at the limits")
	}
	m := keyed(t, 4)
	for i := range maxStates {
		m.states[strconv.Itoa(i)] = dead
	}
	if m.begin(); len(m.states) != maxStates {
		t.Errorf("%d states are kept, limit %d", len(m.states), maxStates)
	}
	m.states["one more"] = dead
	if m.begin(); len(m.states) > 1 {
		t.Errorf("%d states are kept, limit %d", len(m.states), maxStates)
	}
	m.set = make([]thread, maxThreads-1)
	for at := range m.p.nodes {
		m.enter(int32(at), m.frame(frameKey{}))
	}
	if len(m.set) != maxThreads {
		t.Errorf("%d positions, limit %d", len(m.set), maxThreads)
	}
	for i := range maxFrames + 1 {
		m.frames[frameKey{min: int32(i)}] = nil
	}
	if m.begin(); len(m.frames) > 1 {
		t.Errorf("%d frames are kept, limit %d", len(m.frames), maxFrames)
	}
	var f *frame
	for ended := uint8(1); ended <= maxEnded; ended++ {
		f = m.frame(frameKey{ended: ended, key: true})
		if g := m.further(f); g.ended != min(ended+1, maxEnded) {
			t.Errorf("%d ended keys and one more are %d", ended, g.ended)
		}
	}
}
