package grammar

import (
	"fmt"
	"strings"
	"testing"

	"mm-abi.org/mm/core/tokenizer"
)

// TestLimits: the forced text ends at maxForced bytes, a run at maxChain
// characters, and the cache of masks is dropped at maxCached bytes.
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
	for n, want := range map[int]int{maxChain: maxChain, maxChain + 1: maxChain + 1, maxChain + 2: maxChain + 1} {
		m := masks(fmt.Sprintf(`{"type":"string","pattern":"^[0-9]{%d}$"}`, n))
		s, _ := m.Next(m.Start(), m.tokens(`"`)[0])
		if got := m.chain(s.at, 0).length; int(got) != want {
			t.Errorf("a run of %d digits has the length %d, want %d", n, got, want)
		}
	}
	m := masks(`true`)
	at := m.Start().at
	m.cached = maxCached - 8
	if m.store(at, slotMask, nil, 8); m.cached != maxCached {
		t.Errorf("%d bytes are cached", m.cached)
	}
	if m.store(at, slotMask, nil, 1); m.cached != 0 {
		t.Errorf("%d bytes are cached, limit %d", m.cached, maxCached)
	}
}
