package infer

import (
	"context"
	"fmt"
	"slices"

	"mm-abi.org/mm/core/tensor"
)

// Input is a run of positions: tokens or vectors, exactly one of the two.
type Input struct {
	Tokens []int32
	// Vectors are n × (1+K)·C numbers: the input of each position and, if Deep
	// is set, the vectors added to the output of each of the first K layers
	// (DeepStack, arXiv 2406.04334). K is [Config.Deep].
	Vectors []float32
	Deep    bool
	// Grid arranges the vectors in frames, rows and columns, whose coordinates
	// rotate queries and keys if the model has [Rope.Sections]. The next place
	// follows the largest coordinate. If zero, vectors are a line.
	Grid [3]int
	// Mutual positions see each other, also later ones, in all layers.
	// Adjacent mutual inputs of one call form one block.
	Mutual bool
}

// maxMutual is the number of positions that see each other: they pass the model
// together.
const maxMutual = 4096

// place is the position that rotates queries and keys: frame, row and column.
// Those of text are the same.
type place [3]int32

// block is a run of positions that cannot be divided: a grid, or positions that
// see each other.
type block struct {
	first, rows int // positions
	span        int // places
	mutual      bool
}

func (b *block) end() int { return b.first + b.rows }

// mutualAt returns the block of the positions visible to a position, or nil.
func mutualAt(blocks []block, position int) *block {
	for i := range blocks {
		if b := &blocks[i]; b.mutual && b.first <= position && position < b.end() {
			return b
		}
	}
	return nil
}

// deepInput is the rows of a span with vectors for the first layers.
type deepInput struct {
	row     int       // of the span
	vectors []float32 // rows × (1+K)·C
}

// place returns the place of a row.
func (s *span) place(row int) place {
	if s.places != nil {
		return s.places[len(s.places)-s.rows+row] // shrink keeps the last rows
	}
	p := int32(s.first + row)
	return place{p, p, p}
}

// deepen adds the vectors for a layer to its output.
func (w *work) deepen(layer int) {
	c, k := w.m.cfg.Width, w.m.cfg.Deep
	if layer >= k {
		return
	}
	for _, s := range w.spans {
		for _, d := range s.deep {
			for t := range len(d.vectors) / ((1 + k) * c) {
				at := s.row + d.row + t
				tensor.Add(w.x[at*c:(at+1)*c], d.vectors[(t*(1+k)+1+layer)*c:][:c])
			}
		}
	}
}

// rowsOf returns the number of positions of an input.
func (m *Model) rowsOf(in *Input) int {
	if in.Tokens != nil {
		return len(in.Tokens)
	}
	return len(in.Vectors) / m.inputWidth(in)
}

// inputWidth returns the numbers of a vector.
func (m *Model) inputWidth(in *Input) int {
	if in.Deep {
		return (1 + m.cfg.Deep) * m.cfg.Width
	}
	return m.cfg.Width
}

// checkInput returns why the model cannot read an input.
func (m *Model) checkInput(in *Input) error {
	if len(in.Tokens) > 0 && len(in.Vectors) > 0 {
		return fmt.Errorf("bad input: got %d tokens and %d numbers, want one of the two", len(in.Tokens), len(in.Vectors))
	}
	for _, t := range in.Tokens {
		if t < 0 || int(t) >= m.cfg.Vocab {
			return fmt.Errorf("token %d out of range: vocabulary has %d", t, m.cfg.Vocab)
		}
	}
	switch grid := in.Grid != [3]int{}; {
	case len(in.Vectors)%m.inputWidth(in) != 0:
		return fmt.Errorf("bad input: %d numbers are not a multiple of %d", len(in.Vectors), m.inputWidth(in))
	case in.Deep && m.cfg.Deep == 0:
		return fmt.Errorf("vectors for further layers: architecture %s reads none", m.cfg.Arch)
	case grid && m.cfg.Rope.Sections == [3]int{}:
		return fmt.Errorf("grid of vectors: architecture %s has positions in a line only", m.cfg.Arch)
	case grid && !cells(in.Grid, m.rowsOf(in)):
		return fmt.Errorf("bad grid: got %v for %d vectors", in.Grid, m.rowsOf(in))
	}
	return nil
}

// cells reports whether a grid has n cells.
func cells(grid [3]int, n int) bool {
	for _, side := range grid {
		if side < 1 || side > n {
			return false
		}
	}
	return grid[0]*grid[1] <= n && grid[0]*grid[1]*grid[2] == n
}

// arrange returns the blocks of inputs that follow the session's positions.
func (s *Session) arrange(in []Input) ([]block, error) {
	var out []block
	at, joins := len(s.tokens), false
	for i := range in {
		n := s.m.rowsOf(&in[i])
		if n == 0 {
			continue
		}
		b := block{first: at, rows: n, span: n, mutual: in[i].Mutual}
		if g := in[i].Grid; g != [3]int{} {
			b.span = max(g[0], g[1], g[2])
		}
		switch {
		case b.mutual && joins:
			last := &out[len(out)-1]
			last.rows, last.span = last.rows+b.rows, last.span+b.span
		case b.mutual || in[i].Grid != [3]int{}:
			out = append(out, b)
		}
		at, joins = at+n, b.mutual
	}
	for _, b := range out {
		if b.mutual && b.rows > maxMutual {
			return nil, fmt.Errorf("positions that see each other: got %d, limit %d", b.rows, maxMutual)
		}
	}
	return out, nil
}

// Next returns the place of the next position: Len, unless a grid has another
// number of places than of vectors.
func (s *Session) Next() int {
	n := len(s.tokens)
	for _, b := range s.blocks {
		n += b.span - b.rows
	}
	return n
}

// layOut returns the places of the positions of inputs, or nil if they are the
// positions themselves.
func (s *Session) layOut(in []Input) []place {
	next := int32(s.Next())
	if int(next) == len(s.tokens) && !slices.ContainsFunc(in, func(x Input) bool { return x.Grid != [3]int{} }) {
		return nil
	}
	var out []place
	for i := range in {
		g, n := in[i].Grid, s.m.rowsOf(&in[i])
		if g == [3]int{} {
			for range n {
				out = append(out, place{next, next, next})
				next++
			}
			continue
		}
		for cell := range n {
			t, y, x := cell/(g[1]*g[2]), cell/g[2]%g[1], cell%g[2]
			out = append(out, place{next + int32(t), next + int32(y), next + int32(x)})
		}
		next += int32(max(g[0], g[1], g[2]))
	}
	return out
}

// FeedInputs reads inputs in order. Errors are those of Feed, and of an input
// that the model cannot read.
func (s *Session) FeedInputs(ctx context.Context, in ...Input) error {
	return s.feed(ctx, in, 1, nil)
}

// passEnd returns the end of the pass that begins at row from: at most most rows,
// or more to not divide positions that see each other. Rows count from the
// position first.
func passEnd(blocks []block, first, from, rows, most int) int {
	to := min(from+most, rows)
	b := mutualAt(blocks, first+to)
	if b == nil || b.first == first+to {
		return to
	}
	if b.first > first+from {
		return b.first - first
	}
	return b.end() - first
}

// load writes rows from to to of inputs into x and records the tokens. It returns
// the vectors for the first layers.
func (s *Session) load(x []float32, in []Input, from, to int) (deep []deepInput) {
	c := s.m.cfg.Width
	first := 0 // row of the input
	for i := range in {
		n := s.m.rowsOf(&in[i])
		lo, hi := max(from-first, 0), min(to-first, n)
		at := first + lo - from // row of the pass
		first += n
		if lo >= hi {
			continue
		}
		if in[i].Tokens != nil {
			for j, t := range in[i].Tokens[lo:hi] {
				s.m.embed(x[(at+j)*c:(at+j+1)*c], t)
			}
			s.tokens = append(s.tokens, in[i].Tokens[lo:hi]...)
			continue
		}
		width := s.m.inputWidth(&in[i])
		vectors := in[i].Vectors[lo*width : hi*width]
		for j := range hi - lo {
			copy(x[(at+j)*c:(at+j+1)*c], vectors[j*width:])
			s.tokens = append(s.tokens, vector)
		}
		if in[i].Deep {
			deep = append(deep, deepInput{row: at, vectors: vectors})
		}
	}
	return deep
}
