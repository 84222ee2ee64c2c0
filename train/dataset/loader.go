package dataset

import (
	"fmt"
	"sort"

	"math/rand/v2"
)

// Batch is B windows of T positions, the input of train/llm.
type Batch struct {
	B, T    int
	Tokens  []int32 // [B·T]
	Targets []int32 // [B·T]: next token, -1 without a target
	Starts  []int32 // [B·T]: index in the window at which the document begins
}

// NewBatch allocates a batch.
func NewBatch(b, t int) *Batch {
	n := b * t
	return &Batch{B: b, T: t, Tokens: make([]int32, n), Targets: make([]int32, n), Starts: make([]int32, n)}
}

// window fills row r with the tokens at…at+T-1 and their successors. Beyond the
// end, tokens are 0 without targets.
func (b *Batch) window(r int, t *Tokens, at int) {
	lo, hi := r*b.T, (r+1)*b.T
	row, next, starts := b.Tokens[lo:hi], b.Targets[lo:hi], b.Starts[lo:hi]
	clear(row)
	have := max(min(b.T+1, t.Len()-at), 0)
	t.Read(row[:min(have, b.T)], at)
	for i := range next {
		next[i] = -1
	}
	if have > 1 {
		t.Read(next[:have-1], at+1)
	}
	doc := sort.Search(len(t.docs), func(i int) bool { return t.docs[i] > int64(at) }) - 1
	for i := range row {
		for doc+1 < len(t.docs) && t.docs[doc+1] <= int64(at+i) {
			doc++
		}
		starts[i] = 0
		if doc >= 0 {
			starts[i] = int32(max(t.docs[doc]-int64(at), 0))
		}
		if doc+1 < len(t.docs) && t.docs[doc+1] == int64(at+i+1) {
			next[i] = -1 // the next token begins another document
		}
	}
	t.silence(next, at, have)
}

// silence removes context tokens from the targets of have positions from at;
// the target before context is its end token.
func (t *Tokens) silence(targets []int32, at, have int) {
	for s := t.spanAt(at + 1); s < len(t.context) && t.context[s].from < int64(at+have); s++ {
		g := t.context[s]
		for i := max(int(g.from)-at, 1); i < min(int(g.to)-at, have); i++ {
			targets[i-1] = -1
		}
		if i := int(g.from) - at; i >= 1 {
			targets[i-1] = int32(g.end)
		}
	}
}

// Position is the position of a Loader, from which a run resumes.
type Position struct {
	Seed  uint64 `json:"seed"`
	Epoch int    `json:"epoch"`
	Next  int    `json:"next"` // windows of the epoch already used
}

// Loader reads tokens in windows of T positions. In every epoch each window
// comes once, in an order drawn from the seed. The offset of the windows is
// drawn for each epoch, so that epochs split the text at different positions.
type Loader struct {
	tokens *Tokens
	t      int
	pos    Position
	order  []int32
	offset int
}

// NewLoader starts at pos. There must be at least T+1 tokens.
func NewLoader(t *Tokens, T int, pos Position) (*Loader, error) {
	if T < 1 || t.Len() < T+1 {
		return nil, fmt.Errorf("windows of %d positions in %d tokens", T, t.Len())
	}
	l := &Loader{tokens: t, t: T, pos: pos}
	l.shuffle()
	if pos.Epoch < 0 || pos.Next < 0 || pos.Next > len(l.order) {
		return nil, fmt.Errorf("data position %d of epoch %d out of range, epoch has %d windows", pos.Next, pos.Epoch, len(l.order))
	}
	return l, nil
}

// shuffle draws the order of the epoch's windows.
func (l *Loader) shuffle() {
	r := rand.NewPCG(l.pos.Seed, 0xc2b2ae3d27d4eb4f^uint64(l.pos.Epoch))
	spare := l.tokens.Len() - 1 - l.t
	l.offset = int(below(r, uint64(min(l.t, spare+1))))
	l.order = permutation((l.tokens.Len()-1-l.offset)/l.t, l.pos.Seed, uint64(l.pos.Epoch)+1)
}

// Next fills the batch with the next windows, continuing into the next epoch.
func (l *Loader) Next(b *Batch) {
	if b.T != l.t {
		panic("dataset: length mismatch of batch and loader")
	}
	for r := range b.B {
		b.window(r, l.tokens, l.Skip())
	}
}

// Position is where the next batch begins.
func (l *Loader) Position() Position { return l.pos } // Position returns the start of the next batch.

// Windows yields batches that together contain every token once, in order, each
// predicted from the preceding tokens of its window: the fixed set for
// evaluation. At most limit windows are used; 0 means all. The batch is reused.
func Windows(t *Tokens, b *Batch, limit int) func(yield func(*Batch) bool) {
	n := (t.Len() - 2 + b.T) / b.T
	if limit > 0 {
		n = min(n, limit)
	}
	return func(yield func(*Batch) bool) {
		for w := 0; w < n; w += b.B {
			for r := range b.B {
				at := (w + r) * b.T
				if w+r >= n {
					at = t.Len() // empty window
				}
				b.window(r, t, at)
			}
			if !yield(b) {
				return
			}
		}
	}
}
