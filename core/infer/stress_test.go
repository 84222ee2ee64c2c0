package infer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"unsafe"
)

// stress drives the passes of a model with limited memory from one goroutine, in the order
// of a random number generator, and compares each session with one that is alone.
type stress struct {
	t        *testing.T
	seed     uint64
	rng      *rand.Rand
	m, alone *Model
	vectors  bool // inputs may be vectors
	clients  []*client
	pending  []*reading
	seen     map[string]int // events
	trace    []string
}

// client is a session and its twin, which is alone.
type client struct {
	name    int
	s, s1   *Session
	opt     SessionOptions
	in      []Input // of the pending reading
	keep    int
	rows    [][]float32 // the last rows of the pending reading
	cancel  context.CancelFunc
	group   []*client // that read in one batch; itself at least
	writing bool      // between readings, too, it generates
}

func (x *stress) event(format string, args ...any) {
	x.trace = append(x.trace, fmt.Sprintf(format, args...))
}

// fail reports a fault with the events before it.
func (x *stress) fail(format string, args ...any) {
	x.t.Helper()
	x.t.Fatalf(format+"\nseed %d: after %d events, the last of which are %q", append(args, x.seed, len(x.trace), x.trace[max(0, len(x.trace)-12):])...)
}

func (x *stress) idle() (out []*client) {
	for _, c := range x.clients {
		if c.group == nil {
			out = append(out, c)
		}
	}
	return out
}

func (x *stress) arrive() {
	c := &client{name: x.seen["arrive"], opt: SessionOptions{KV: []string{"f16", "q8_0", "f32"}[x.rng.IntN(3)], Context: 800, Hidden: x.rng.IntN(12) == 0}}
	c.s, c.s1 = session(x.t, x.m, c.opt), session(x.t, x.alone, c.opt)
	x.clients = append(x.clients, c)
	x.seen["arrive"]++
	x.event("%d arrives, %+v", c.name, c.opt)
}

// input returns the next input of a client: a text that others begin with, too, random tokens,
// a few tokens as a draft proposes them or a grammar forces them, or vectors.
func (x *stress) input(c *client) (in []Input, keep int) {
	vocab, room := x.m.cfg.Vocab, c.s.Context()-c.s.Len()
	tokens := func(n int) []int32 {
		out := make([]int32, min(n, room))
		for i := range out {
			out[i] = int32(x.rng.IntN(vocab))
		}
		return out
	}
	switch k := x.rng.IntN(10); {
	case c.s.Len() == 0 && k < 8:
		text := draw(600+x.rng.IntN(3), vocab) // one of three
		n := 1 + x.rng.IntN(500)
		if k < 4 { // states are shared of whole texts
			n = []int{100, 70, 257, 500}[k]
		}
		return []Input{{Tokens: append(text[:n], tokens(1+k*x.rng.IntN(6))...)}}, 1
	case k < 4:
		n := 1 + x.rng.IntN(5)
		return []Input{{Tokens: tokens(n)}}, 1 + x.rng.IntN(n)
	case k < 5 && x.vectors && room > 0:
		v := make([]float32, (1+x.rng.IntN(min(40, room)))*x.m.cfg.Width)
		for i := range v {
			v[i] = x.rng.Float32()
		}
		return []Input{{Vectors: v}}, 1
	case k < 7:
		return []Input{{Tokens: tokens(1 + x.rng.IntN(300))}}, 1
	}
	best := 0
	for i, v := range c.s1.Logits() {
		if v > c.s1.Logits()[best] {
			best = i
		}
	}
	return []Input{{Tokens: []int32{int32(best)}[:min(1, room)]}}, 1
}

// ask begins readings of clients, all in one call.
func (x *stress) ask(group ...*client) {
	ctx, cancel := context.WithCancel(x.t.Context())
	x.t.Cleanup(cancel)
	for _, c := range group {
		c.in, c.keep = x.input(c)
		c.rows, c.cancel = nil, cancel
		r := &c.s.current
		err := c.s.reading(r, c.in, c.keep, func(_ int, logits []float32) { c.rows = append(c.rows, slices.Clone(logits)) })
		if err != nil {
			x.fail("%d: %v", c.name, err)
		}
	}
	var all []*reading
	group = slices.DeleteFunc(group, func(c *client) bool { return c.s.current.rows == 0 })
	for _, c := range group {
		all = append(all, &c.s.current)
	}
	for _, c := range group {
		r := &c.s.current
		c.group, r.all = group, all
		c.s.users.Add(1)
		x.m.schedule.count++
		r.ctx, r.number = ctx, x.m.schedule.count
		x.pending = append(x.pending, r)
		x.event("%d asks for %d rows after %d", c.name, r.rows, c.s.Len())
	}
}

// step computes a pass as the leader does.
func (x *stress) step() {
	if len(x.pending) == 0 {
		return
	}
	writing, absent := 0, 0
	for _, c := range x.clients {
		if c.writing {
			if writing++; c.group == nil {
				absent++
			}
		}
	}
	lost := 0
	for _, c := range x.clients {
		if c.s.lost {
			lost++
		}
	}
	moved := x.m.pass(slices.Clone(x.pending), x.rng.IntN(writing+1))
	for _, c := range x.clients {
		if c.s.lost {
			lost--
		}
	}
	x.seen["preempt"] += max(0, -lost)
	x.event("pass of %d, moved: %t", len(x.pending), moved)
	if !moved && absent == 0 && x.m.stuck(x.pending) {
		r := x.m.loser(x.pending)
		r.err, r.done = fmt.Errorf("%w: stuck", ErrMemory), true
		x.seen["stuck"]++
		single := func(r *reading) bool { return len(r.all) == 1 }
		if !slices.ContainsFunc(x.m.holders, func(s *Session) bool { return s.fixed || !single(&s.current) }) {
			x.fail("%d readings wait, and no session is fixed", len(x.pending))
		}
	}
	x.check()
	x.finish()
}

// finish ends the calls whose readings are complete.
func (x *stress) finish() {
	x.pending = slices.DeleteFunc(x.pending, func(r *reading) bool { return r.done })
	for _, c := range x.clients {
		if c.group == nil || slices.ContainsFunc(c.group, func(o *client) bool { return !o.s.current.done }) {
			continue
		}
		group := c.group
		var err error
		for _, o := range group {
			err = cmpOr(err, o.s.current.err)
		}
		for _, o := range group {
			r := &o.s.current
			o.group = nil
			if err != nil {
				r.undo()
			} else {
				o.s.blocks = append(o.s.blocks, r.blocks...)
			}
			o.s.users.Add(-1)
			x.compare(o, err)
		}
	}
}

func cmpOr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// compare compares a session that has read with its twin.
func (x *stress) compare(c *client, err error) {
	switch {
	case errors.Is(err, context.Canceled):
		x.seen["cancel"]++
	case errors.Is(err, ErrMemory):
		x.seen["memory"]++
	case err != nil:
		x.fail("%d: %v", c.name, err)
	default:
		x.seen["read"]++
		x.seen["shared"] += c.s.Shared()
		var rows [][]float32
		if err := c.s1.feed(x.t.Context(), c.in, c.keep, func(_ int, logits []float32) { rows = append(rows, slices.Clone(logits)) }); err != nil {
			x.fail("%d alone: %v", c.name, err)
		}
		if !slices.Equal(c.s.Logits(), c.s1.Logits()) || !slices.EqualFunc(rows, c.rows, slices.Equal) {
			x.fail("%d: the logits of %d positions differ", c.name, c.s.Len())
		}
	}
	if c.s1.valid = c.s1.valid && c.s.valid; err != nil && c.s.valid && !slices.Equal(c.s.Logits(), c.s1.Logits()) {
		x.fail("%d: the logits after %v differ", c.name, err)
	}
	c.in, c.rows = nil, nil
	x.same(c)
}

func (x *stress) same(c *client) {
	if !slices.Equal(c.s.Tokens(), c.s1.Tokens()) || !slices.Equal(c.s.blocks, c.s1.blocks) {
		x.fail("%d: got %d positions, want %d", c.name, c.s.Len(), c.s1.Len())
	}
	if c.opt.Hidden {
		from := max(c.s.unseen, c.s1.unseen)
		to := c.s.unseen + len(c.s.hidden)/x.m.cfg.Width
		if c.s.valid && to != c.s.Len() {
			x.fail("%d: states of %d positions, want %d", c.name, to, c.s.Len())
		}
		if to < from {
			return // computed again when it reads
		}
		got, err := c.s.Hidden(from, to)
		want, err1 := c.s1.Hidden(from, to)
		if err != nil || err1 != nil || !slices.Equal(got, want) {
			x.fail("%d: the states differ: %v, %v", c.name, err, err1)
		}
	}
}

// check checks the accounting of memory.
func (x *stress) check() {
	m := x.m
	if n := m.kvUsed(nil); n > m.kvLimit {
		x.fail("%d bytes in use, limit %d", n, m.kvLimit)
	}
	if n := m.prefixes.bytes(); n > m.prefixes.limit {
		x.fail("%d bytes of texts, limit %d", n, m.prefixes.limit)
	}
	if !slices.IsSortedFunc(m.holders, func(a, b *Session) int { return int(a.admitted) - int(b.admitted) }) {
		x.fail("the holders of memory are not in order")
	}
	owners := map[*byte]int{}
	for _, p := range m.prefixes.all {
		for _, b := range p.chunks {
			owners[unsafe.SliceData(b)]++
		}
	}
	for _, c := range x.clients {
		holds := slices.Contains(m.holders, c.s)
		if len(c.s.cache.chunks) > 0 && !holds || c.s.lost && (holds || len(c.s.cache.chunks) > 0 || c.s.fixed) {
			x.fail("%d: %d chunks, lost: %t, counted: %t", c.name, len(c.s.cache.chunks), c.s.lost, holds)
		}
		if !c.s.lost && c.group == nil && c.s.state.size == 0 && len(c.s.cache.chunks)*kvChunk < c.s.Len() {
			x.fail("%d: %d chunks of %d positions", c.name, len(c.s.cache.chunks), c.s.Len())
		}
		for _, b := range c.s.cache.chunks {
			owners[unsafe.SliceData(b)]++
		}
	}
	for _, c := range x.clients {
		for i, b := range c.s.cache.chunks {
			if owners[unsafe.SliceData(b)] > 1 && c.s.cache.shared[i] == 0 {
				x.fail("%d: chunk %d has %d owners and is not marked", c.name, i, owners[unsafe.SliceData(b)])
			}
		}
	}
}

// change does something to an idle session.
func (x *stress) change(c *client) {
	switch k := x.rng.IntN(12); {
	case k < 3:
		n := x.rng.IntN(c.s.Len() + 1)
		if k == 0 {
			n = max(0, c.s.Len()-1-x.rng.IntN(4)) // as after a rejected draft
		}
		x.event("%d is cut to %d of %d", c.name, n, c.s.Len())
		c.s.Truncate(n)
		c.s1.Truncate(n)
		x.same(c)
	case k < 4:
		var saved bytes.Buffer
		if err := c.s1.WriteSnapshot(&saved); err != nil {
			x.fail("%d alone: %v", c.name, err)
		}
		into := &client{name: x.seen["arrive"], opt: c.opt}
		x.seen["arrive"]++
		into.s, into.s1 = session(x.t, x.m, c.opt), session(x.t, x.alone, c.opt)
		err := into.s.ReadSnapshot(bytes.NewReader(saved.Bytes()))
		x.event("%d is restored of %d: %v", into.name, c.name, err)
		if errors.Is(err, ErrMemory) {
			x.check()
			into.s.Close()
			return
		}
		if err1 := into.s1.ReadSnapshot(bytes.NewReader(saved.Bytes())); err != nil || err1 != nil {
			x.fail("%d: %v, %v", into.name, err, err1)
		}
		x.seen["restore"]++
		x.clients = append(x.clients, into)
		x.same(into)
	case k < 6:
		if c.writing = !c.writing; c.writing {
			c.s.users.Add(1)
		} else {
			c.s.users.Add(-1)
		}
	case k < 7 && len(x.clients) > 2:
		x.event("%d leaves", c.name)
		if c.writing {
			c.s.users.Add(-1)
		}
		c.s.Close()
		c.s1.Close()
		x.clients = slices.DeleteFunc(x.clients, func(o *client) bool { return o == c })
	case k < 8 && len(x.pending) == 0 && !slices.ContainsFunc(x.clients, func(o *client) bool { return o.writing }):
		x.event("%d writes a snapshot of %d positions, lost: %t", c.name, c.s.Len(), c.s.lost)
		var got, want bytes.Buffer
		if c.s1.Len() == 0 || c.s1.Recall(x.t.Context()) != nil { // the last is a vector
			break
		}
		err := c.s.Recall(x.t.Context())
		if err == nil {
			err = c.s.WriteSnapshot(&got)
		}
		if errors.Is(err, ErrMemory) {
			x.seen["memory"]++
			break
		}
		if err1 := c.s1.WriteSnapshot(&want); err != nil || err1 != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
			x.fail("%d: snapshots of %d positions differ: %v, %v", c.name, c.s.Len(), err, err1)
		}
		x.seen["snapshot"]++
	default:
		x.ask(c)
	}
	x.check()
}

// run does a number of random things.
func (x *stress) run(n int) {
	for range n {
		idle := x.idle()
		switch k := x.rng.IntN(20); {
		case k == 0 && len(x.clients) < 10 || len(x.clients) == 0:
			x.arrive()
		case k == 1 && len(x.pending) > 0:
			r := x.pending[x.rng.IntN(len(x.pending))]
			for _, c := range x.clients {
				if c.s == r.s {
					x.event("%d is canceled", c.name)
					c.cancel()
				}
			}
		case k == 2 && len(idle) > 1:
			idle = slices.DeleteFunc(idle, func(c *client) bool { return c.writing })
			x.rng.Shuffle(len(idle), func(i, j int) { idle[i], idle[j] = idle[j], idle[i] })
			x.ask(idle[:min(2, len(idle))]...)
		case k < 10 && len(idle) > 0:
			x.change(idle[x.rng.IntN(len(idle))])
		default:
			x.step()
		}
	}
	for _, c := range x.clients {
		if c.writing {
			c.writing = false
			c.s.users.Add(-1)
		}
	}
	for tries := 0; len(x.pending) > 0; tries++ {
		if x.step(); tries > 1000 {
			for _, r := range x.pending {
				x.event("reading %d of session %d: %d of %d rows after %d, %d again, begun: %t, lost: %t, fixed: %t, shared %d, waits for %d", r.number, r.s.admitted, r.read, r.rows, r.before, r.again, r.begun, r.s.lost, r.s.fixed, r.s.shared, r.after)
			}
			x.fail("%d readings never end", len(x.pending))
		}
	}
	for _, c := range x.clients {
		c.s.Close()
	}
	x.clients = nil
	if x.check(); len(x.m.holders) > 0 {
		x.fail("%d sessions hold memory", len(x.m.holders))
	}
}

// TestStress: whatever order sessions read, share, lose their memory, are cut, restored,
// canceled and closed in, each has the logits that it has alone, and the memory is as it
// is counted.
func TestStress(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	for name, seeds := range map[string]uint64{"llama": 4, "deepseek2": 4, "qwen35": 10, "lfm2": 40} {
		if n, err := strconv.Atoi(os.Getenv("MM_STRESS")); err == nil {
			seeds = uint64(n)
		}
		t.Run(name, func(t *testing.T) {
			total := map[string]int{}
			for seed := range seeds {
				cfg := small(name)
				weights := weightsOf(cfg, 1)
				x := &stress{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 11)), seen: total}
				for _, m := range []**Model{&x.m, &x.alone} {
					opt := Options{Threads: 1, KVMemory: 1 << 30}
					if m == &x.alone {
						opt = Options{Threads: 1, Prefixes: -1}
					}
					var err error
					if *m, err = New(cfg, weights, opt); err != nil {
						t.Fatal(err)
					}
				}
				s := session(t, x.m, SessionOptions{KV: "f32"})
				x.vectors = s.state.size == 0
				x.m.kvLimit = (5+x.rng.IntN(8))*s.cache.ChunkBytes() + (1+x.rng.IntN(6))*s.state.most()
				x.m.prefixes.limit = x.m.kvLimit / (1 + x.rng.IntN(3))
				x.run(300)
				x.m.Close()
				x.alone.Close()
			}
			t.Log(total)
			for _, what := range []string{"read", "shared", "cancel", "preempt", "restore", "snapshot"} {
				if total[what] == 0 {
					t.Errorf("no %s in %v", what, total)
				}
			}
		})
	}
}
