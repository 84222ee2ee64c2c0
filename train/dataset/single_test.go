package dataset

import (
	"math"
	"testing"
)

// Documents one by one have the predictions and the losses of all together, and their
// windows hold every prediction once.
func TestEach(t *testing.T) {
	tok := bosTokens(t)
	docs := []Document{{Text: "abcdefgab"}, {Text: "mno"}, {Text: "hijkabcdefgabc"}}
	together, err := Encode(docs, tok, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	each, err := EncodeEach(docs, tok, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v := tok.Size()
	want, err := NGrams(together, together, v)
	if err != nil {
		t.Fatal(err)
	}
	all, err := NGramsOf(together, each, v)
	if err != nil {
		t.Fatal(err)
	}
	n, sum := 0, 0.0
	for _, b := range all {
		n += b.Predictions
		sum += b.Trigram * float64(b.Predictions)
	}
	if n != want.Predictions || math.Abs(sum/float64(n)-want.Trigram) > 1e-12 {
		t.Errorf("got %d predictions, trigram %v, want %d, %v", n, sum/float64(n), want.Predictions, want.Trigram)
	}
	for _, T := range []int{2, 3, 64} {
		got := make([]int, len(docs))
		for of, b := range WindowsOf(each, NewBatch(2, T)) {
			for r, i := range of {
				for _, target := range b.Targets[r*T : (r+1)*T] {
					if target >= 0 {
						got[i]++
					}
				}
			}
		}
		for i, b := range all {
			if got[i] != b.Predictions {
				t.Errorf("windows of %d: document %d has %d predictions, want %d", T, i, got[i], b.Predictions)
			}
		}
	}
	if _, err := EncodeEach([]Document{{}}, tok, EncodeOptions{}); err == nil && tok.Special().EOS < 0 {
		t.Error("accepted a document without tokens")
	}
	if _, err := NGramsOf(together, each, 2); err == nil {
		t.Error("accepted ids beyond the vocabulary")
	}
}
