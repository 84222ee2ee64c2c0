package tokenizer

import "fmt"

// Pair is how two texts are joined: the token before the first and after each is
// that of one text.
type Pair struct {
	// Between is the number of separators between the texts, 1 or 2; 0: the
	// vocabulary does not join texts.
	Between int
	// Second marks the second text and the token after it as another segment.
	Second bool
}

// Sequence holds the ids of one text, or of two, as an encoder reads them.
type Sequence struct {
	IDs      []int32
	Segments []int32 // 0, or 1 for the second text where the model distinguishes them
}

// longestWord returns the limit of a word of WordPiece.
func (v *Vocabulary) longestWord() int {
	if v.LongestWord == 0 {
		return 100
	}
	return v.LongestWord
}

// spacedModel reports whether the tokens of the algorithm use ▁ for a space.
func (v *Vocabulary) spacedModel() bool { return v.Model == SPM || v.Model == Unigram }

func (v *Vocabulary) checkPair(tokens int) error {
	switch {
	case v.Pair.Between < 0 || v.Pair.Between > 2:
		return fmt.Errorf("%d tokens between two texts, want at most 2", v.Pair.Between)
	case v.Pair.Between > 0 && (!v.AddEOS || v.Special.EOS == None || int(v.Special.EOS) >= tokens):
		return fmt.Errorf("texts are joined by a token that the vocabulary lacks")
	case v.LongestWord < 0 || v.LongestWord > maxLongestWord:
		return fmt.Errorf("words of %d characters, limit %d", v.LongestWord, maxLongestWord)
	}
	return nil
}

// Join returns the sequence of a text and, if joined is set, a second one. If it
// exceeds limit tokens, both texts are cut at their ends, the longer one first; 0:
// no limit.
func (t *Tokenizer) Join(first, second string, joined bool, limit int) (Sequence, error) {
	a := t.Encode(first, Options{Special: true})
	var b []int32
	if joined {
		if t.vocab.Pair.Between == 0 {
			return Sequence{}, fmt.Errorf("tokenizer: the vocabulary does not join two texts")
		}
		b = t.Encode(second, Options{Special: true})
	}
	around := 0
	if t.vocab.AddBOS {
		around++
	}
	if t.vocab.AddEOS {
		around++
	}
	if joined {
		around += t.vocab.Pair.Between
	}
	if limit > 0 && limit < around {
		return Sequence{}, fmt.Errorf("tokenizer: a limit of %d tokens has no room for the %d around a text", limit, around)
	}
	if limit > 0 {
		a, b = cutPair(a, b, limit-around)
	}
	s := Sequence{IDs: make([]int32, 0, len(a)+len(b)+around)}
	if t.vocab.AddBOS {
		s.IDs = append(s.IDs, t.vocab.Special.BOS)
	}
	s.IDs = append(s.IDs, a...)
	end := func(n int) {
		for range n {
			s.IDs = append(s.IDs, t.vocab.Special.EOS)
		}
	}
	if joined {
		end(t.vocab.Pair.Between)
	}
	from := len(s.IDs)
	s.IDs = append(s.IDs, b...)
	if t.vocab.AddEOS {
		end(1)
	}
	s.Segments = make([]int32, len(s.IDs))
	if joined && t.vocab.Pair.Second {
		for i := from; i < len(s.Segments); i++ {
			s.Segments[i] = 1
		}
	}
	return s, nil
}

// cutPair cuts two texts to limit tokens together, as Hugging Face's strategy
// longest_first does.
func cutPair(a, b []int32, limit int) ([]int32, []int32) {
	n, m := len(a), len(b)
	if n+m <= limit {
		return a, b
	}
	low := min(n, m)
	high := max(low, limit-low)
	if low+high > limit {
		low = limit / 2
		high = low + limit%2
	}
	if n > m {
		return a[:high], b[:low]
	}
	return a[:low], b[:high]
}
