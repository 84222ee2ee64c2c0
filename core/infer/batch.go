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
	return m.read(ctx, all)
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
}

// reading checks inputs of a session and sets r to read them.
func (s *Session) reading(r *reading, in []Input, keep int, each func(row int, logits []float32)) (err error) {
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

// read runs readings to their end, or undoes them all.
func (m *Model) read(ctx context.Context, all []*reading) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	defer func() {
		for _, r := range all {
			if err != nil {
				r.s.cut(r.before)
			} else {
				r.s.blocks = append(r.s.blocks, r.blocks...)
			}
		}
	}()
	for _, r := range all {
		r.s.valid = false
		r.s.cache.Reserve(r.before + r.rows)
	}
	for {
		part, observer := m.gather(all)
		if len(part) == 0 {
			return nil
		}
		if err := m.forward(ctx, newPass(observer, m.spans...)); err != nil {
			return err
		}
		row := 0
		for i, r := range part {
			row += r.take(&m.spans[i], row)
		}
	}
}

// gather loads the next pass of unfinished readings and sets m.spans to its rows.
// A reading with an observer passes alone.
func (m *Model) gather(all []*reading) (part []*reading, observer Observer) {
	m.spans = m.spans[:0]
	rows := 0
	for _, r := range all {
		if r.read == r.rows {
			continue
		}
		to := passEnd(r.blocks, r.before, r.read, r.rows)
		n := to - r.read
		if len(part) > 0 && (rows+n > maxBatch || r.s.observer != nil) {
			continue
		}
		m.spans = append(m.spans, r.span(to, rows))
		part, rows = append(part, r), rows+n
		if r.s.observer != nil {
			return part, r.s.observer
		}
	}
	return part, nil
}

// span loads the rows up to to into the model's input, where they begin at row.
func (r *reading) span(to, row int) span {
	s := r.s
	c := s.m.cfg.Width
	n := to - r.read
	p := span{
		cache: s.cache, turns: s.turns, first: r.before + r.read, rows: n,
		keep:   max(0, min(n, to-(r.rows-r.keep))), // rows with logits are the last of the input
		blocks: r.blocks, deep: s.load(s.m.work.input(row + n)[row*c:], r.in, r.read, to),
	}
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
		if r.each != nil {
			r.each(at, logits)
		}
		if at == r.rows-1 {
			s.logits, s.valid = append(s.logits[:0], logits...), true
		}
	}
	return p.keep
}
