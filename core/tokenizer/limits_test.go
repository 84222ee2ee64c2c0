package tokenizer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLimits has a value at each limit, and one beyond it. A file at the limit
// is refused for another reason, or accepted.
func TestLimits(t *testing.T) {
	vocabulary := func(tokens, merges int) error {
		v := Vocabulary{Tokens: make([]Token, tokens), Merges: make([]Merge, merges), Special: NoSpecial}
		return v.check()
	}
	long := func(n int) error {
		v := Vocabulary{Tokens: []Token{{Text: strings.Repeat("x", n)}}, Special: NoSpecial}
		return v.check()
	}
	merge := func(n int) error {
		_, _, err := (&Tokenizer{}).border(Merge{Left: "a", Right: strings.Repeat("b", n-1)})
		return err
	}
	train := func(n int) error {
		_, err := Train(slices.Values([]string{"ab"}), TrainOptions{VocabSize: n})
		return err
	}
	nested := func(n int) error {
		_, err := parseXML(strings.Repeat("<a>", n) + strings.Repeat("</a>", n))
		return err
	}
	file := func(n int) error {
		path := filepath.Join(t.TempDir(), "a.txt")
		if err := os.WriteFile(path, []byte(strings.Repeat("x", n)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadText(path)
		return err
	}
	unigram := func(n int) error {
		v := Vocabulary{Model: Unigram, Pre: preChars, Special: NoSpecial}
		for ; n > 0; n -= 1 << 15 {
			v.Tokens = append(v.Tokens, Token{Text: strings.Repeat("x", min(n, 1<<15))})
		}
		return v.check()
	}
	word := func(n int) error {
		v := Vocabulary{Model: WordPiece, Tokens: make([]Token, 1), Special: NoSpecial, LongestWord: n}
		return v.check()
	}
	table := func(n int) error {
		_, err := parseCharsmap(make([]byte, n))
		return err
	}
	sentinels := func(n int) error { return (&hfConfig{ExtraIDs: &n}).sentinels() }
	between := func(n int) error {
		v := Vocabulary{Tokens: make([]Token, 1), Special: NoSpecial, AddEOS: true, Pair: Pair{Between: n}}
		v.Special.EOS = 0
		return v.check()
	}
	for _, c := range []struct {
		name  string
		limit int
		check func(n int) error
		want  string
	}{
		{"maxTokens", maxTokens, func(n int) error { return vocabulary(n, 0) }, "limits"},
		{"maxMerges", maxMerges, func(n int) error { return vocabulary(1, n) }, "limits"},
		{"maxTokenBytes of a token", maxTokenBytes, long, "too long"},
		{"maxTokenBytes of a merge", maxTokenBytes, merge, "more than 65536 bytes"},
		{"maxUnigramBytes", maxUnigramBytes, unigram, "too long"},
		{"maxLongestWord", maxLongestWord, word, "limit"},
		{"maxCharsmap", maxCharsmap, table, "limit"},
		{"maxExtraIDs", maxExtraIDs, sentinels, "limit"},
		{"tokens between two texts", 2, between, "at most 2"},
		{"maxVocabSize", maxVocabSize, train, "bad vocabulary size"},
		{"maxDepth", maxDepth, nested, "nested deeper"},
		{"MaxFertilityFile", MaxFertilityFile, file, ""},
	} {
		if err := c.check(c.limit); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := c.check(c.limit + 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s + 1: %v", c.name, err)
		}
	}
	for n, want := range map[int]bool{maxHuggingFace: false, maxHuggingFace + 1: true} {
		for _, files := range [][2][]byte{{make([]byte, n), nil}, {nil, make([]byte, n)}} {
			if _, err := FromHuggingFace(files[0], files[1]); err == nil || strings.Contains(err.Error(), "larger than") != want {
				t.Errorf("maxHuggingFace: %d bytes: %v", n, err)
			}
		}
	}
	for n, want := range map[int]bool{255: false, 256: true} {
		if err := train(n); (err == nil) != want {
			t.Errorf("VocabSize %d: %v", n, err)
		}
	}
}

// TestMaxTextBytes has texts of maxTextBytes, and of a byte more.
func TestMaxTextBytes(t *testing.T) {
	if err := fitsText(maxTextBytes); err != nil {
		t.Error(err)
	}
	if err := fitsText(maxTextBytes + 1); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("maxTextBytes + 1: %v", err)
	}
}

// TestMaxPart has a part of maxPart bytes, and one of a byte less.
func TestMaxPart(t *testing.T) {
	if tooLong(1, maxPart) || !tooLong(1, maxPart+1) {
		t.Errorf("the limit is not %d", maxPart)
	}
}
