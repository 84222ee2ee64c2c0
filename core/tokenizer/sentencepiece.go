package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// sentencePiece gives the same tokenizer as SPM, the form in which GGUF files
// hold a BPE on characters that was made of SentencePiece's model: the earlier
// a token is merged, the better its score. It is the same where merges of one
// token stand together, and every pair that makes a token is among them; that
// both give the same ids is tried on all the vocabulary's own texts.
func (t *Tokenizer) sentencePiece() (Vocabulary, bool) {
	v := t.vocab
	if v.Model != BPE || v.Pre != preChars || v.NFC || v.WholeWords {
		return v, false
	}
	rank := make(map[string]int, len(v.Tokens)) // of the token that a merge makes, from 1
	pairs := make(map[Merge]bool, len(v.Merges))
	last := ""
	for _, m := range v.Merges {
		made := m.Left + m.Right
		if rank[made] != 0 && made != last {
			return v, false
		}
		if rank[made] == 0 {
			rank[made] = len(rank) + 1
		}
		pairs[m], last = true, made
	}
	known := make(map[string]bool, len(v.Tokens))
	for _, tok := range v.Tokens {
		known[tok.Text] = tok.Type == Normal
	}
	v.Model, v.Pre, v.Merges, v.Tokens = SPM, "", nil, slices.Clone(v.Tokens)
	for id := range v.Tokens {
		tok := &v.Tokens[id]
		tok.Score = -float32(len(rank) + 1 + id)
		if r := rank[tok.Text]; r != 0 {
			tok.Score = -float32(r)
		}
		if tok.Type != Normal {
			continue
		}
		for i, size := 0, 0; i < len(tok.Text); i += size {
			_, size = utf8.DecodeRuneInString(tok.Text[i:])
			if i > 0 && known[tok.Text[:i]] && known[tok.Text[i:]] && !pairs[Merge{tok.Text[:i], tok.Text[i:]}] {
				return v, false
			}
		}
	}
	spm, err := New(v)
	return v, err == nil && t.agrees(spm)
}

// agrees compares the ids of texts that try every token, and runs of one
// character, in which merges compete.
func (t *Tokenizer) agrees(other *Tokenizer) bool {
	const most = 1 << 20 // bytes
	var b strings.Builder
	for _, tok := range t.vocab.Tokens {
		if b.Len() > most {
			break
		}
		if tok.Type == Normal {
			b.WriteString(unmark(tok.Text))
		}
	}
	for n := range 40 {
		for _, c := range []string{" ", "a", "\n", "=", "-", "0", "."} {
			b.WriteString(strings.Repeat(c, n))
			b.WriteString("x")
		}
	}
	text := b.String()
	for _, opt := range []Options{{}, {Add: true, Special: true}} {
		if !slices.Equal(t.Encode(text, opt), other.Encode(text, opt)) {
			return false
		}
	}
	return true
}
