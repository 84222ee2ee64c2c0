package infer

import "math"

// Rows of a step.
const (
	streamRows = 32 // a reading of a generating session has no more
	tileStep   = 8  // rows of a tile of the kernels
	leastStep  = 16 // rows of a step with a stream
	perStream  = 3  // rows of a step for each stream
	perText    = 16 // and for the square of the number of further texts
	shortStep  = 64 // rows of a step that ends a short text before long ones
	leastPart  = 4  // rows of a text, at any position
	crowd      = 3  // other sessions that disable a draft model
)

// choose sets the rows of each reading in the next pass and returns those that
// have any. All tokens of generating sessions pass, so far as maxBatch allows,
// then the texts to read: the one with the fewest rows left gets up to half of
// the room, then they follow in the order of arrival. If there are streams, the
// room is small, so that a step takes two to three times as long as without
// texts. While many wait it grows with the square of their number: answers are
// slower for a moment, and texts do not pile up. A reading with an observer passes alone.
func (q *schedule) choose(live []*reading, streams int) []*reading {
	q.part, q.texts = q.part[:0], q.texts[:0]
	if len(live) > 0 && live[0].s.observer != nil {
		return q.take(live[0], maxBatch)
	}
	rows := 0
	var short *reading
	for _, r := range live {
		switch {
		case r.s.observer != nil:
		case !r.stream():
			if q.texts = append(q.texts, r); short == nil || r.left() < short.left() {
				short = r
			}
		case rows+r.left() <= maxBatch:
			rows += r.left()
			q.take(r, r.left())
		}
	}
	if short == nil {
		return q.part
	}
	room := float64(maxBatch - rows)
	busy := max(rows, streams)
	switch {
	case busy > 0:
		more := len(q.texts) - 1
		n := max(leastStep, perStream*busy) + perText*more*more
		room = min(room, float64((n+tileStep-1)/tileStep*tileStep-rows))
	case len(q.texts) > 1 && short.left() <= shortStep:
		room = min(room, shortStep)
	}
	room = max(room, tileStep)
	part := room
	if len(q.texts) > 1 {
		part /= 2
	}
	room -= q.allot(short, part, busy > 0, true)
	for i, r := range q.texts {
		if room >= leastPart && r.to < r.rows {
			room -= q.allot(r, room, busy > 0, i == 0)
		}
	}
	return q.part
}

// allot adds rows of a text to the pass and returns the room that they take. If
// weighed, rows at later positions, whose attention takes longer, count more.
// Rows that cannot be divided pass without room if they must.
func (q *schedule) allot(r *reading, room float64, weighed, must bool) float64 {
	from, each := max(r.to, r.read), 1.0
	if weighed {
		each += float64(r.before+from) / r.s.m.farthest
	}
	n := max(leastPart, int(room/each))
	to := r.end(from, n)
	if to-from > n && !must {
		return 0
	}
	if to == from {
		return 0
	}
	if r.to <= r.read {
		q.part = append(q.part, r)
	}
	r.to = to
	return float64(to-from) * each
}

// end returns the end of the rows from from on, at most n or more that cannot be
// divided, that pass together.
func (r *reading) end(from, n int) int {
	if r.pause > 0 && r.read < r.pause {
		if from == r.pause {
			return from
		}
		n = min(n, r.pause-from)
	}
	return passEnd(r.blocks, r.before, from, r.rows, n)
}

// farthest returns the position at which attention takes as long as the
// weights. A number of attention takes about twice as long as one of a weight.
func farthest(c *Config) float64 {
	heads := float64(c.Heads * c.HeadDim)
	hidden := c.Hidden
	if c.Experts > 0 {
		hidden = c.ExpertsUsed * c.ExpertHidden
	}
	weights := float64(c.Width) * (2*heads + float64(2*c.KVHeads*c.HeadDim+3*hidden))
	if heads == 0 { // no layer has attention
		return math.Inf(1)
	}
	return weights / (2 * heads) / 2
}

// stream reports whether r is the next tokens of a generating session.
func (r *reading) stream() bool { return r.s.presence != outside && r.left() <= streamRows }

// take adds the next n rows of a reading to the pass.
func (q *schedule) take(r *reading, n int) []*reading {
	r.to = r.end(r.read, n)
	q.part = append(q.part, r)
	return q.part
}
