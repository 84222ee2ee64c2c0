package tokenizer_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/tokenizer"
)

// TestLinear compares the linear encoder with the heap, on vocabularies trained
// on text of few letters, which has the hardest borders.
func TestLinear(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	linear := 0
	for range 150 {
		letters := "abcde \n"[:2+rng.IntN(6)]
		text := func(n int) string {
			b := make([]byte, n)
			for i := range b {
				b[i] = letters[rng.IntN(len(letters))]
			}
			return string(b)
		}
		v, err := tokenizer.Train(slices.Values([]string{text(600), text(300), strings.Repeat(text(7), 20)}),
			tokenizer.TrainOptions{VocabSize: 256 + rng.IntN(120), Pre: tokenizer.PreNone})
		if err != nil {
			t.Fatal(err)
		}
		tok, err := tokenizer.New(v)
		if err != nil {
			t.Fatal(err)
		}
		if !tok.Linear() {
			continue
		}
		linear++
		heap := tok.WithoutLinear()
		for range 40 {
			s := text(rng.IntN(200))
			got, want := tok.Encode(s, tokenizer.Options{}), heap.Encode(s, tokenizer.Options{})
			if !slices.Equal(got, want) {
				t.Fatalf("%q\nlinear %v\nheap   %v\nmerges %v", s, got, want, v.Merges)
			}
		}
	}
	if linear < 50 {
		t.Errorf("only %d of 150 vocabularies are encoded in linear time", linear)
	}
}
