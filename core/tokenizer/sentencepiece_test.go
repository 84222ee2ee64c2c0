package tokenizer

import (
	"bytes"
	"slices"
	"testing"

	"mm-abi.org/mm/core/gguf"
)

// pieces returns a BPE on characters whose merges are in token order, with
// every pair that makes a token.
func pieces(texts ...string) Vocabulary {
	v := Vocabulary{Model: BPE, Pre: preChars, Special: NoSpecial, SpacePrefix: EveryPrefix}
	v.Tokens = append(v.Tokens, Token{Text: "<unk>", Type: Unknown})
	v.Special.Unknown = 0
	for b := range 256 {
		v.Tokens = append(v.Tokens, Token{Text: ByteToken(byte(b)), Type: Byte})
	}
	seen := map[string]bool{}
	for _, text := range texts {
		v.Tokens = append(v.Tokens, Token{Text: text, Type: Normal})
		seen[text] = true
		for i := range text {
			if i > 0 && seen[text[:i]] && seen[text[i:]] {
				v.Merges = append(v.Merges, Merge{text[:i], text[i:]})
			}
		}
	}
	return v
}

// TestSentencePiece: such a vocabulary is written as SPM and gives the same
// ids; one with other merges is unchanged.
func TestSentencePiece(t *testing.T) {
	good := pieces(spaceMark, "a", "b", "c", "ab", "bc", spaceMark+spaceMark, "abc", spaceMark+"ab", "cc")
	late := pieces(spaceMark, "a", "b", "c", "ab", "bc", "abc")
	late.Merges = append(late.Merges[1:], late.Merges[0]) // "ab" after "abc"
	split := pieces("a", "b", "c", "ab", "bc", "abc")
	split.Merges = []Merge{{"a", "b"}, {"a", "bc"}, {"b", "c"}, {"ab", "c"}}
	few := pieces("a", "b", "c", "ab", "bc", "abc")
	few.Merges = few.Merges[:3] // "abc" of one pair alone
	for name, c := range map[string]struct {
		v    Vocabulary
		want string
	}{"sentencepiece": {good, "llama"}, "another order": {late, "llama"}, "pairs apart": {split, "gpt2"}, "pairs missing": {few, "gpt2"}} {
		tok, err := New(c.v)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := gguf.Write(&b, tok.KVs(), nil); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Parse(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if model, err := gguf.Get[string](f, gguf.KeyTokenizerModel); err != nil || model != c.want {
			t.Errorf("%s: written as %s, %v, not %s", name, model, err, c.want)
		}
		back, err := FromGGUF(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"abc", "ab abc  cc é", "   ", "", "bcabcbcc"} {
			if x, y := tok.Encode(text, Options{}), back.Encode(text, Options{}); !slices.Equal(x, y) {
				t.Errorf("%s: %q is %v, and %v after a way through GGUF", name, text, x, y)
			}
		}
	}
}
