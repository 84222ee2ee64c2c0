package infer

// Rows of a step.
const (
	shortRows = 32 // a reading of so many rows passes before longer ones
	tileStep  = 8  // rows of a tile of the kernels
	leastStep = 16 // rows of a step with a stream
	perStream = 3  // rows of a step for each stream
	perText   = 8  // and for each further text that waits to be read
	crowd     = 3  // sessions beside which a draft model is not used
)

// choose sets the rows of each reading in the next pass and returns those that
// have any. All tokens of generating sessions pass, so far as maxBatch allows,
// then the texts to read: short rests first, then in the order of arrival. If
// there are streams, these get few rows, so that a step takes two to three times
// as long as without them, or longer while many texts wait. A reading with an observer passes alone.
func (q *schedule) choose(live []*reading, streams int) []*reading {
	q.part = q.part[:0]
	if len(live) > 0 && live[0].s.observer != nil {
		return q.take(live[0], maxBatch)
	}
	rows := 0
	for _, r := range live {
		if r.stream() && r.s.observer == nil && rows+r.left() <= maxBatch {
			rows += r.left()
			q.take(r, r.left())
		}
	}
	room := maxBatch - rows
	if n := max(rows, streams); n > 0 {
		waiting := 0
		for _, r := range live {
			if !r.stream() {
				waiting++
			}
		}
		n = max(leastStep, perStream*n) + perText*max(waiting-1, 0)
		room = max(min(room, (n+tileStep-1)/tileStep*tileStep-rows), tileStep)
	}
	short := room / 2 // the rest is for the oldest long text
	for _, r := range live {
		if n := r.left(); !r.stream() && n <= min(shortRows, short) && r.s.observer == nil && len(r.blocks) == 0 {
			short, room = short-n, room-n
			q.take(r, n)
		}
	}
	first := true
	for _, r := range live {
		if r.stream() || r.s.observer != nil || r.to > r.read || room < 1 {
			continue
		}
		n := passEnd(r.blocks, r.before, r.read, r.rows, room) - r.read
		if n <= room || first {
			room -= n
			q.take(r, n)
		}
		first = false
	}
	return q.part
}

// stream reports whether r is the next tokens of a generating session.
func (r *reading) stream() bool { return r.s.presence != outside && r.left() <= shortRows }

// take adds the next n rows of a reading to the pass.
func (q *schedule) take(r *reading, n int) []*reading {
	r.to = passEnd(r.blocks, r.before, r.read, r.rows, n)
	q.part = append(q.part, r)
	return q.part
}
