package infer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// schedule gathers the rows that sessions of a model read into steps: passes that
// read the weights once for the rows of all of them.
//
// The caller of the first reading computes steps in its own goroutine until its
// reading is complete, then hands the lead to the caller of a pending one: a
// session alone never waits for another goroutine. Before a step the leader
// waits a moment for the sessions that generate and are choosing their next
// token.
type schedule struct {
	mu      sync.Mutex
	pending []*reading // by arrival
	count   uint64     // of readings
	led     bool       // a caller computes steps
	writers []*Session // that generate
	away    int        // writers whose next reading is awaited
	late    int        // writers whose next reading took too long
	arrived chan struct{}
	timer   *time.Timer
	took    time.Duration // of the last step

	// Of the step, and the leader's.
	now, live, part, texts []*reading
}

// presence is the state of a session with regard to the schedule.
type presence int

const (
	outside presence = iota // does not generate
	asking                  // its reading is pending
	away                    // it chooses a token, and its next reading is awaited
	late                    // it is not awaited
)

// The time that a step waits for sessions that are choosing a token: a part of
// the last step's time within limits.
const (
	waitShare = 4
	leastWait = 200 * time.Microsecond
	mostWait  = 10 * time.Millisecond
)

func (q *schedule) init() {
	q.arrived = make(chan struct{}, 1)
	q.timer = time.NewTimer(time.Hour)
	q.timer.Stop()
}

// enter registers a session that generates, leave the end of that.
func (q *schedule) enter(s *Session) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.presence = late // until its first reading
	q.late++
	q.writers = append(q.writers, s)
}

func (q *schedule) leave(s *Session) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turn(s, outside)
	if i := slices.Index(q.writers, s); i >= 0 {
		q.writers = slices.Delete(q.writers, i, i+1)
	}
}

// turn changes the presence of a session that generates. The mutex is held.
func (q *schedule) turn(s *Session, to presence) {
	switch s.presence {
	case outside:
		return
	case away:
		if q.away--; q.away == 0 {
			select {
			case q.arrived <- struct{}{}:
			default:
			}
		}
	case late:
		q.late--
	}
	switch s.presence = to; to {
	case away:
		q.away++
	case late:
		q.late++
	}
}

// others returns how many other sessions read or generate.
func (q *schedule) others(s *Session) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.writers) - q.late
	for _, r := range q.pending {
		if r.s.presence == outside {
			n++
		}
	}
	if s.presence == away || s.presence == asking {
		n--
	}
	return n
}

// read runs readings of a caller to their end, or undoes them all.
func (m *Model) read(ctx context.Context, all []*reading, wake chan bool) (err error) {
	q := &m.schedule
	for _, r := range all {
		r.s.users.Add(1)
		defer r.s.users.Add(-1)
	}
	q.mu.Lock()
	for _, r := range all {
		q.count++
		r.ctx, r.all, r.wake, r.number = ctx, all, wake, q.count
		q.turn(r.s, asking)
	}
	q.pending = append(q.pending, all...)
	lead := !q.led
	q.led = true
	q.mu.Unlock()
	for left := len(all); !lead && left > 0; {
		if lead = <-wake; !lead {
			left--
		}
	}
	if lead {
		m.lead(all)
	}
	for _, r := range all {
		if err == nil {
			err = r.err
		}
	}
	for _, r := range all {
		if err != nil {
			r.undo()
		} else {
			r.s.blocks = append(r.s.blocks, r.blocks...)
		}
	}
	return err
}

// lead computes steps until the readings of the caller are complete.
func (m *Model) lead(own []*reading) {
	q := &m.schedule
	done := false
	defer func() {
		if !done { // a panic of the caller's code must not block the others
			m.abandon()
		}
	}()
	for slices.ContainsFunc(own, func(r *reading) bool { return !r.done }) {
		m.step(own[0].wake)
	}
	done = true
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.led = len(q.pending) > 0; q.led {
		q.pending[0].wake <- true
	}
}

// abandon ends all readings after a panic of the leader.
func (m *Model) abandon() {
	q := &m.schedule
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.pending {
		r.done, r.err = true, ErrClosed
		if r.wake != nil {
			r.wake <- false
		}
	}
	q.pending, q.led = nil, false
}

// step computes one pass and wakes the callers of complete readings, except the
// leader, whose channel is own.
func (m *Model) step(own chan bool) {
	q := &m.schedule
	q.mu.Lock()
	q.await()
	q.now = append(q.now[:0], q.pending...)
	streams, absent := len(q.writers)-q.late, q.away+q.late
	q.mu.Unlock()

	start := time.Now()
	switch moved := m.pass(q.now, streams); {
	case !moved && (absent > 0 || !m.stuck(q.now)):
		time.Sleep(leastWait) // others hold the memory that all wait for
	case !moved:
		r := m.loser(q.now)
		r.err, r.done = fmt.Errorf("%w: it is held by sessions that cannot be computed again", ErrMemory), true
	}

	q.mu.Lock()
	defer q.mu.Unlock()
	q.took = time.Since(start)
	q.pending = slices.DeleteFunc(q.pending, func(r *reading) bool { return r.done })
	for _, r := range q.now {
		if !r.done {
			continue
		}
		q.turn(r.s, away)
		if r.wake != own {
			r.wake <- false
		}
	}
	clear(q.now)
}

// await waits until all sessions that generate have asked, or a moment. The
// mutex is held, and released meanwhile.
func (q *schedule) await() {
	if q.away == 0 {
		return
	}
	select {
	case <-q.arrived:
	default:
	}
	q.mu.Unlock()
	q.timer.Reset(min(max(q.took/waitShare, leastWait), mostWait))
	select {
	case <-q.arrived:
		q.timer.Stop()
	case <-q.timer.C:
	}
	q.mu.Lock()
	for _, s := range q.writers {
		if s.presence == away {
			q.turn(s, late)
		}
	}
}

// pass computes the next rows of pending readings. If streams is not 0, so many
// sessions generate, which the pass must not delay much. It reports false if all
// readings wait for memory.
func (m *Model) pass(pending []*reading, streams int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := &m.schedule
	q.live = q.live[:0]
	for _, r := range pending {
		if m.closed {
			r.err = ErrClosed
		} else {
			r.err = r.ctx.Err()
		}
		if r.done = r.err != nil; !r.done && m.join(r, q.live) {
			q.live = append(q.live, r)
		}
	}
	if m.kvLimit > 0 { // without those that a later one preempted
		q.live = slices.DeleteFunc(q.live, func(r *reading) bool { return r.s.lost })
	}
	part := q.choose(q.live, streams)
	if len(part) == 0 {
		return slices.ContainsFunc(pending, func(r *reading) bool { return r.done })
	}
	ctx, observer := context.Background(), part[0].s.observer
	if len(part) == 1 {
		ctx = part[0].ctx
	}
	m.gather(part)
	if err := m.forward(ctx, newPass(observer, m.spans...)); err != nil {
		part[0].err, part[0].done = err, true
		return true
	}
	row := 0
	for i, p := range part {
		row += p.take(&m.spans[i], row)
		p.passed()
		if p.done = p.read == p.rows; p.done && !p.stream() && p.text != nil {
			m.keep(p.s, len(p.text))
		}
	}
	return true
}
