package automaton

import (
	"slices"
	"testing"
)

// spell steps through a text; it returns nil if that is not allowed.
func spell(m *Machine, s *State, text string) *State {
	for i := 0; i < len(text) && s != nil; i++ {
		s = m.Step(s, text[i])
	}
	return s
}

// keyed builds the grammar of (x KEY " BODY)* . where keys consist of distinct
// letters, and a key with a b is followed by a deep rule that needs two calls,
// others by nothing.
func keyed(t *testing.T, depth int) *Machine {
	t.Helper()
	var b Builder
	rule, start := b.Rule(true)
	end := b.Text(start, ".")
	b.End(end)
	key, at := b.Rule(false)
	b.Key(b.Text(start, "x"), key)
	hard := b.Node()
	b.Bytes(at, 'a', 'a', at)
	b.Bytes(at, 'b', 'b', hard)
	b.Bytes(hard, 'a', 'b', hard)
	b.Free(at)
	b.Free(hard)
	b.Leave(at, '"', start)
	inner, in := b.Rule(true)
	deeper, deep := b.Rule(true)
	b.End(b.Text(deep, "d"))
	out := b.Node()
	b.Call(in, deeper, out, 0, Unbounded)
	b.End(out)
	after := b.Node()
	b.Call(after, inner, start, 0, Unbounded)
	b.Leave(hard, '"', after)
	p, err := b.Program(rule, depth)
	if err != nil {
		t.Fatal(err)
	}
	return p.Run()
}

// A used key is refused, while a blurred state accepts it and reports that one
// was ended; the missing rest is returned.
func TestKeys(t *testing.T) {
	m := keyed(t, 3)
	s := spell(m, m.Start(), `xaa"xab"dxb`)
	if s == nil || !s.Keyed() || !m.Keys() {
		t.Fatal("a text is refused")
	}
	for text, want := range map[string]bool{`"`: true, `a"`: true, `"dxab"`: false, `"dxaa"`: false, `"dxa"`: true, `"dxb"`: false, `"dxbb"`: true} {
		if got := spell(m, s, text) != nil; got != want {
			t.Errorf("%s is %v", text, got)
		}
	}
	blurred := m.Blur(s, 8)
	for text, ended := range map[string]int{"": 0, "aab": 0, `"`: 1, `"d`: 1, `"dxb`: 1, `"dxb"`: 2, `"dxb"dxab"d`: 2} {
		if to := spell(m, blurred, text); to == nil || to.Left() != ended || to.Keyed() {
			t.Errorf("%q ends other than %d keys", text, ended)
		}
	}
	if m.Blur(s, 8) != blurred || m.Blur(blurred, 8) != blurred {
		t.Error("a state is blurred twice")
	}
	// Blurred states do not depend on the order of keys.
	if other := spell(m, m.Start(), `xb`); m.Blur(other, 8) != blurred {
		t.Error("a blurred state remembers")
	}
	if got := spell(m, m.Start(), `xaab"dxa`).Taken(); !slices.Equal(got, []string{"ab"}) {
		t.Errorf("%q is missing", got)
	}
	if got := spell(m, m.Start(), `xaab"dxb`).Taken(); len(got) != 0 {
		t.Errorf("%q is missing", got)
	}
	if s := spell(m, m.Start(), `xa".`); s == nil || !m.Blur(s, 8).Accepts() || m.Blur(s, 8).Left() != 0 {
		t.Error("the end is lost")
	}
}

// A node is free if nothing that may follow exceeds the depth.
func TestFree(t *testing.T) {
	for depth, want := range map[int]bool{1: false, 2: false, 3: true} {
		m := keyed(t, depth)
		if _, free := m.Free(spell(m, m.Start(), "xa")); free != want {
			t.Errorf("at depth %d a key is free: %v", depth, free)
		}
	}
	// A position reached by ending a key does not make others free.
	var b Builder
	rule, start := b.Rule(false)
	end := b.Node()
	b.End(end)
	key, at := b.Rule(false)
	b.Key(start, key)
	b.Bytes(at, 'a', 'a', at)
	free := b.Node()
	b.Free(free)
	b.Bytes(free, 'a', 'z', free)
	b.Bytes(free, '.', '.', end)
	b.Leave(at, '"', free)
	b.Text(start, `a"b`)
	last := b.Text(start, `a"c`)
	b.Empty(last, end)
	p, err := b.Program(rule, 1)
	if err != nil {
		t.Fatal(err)
	}
	m := p.Run()
	if _, free := m.Free(spell(m, m.Start(), `a"`)); !free {
		t.Error("after a key it is not free")
	}
	if s := spell(m, m.Blur(m.Start(), 4), `a"`); s.Left() != 0 {
		t.Error("both ways leave a key")
	} else if _, free := m.Free(s); free {
		t.Error("after a key that may be used it is free")
	}
}

// Counters are kept as far as a text may count.
func TestBlurCounters(t *testing.T) {
	var b Builder
	rule, start := b.Rule(false)
	chars, loop := b.Rule(false)
	body, end := b.Node(), b.Node()
	b.Loop(chars, loop, body, end)
	b.Bytes(body, 'a', 'a', loop)
	b.End(end)
	last := b.Node()
	b.End(last)
	b.Call(start, chars, last, 4, 9)
	p, err := b.Program(rule, 1)
	if err != nil {
		t.Fatal(err)
	}
	m := p.Run()
	for n := range 9 {
		s := spell(m, m.Start(), "aaaaaaaaa"[:n])
		blurred := m.Blur(s, 2)
		for k, text := range []string{"", "a", "aa"} {
			got, want := spell(m, blurred, text), spell(m, s, text)
			if (got == nil) != (want == nil) || got != nil && got.Accepts() != want.Accepts() {
				t.Errorf("%d after %d: %v, %v", k, n, got, want)
			}
		}
	}
	if a, b := spell(m, m.Start(), "aaaa"), spell(m, m.Start(), "aaaaa"); m.Blur(a, 2) != m.Blur(b, 2) {
		t.Error("equivalent counters for texts of two bytes differ")
	}
}
