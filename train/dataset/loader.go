package dataset

import (
	"fmt"
	"sort"

	"math/rand/v2"
)

// Batch is B windows of T positions, as train/llm takes them.
type Batch struct {
	B, T    int
	Tokens  []int32 // [B·T]
	Targets []int32 // [B·T]: the token to say next, -1 where there is none to learn
	Starts  []int32 // [B·T]: position in the window where the document begins
}

// NewBatch allocates a batch.
func NewBatch(b, t int) *Batch {
	n := b * t
	return &Batch{B: b, T: t, Tokens: make([]int32, n), Targets: make([]int32, n), Starts: make([]int32, n)}
}

// window fills row r with the positions from at on: tokens at…at+T-1 and the
// ones after them. Beyond the end tokens are 0 and nothing is to be learnt.
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
			next[i] = -1 // the next token opens another document
		}
	}
	t.silence(next, at, have)
}

// silence takes the targets of given tokens out of those of the positions from
// at on, whose row reads have tokens; before a given part the end is the target.
func (t *Tokens) silence(targets []int32, at, have int) {
	for s := t.spanAt(at + 1); s < len(t.given) && t.given[s].from < int64(at+have); s++ {
		g := t.given[s]
		for i := max(int(g.from)-at, 1); i < min(int(g.to)-at, have); i++ {
			targets[i-1] = -1
		}
		if i := int(g.from) - at; i >= 1 {
			targets[i-1] = int32(g.end)
		}
	}
}

// Position is where a Loader stands: all that a run needs to go on.
type Position struct {
	Seed  uint64 `json:"seed"`
	Epoch int    `json:"epoch"`
	Next  int    `json:"next"` // windows of the epoch already used
}

// Loader walks tokens in windows of T positions. In every epoch each window
// comes once, in an order drawn from the seed; the windows' first position is
// drawn anew, so that epochs do not cut the text at the same places.
type Loader struct {
	tokens *Tokens
	t      int
	pos    Position
	order  []int32
	offset int
}

// NewLoader starts at the position given. There must be at least T+1 tokens.
func NewLoader(t *Tokens, T int, pos Position) (*Loader, error) {
	if T < 1 || t.Len() < T+1 {
		return nil, fmt.Errorf("windows of %d positions in %d tokens", T, t.Len())
	}
	l := &Loader{tokens: t, t: T, pos: pos}
	l.shuffle()
	if pos.Epoch < 0 || pos.Next < 0 || pos.Next > len(l.order) {
		return nil, fmt.Errorf("data position %d of epoch %d lies outside %d windows", pos.Next, pos.Epoch, len(l.order))
	}
	return l, nil
}

// shuffle draws the epoch's windows.
func (l *Loader) shuffle() {
	r := rand.NewPCG(l.pos.Seed, 0xc2b2ae3d27d4eb4f^uint64(l.pos.Epoch))
	spare := l.tokens.Len() - 1 - l.t
	l.offset = int(below(r, uint64(min(l.t, spare+1))))
	l.order = permutation((l.tokens.Len()-1-l.offset)/l.t, l.pos.Seed, uint64(l.pos.Epoch)+1)
}

// Next fills the batch with the following windows, going on into the next epoch
// where one ends.
func (l *Loader) Next(b *Batch) {
	if b.T != l.t {
		panic("dataset: batch and loader differ in length")
	}
	for r := range b.B {
		if l.pos.Next == len(l.order) {
			l.pos.Epoch, l.pos.Next = l.pos.Epoch+1, 0
			l.shuffle()
		}
		b.window(r, l.tokens, l.offset+int(l.order[l.pos.Next])*l.t)
		l.pos.Next++
	}
}

// Position is where the next batch begins.
func (l *Loader) Position() Position { return l.pos }

// Windows yields batches that together hold every token once, in order, each
// predicted from what its window holds before it: the fixed set to evaluate
// on. At most limit windows are taken; 0 means all. The batch is reused.
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
					at = t.Len() // an empty window
				}
				b.window(r, t, at)
			}
			if !yield(b) {
				return
			}
		}
	}
}
