package dataset

import (
	"fmt"

	"mm-abi.org/mm/core/tokenizer"
)

// EncodeEach encodes documents, each into its own tokens.
func EncodeEach(docs []Document, tok *tokenizer.Tokenizer, opt EncodeOptions) ([]*Tokens, error) {
	all := make([]*Tokens, len(docs))
	for i := range docs {
		t, err := Encode(docs[i:i+1], tok, opt)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		all[i] = t
	}
	return all, nil
}

// WindowsOf yields batches that together contain every token of every document
// once, each predicted from the preceding tokens of its window, and the document
// of each row; -1 for an empty row. Both are reused.
func WindowsOf(docs []*Tokens, b *Batch) func(yield func(of []int, b *Batch) bool) {
	return func(yield func(of []int, b *Batch) bool) {
		of, row := make([]int, b.B), 0
		for i, t := range docs {
			for at := 0; at < t.Len()-1; at += b.T {
				b.window(row, t, at)
				of[row] = i
				if row++; row < b.B {
					continue
				}
				if row = 0; !yield(of, b) {
					return
				}
			}
		}
		if row == 0 {
			return
		}
		for ; row < b.B; row++ {
			b.window(row, docs[0], docs[0].Len())
			of[row] = -1
		}
		yield(of, b)
	}
}
