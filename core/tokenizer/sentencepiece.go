package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// sentencePiece converts a BPE on characters derived from a SentencePiece model
// to SPM, the GGUF form of such a model: the earlier a token is merged, the
// better its score. It is equivalent if merges of one token are consecutive,
// and every pair that makes a token is among them; equal ids are verified on
// the texts of all tokens.
func (t *Tokenizer) sentencePiece() (Vocabulary, bool) {
	if t.vocab.Model != BPE || t.vocab.Pre != preChars || len(t.vocab.Normalizer) > 0 || t.vocab.WholeWords || t.bpe.drops || t.vocab.FuseUnknown && t.vocab.Special.Unknown != None {
		return Vocabulary{}, false
	}
	v := t.Vocabulary()
	rank := make(map[string]int, len(v.Tokens)) // of the token that a merge creates, from 1
	pairs := make(map[Merge]bool, len(v.Merges))
	last := ""
	for _, m := range v.Merges {
		union := m.Left + m.Right
		if rank[union] != 0 && union != last {
			return v, false
		}
		if rank[union] == 0 {
			rank[union] = len(rank) + 1
		}
		pairs[m], last = true, union
	}
	normal := make(map[string]bool, len(v.Tokens))
	for _, tok := range v.Tokens {
		if _, ok := byteOf(tok.Text); ok && tok.Type != Byte {
			return v, false // SPM would fall back to it
		}
		normal[tok.Text] = tok.Type == Normal
	}
	v.Model, v.Pre, v.Merges = SPM, "", nil
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
			if i > 0 && normal[tok.Text[:i]] && normal[tok.Text[i:]] && !pairs[Merge{tok.Text[:i], tok.Text[i:]}] {
				return v, false
			}
		}
	}
	spm, err := New(v)
	return v, err == nil && t.agrees(spm)
}

// agrees compares the ids of every token's text and of runs of one character,
// where merges compete.
func (t *Tokenizer) agrees(other *Tokenizer) bool {
	const most = 1 << 20 // bytes
	var b strings.Builder
	for id := range int32(t.words.size()) {
		if b.Len() > most {
			break
		}
		if Type(t.words.types[id]) == Normal {
			b.WriteString(t.words.piece(id))
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
