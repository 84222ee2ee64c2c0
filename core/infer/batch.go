package infer

import (
	"context"
	"fmt"
	"slices"
)

// Feed is what one session reads in a batch.
type Feed struct {
	Session *Session
	Inputs  []Input
}

// FeedBatch reads the inputs of several sessions in shared passes, which reads the
// weights once for all of them. Each session's logits are the same bit for bit as
// with [Session.FeedInputs]. All sessions are fed, or none and an error.
func (m *Model) FeedBatch(ctx context.Context, feeds ...Feed) error {
	all := make([]*reading, 0, len(feeds))
	for i, f := range feeds {
		if f.Session.m != m || slices.ContainsFunc(feeds[:i], func(g Feed) bool { return g.Session == f.Session }) {
			return fmt.Errorf("session %d of the batch belongs to another model or is in it twice", i)
		}
		r := &f.Session.current
		if err := f.Session.reading(r, f.Inputs, 1, nil); err != nil {
			return err
		}
		if r.rows > 0 {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return m.read(ctx, all, make(chan bool, len(all)+1))
}

// reading is the state of reading one session's inputs.
type reading struct {
	s      *Session
	in     []Input
	keep   int // the last rows whose logits are wanted
	each   func(row int, logits []float32)
	blocks []block
	places []place // nil: the positions
	before int     // positions of the session
	rows   int     // positions of in
	read   int     // rows that passed

	ctx    context.Context
	all    []*reading // of the call
	wake   chan bool  // receives true to lead, false when done
	begun  bool
	again  int     // positions of the session that are computed again
	handed int     // rows of in up to which each has the logits
	pause  int     // rows after which the state is marked; 0: none
	text   []int32 // of the session and the inputs; nil: not compared
	// The reading that computes the beginning of the text until a position.
	number, after uint64
	until         int
	to            int // end of the rows of the next pass
	done          bool
	err           error
}

// left returns the number of rows that did not pass.
func (r *reading) left() int { return r.rows - r.read }

// reading checks inputs of a session and sets r to read them.
func (s *Session) reading(r *reading, in []Input, keep int, each func(row int, logits []float32)) (err error) {
	s.shared = 0
	*r = reading{s: s, in: in, keep: keep, each: each, before: len(s.tokens)}
	for i := range in {
		if err := s.m.checkInput(&in[i]); err != nil {
			return err
		}
		r.rows += s.m.rowsOf(&in[i])
	}
	if r.rows > s.context-r.before {
		return fmt.Errorf("%w: %d of %d positions in use, %d more requested", ErrContext, r.before, s.context, r.rows)
	}
	r.blocks, err = s.arrange(in)
	r.places = s.layOut(in)
	return err
}

// begin prepares the session for its rows, once.
func (r *reading) begin() {
	r.settle()
	r.begun = true
	r.s.valid = false
	r.s.cache.Own(r.s.Len())
	r.s.cache.Reserve(r.before + r.rows)
}

// gather fills the model's input with the rows of readings up to their ends and
// sets m.spans to them.
func (m *Model) gather(part []*reading) {
	m.spans = m.spans[:0]
	rows := 0
	for _, r := range part {
		n := r.to - r.read
		m.spans = append(m.spans, r.span(r.to, rows))
		rows += n
	}
}

// span loads the rows up to to into the model's input, where they begin at row.
func (r *reading) span(to, row int) span {
	s := r.s
	c := s.m.cfg.Width
	n := to - r.read
	p := span{
		cache: s.cache, state: s.state.passes(), turns: s.turns, first: r.before + r.read, rows: n,
		keep:   max(0, min(n, to-(r.rows-r.keep))), // rows with logits are the last of the input
		blocks: r.blocks, deep: s.load(s.m.work.input(row + n)[row*c:], r.in, r.read, to),
	}
	p.tokens = s.tokens[len(s.tokens)-n:]
	if r.places != nil {
		p.places = r.places[r.read:to]
	}
	if s.keepHidden {
		at := len(s.hidden)
		s.hidden = slices.Grow(s.hidden, n*c)[:at+n*c]
		p.hidden = s.hidden[at:]
	}
	r.read = to
	return p
}

// take hands out the logits of a span, which begin at row, and returns their
// number.
func (r *reading) take(p *span, row int) int {
	s := r.s
	for i := range p.keep {
		logits := s.m.work.logits.row(row+i, s.m.cfg.Vocab)
		at := r.read - p.keep + i
		if at -= r.again; r.each != nil && at >= r.handed { // not again, after a preemption
			r.each(at, logits)
			r.handed = at + 1
		}
		if at == r.rows-r.again-1 {
			s.logits, s.valid = append(s.logits[:0], logits...), true
		}
	}
	return p.keep
}
