package grammar

import (
	"strings"
	"testing"

	"mm-abi.org/mm/core/tokenizer"
)

// TestLimits: the forced text ends at maxForced bytes, a run is followed as far as
// it matters, and the cache of masks is dropped at maxCached bytes.
func TestLimits(t *testing.T) {
	v := tokenizer.Vocabulary{Model: tokenizer.BPE, Pre: "gpt-2", Special: tokenizer.NoSpecial, WholeWords: true}
	v.Tokens = append(v.Tokens, tokenizer.Token{Text: "</s>", Type: tokenizer.Control})
	v.Special.EOS = 0
	for b := range 256 {
		v.Tokens = append(v.Tokens, tokenizer.Token{Text: tokenizer.ToAlphabet(string([]byte{byte(b)}))})
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	masks := func(schema string) *Masks {
		g, err := New([]byte(schema), Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := g.Over(Read(tok))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for n, want := range map[int]int{maxForced - 1: maxForced, maxForced: maxForced + 1, maxForced + 1: maxForced} { // and the end
		m := masks(`{"const":"` + strings.Repeat("a", n-2) + `"}`)
		if got := len(m.Forced(m.Start())); got != want {
			t.Errorf("%d bytes: %d tokens are forced, want %d", n, got, want)
		}
	}
	m := masks(`{"type":"string","pattern":"^[0-9]{40}$"}`)
	for _, c := range [][2]int32{{0, 1}, {1, 1}, {39, 39}, {12, 39}, {40, 40}, {41, 40}} {
		s, _ := m.Next(m.Start(), m.tokens(`"`)[0])
		if got := m.run(s.at, c[0]).length; got != c[1] {
			t.Errorf("looking at %d of 40 digits: a run of %d, want %d", c[0], got, c[1])
		}
	}
	m = masks(`true`)
	at := m.Start().at
	m.cached = maxCached - 8
	if m.store(at, slotMask, nil, 8); m.cached != maxCached {
		t.Errorf("%d bytes are cached", m.cached)
	}
	if m.store(at, slotMask, nil, 1); m.cached != 0 {
		t.Errorf("%d bytes are cached, limit %d", m.cached, maxCached)
	}
}
