package modal

import (
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/train/llm"
)

// batch is documents prepared for the networks and the core.
type batch struct {
	llm.Batch[float32]
	docs  []document
	blank bool // zeros in place of the vectors

	// Inputs of the encoders: an item for each document that has one, in order.
	items map[Medium][]item
}

// item is an example's input to an encoder.
type item struct {
	row     int // of the document in the batch
	as      Medium
	key     int // of the example, for the cache of features; negative: not cached
	data    []float32
	words   [][]float32 // targets of the vectors, if words are learned
	caption string      // of the contrast, if it is learned
	frames  []item      // of a video, instead of data
	// tensor, instead of data, is the input of an ONNX encoder.
	tensor *preprocess.Tensor
}

// newBatch allocates B documents of T positions.
func newBatch(B, T int) *batch {
	n := B * T
	return &batch{
		Batch: llm.Batch[float32]{Tokens: make([]int32, n), Targets: make([]int32, n), Starts: make([]int32, n)},
		docs:  make([]document, B), items: map[Medium][]item{},
	}
}

// put writes the documents into the batch. The rest of a row is a separate
// document without targets.
func (b *batch) put(T int, pad int32) (terms int) {
	for row, d := range b.docs {
		tokens, targets, starts := b.Tokens[row*T:(row+1)*T], b.Targets[row*T:(row+1)*T], b.Starts[row*T:(row+1)*T]
		n := len(d.tokens)
		copy(tokens, d.tokens)
		copy(targets, d.targets)
		for i := range T {
			starts[i] = 0
			if d.starts != nil {
				starts[i] = d.starts[i]
			}
			if i >= n {
				tokens[i], targets[i], starts[i] = pad, -1, int32(n)
			}
		}
	}
	return llm.Count(b.Targets)
}
