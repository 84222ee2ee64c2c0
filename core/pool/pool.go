// Package pool runs loops over index ranges on a fixed set of threads: the
// fork and join beneath every matrix product, a few hundred times a token.
//
// [Pool.For] splits [0, n) into one contiguous range a thread, so that each
// streams through memory in order. A thread processes its range from the front,
// chunk by chunk, and then steals chunks from the back of other ranges. For
// returns when every index is done. A loop costs two cache-line hand-offs, less
// than a microsecond.
//
// Threads wait for work by spinning for a bounded time and then park; the
// caller waits for the other threads in the same way. A thread that has not
// joined a loop by the time all of it is done is left out. So if other programs
// keep the cores busy, the caller continues without a thread that has no core,
// and waits only for one that lost its core in the middle of a chunk.
//
// The assignment of chunks to threads is not deterministic, so the result of a
// chunk must not depend on it. Then results are the same for any number of
// threads.
package pool

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Task is the body of a loop.
type Task interface {
	// Do processes the indices lo ≤ i < hi. Calls run concurrently on different
	// threads; thread is in [0, Threads) and may select scratch memory that no
	// concurrent call uses.
	Do(thread, lo, hi int)
}

// Func is a function as a Task.
type Func func(thread, lo, hi int)

// Do calls f.
func (f Func) Do(thread, lo, hi int) { f(thread, lo, hi) }

// Pool is a set of threads, created by [New]. One loop runs at a time: For must
// not be called concurrently, nor from within a Task.
type Pool struct {
	lanes  []lane // one for each thread; 0 is the caller's
	exit   sync.WaitGroup
	closed bool

	// The loop, in one cache line with its number.
	_     [64]byte
	task  Task
	chunk int
	n     int
	epoch atomic.Uint32
	_     [64]byte

	waiting atomic.Bool   // the caller is parked
	wake    chan struct{} // wakes it
}

// lane holds the state of one thread, in separate cache lines.
type lane struct {
	// left is the rest of the thread's range, counted in chunks: its owner
	// takes from the front, thieves from the back. It includes the number of
	// the loop: a range with the number of an earlier loop represents the full,
	// untouched range of this one.
	left atomic.Uint64
	_    [56]byte

	// state is the last loop that the thread joined or was left out of, and
	// whether the thread is working on it: number<<1 | busy.
	state  atomic.Uint64
	parked atomic.Bool
	wake   chan struct{}
	spin   int // rounds that the thread spins for the next loop
	_      [32]byte
}

// The fields of left: 20 bits for each end, 24 for the loop's number.
const (
	endBits   = 20
	maxChunks = 1<<endBits - 1
	tagMask   = 1<<24 - 1
)

// The rounds of [pause] that a thread spins before it parks. One round takes
// about 20 to 40 ns, so the maximum is some 50 µs: longer than the gaps between
// the loops of one token, shorter than a scheduler's time slice. The caller
// waits that long for the other threads. A worker that has waited for a loop in
// vain halves its rounds, down to some 3 µs: on a busy machine the caller may
// be waiting for the core on which the worker spins.
const (
	maxRounds = 1 << 11
	minRounds = 1 << 7
)

// adapt changes a thread's rounds by whether the last ones sufficed.
func (l *lane) adapt(enough bool) {
	if enough {
		l.spin = min(2*l.spin, maxRounds)
	} else {
		l.spin = max(l.spin/2, minRounds)
	}
}

// New starts a pool of the given number of threads, one of which is the caller
// of For. If threads is 0 or less, the number is [Default]. Close stops the
// pool.
func New(threads int) *Pool {
	if threads <= 0 {
		threads = Default()
	}
	p := &Pool{lanes: make([]lane, threads), wake: make(chan struct{}, 1)}
	for i := range p.lanes {
		p.lanes[i].spin = maxRounds
	}
	for i := 1; i < threads; i++ {
		p.lanes[i].wake = make(chan struct{}, 1)
		p.exit.Add(1)
		go p.work(i)
	}
	return p
}

// Threads returns the number of threads, the caller's included.
func (p *Pool) Threads() int { return len(p.lanes) }

// Close stops the threads and waits for them. The pool must not be used
// afterwards; a second Close does nothing.
func (p *Pool) Close() {
	if p.closed {
		return
	}
	p.closed = true
	p.task = nil
	p.release()
	p.exit.Wait()
}

// For processes the indices 0 ≤ i < n of t in pieces of at most chunk indices
// and returns when all are done. chunk must be at least 1; it is raised if
// there would be more than 2²⁰-1 pieces.
func (p *Pool) For(n, chunk int, t Task) {
	chunk = max(chunk, 1, (n+maxChunks-1)/maxChunks)
	if n <= 0 {
		return
	}
	if len(p.lanes) == 1 || n <= chunk {
		for lo := 0; lo < n; lo += chunk {
			t.Do(0, lo, min(lo+chunk, n))
		}
		return
	}
	p.task, p.n, p.chunk = t, n, chunk
	epoch := p.release()
	p.run(0, epoch)
	p.join(epoch)
}

// release publishes a loop to the other threads.
func (p *Pool) release() (epoch uint32) {
	epoch = p.epoch.Add(1)
	for i := range p.lanes[1:] {
		l := &p.lanes[1+i]
		if l.parked.Load() && l.parked.CompareAndSwap(true, false) {
			l.wake <- struct{}{}
		}
	}
	return epoch
}

// join waits for the threads that are working on the loop and leaves out the
// others.
func (p *Pool) join(epoch uint32) {
	for {
		for range maxRounds {
			if p.finished(epoch) {
				return
			}
			pause()
		}
		p.waiting.Store(true)
		if p.finished(epoch) {
			if !p.waiting.CompareAndSwap(true, false) {
				<-p.wake
			}
			return
		}
		<-p.wake
	}
}

// finished reports whether no thread is working on the loop, all of whose
// chunks are taken.
func (p *Pool) finished(epoch uint32) bool {
	for i := range p.lanes[1:] {
		l := &p.lanes[1+i]
		idle := uint64(epoch) << 1
		for s := l.state.Load(); s != idle; s = l.state.Load() {
			if s == idle|1 {
				return false
			}
			if l.state.CompareAndSwap(s, idle) {
				l.left.Store(tagOf(epoch)) // mark its range, as the thread would do
			}
		}
	}
	return true
}

// work is the loop of a worker thread.
func (p *Pool) work(thread int) {
	defer p.exit.Done()
	l := &p.lanes[thread]
	seen := uint64(0) // the last loop's state
	for {
		epoch := p.await(l, uint32(seen>>1))
		busy := uint64(epoch)<<1 | 1
		if !l.state.CompareAndSwap(seen, busy) {
			seen = l.state.Load() // the thread was left out
			continue
		}
		if p.task == nil {
			return
		}
		p.run(thread, epoch)
		seen = busy &^ 1
		l.state.Store(seen)
		if p.waiting.Load() && p.waiting.CompareAndSwap(true, false) {
			p.wake <- struct{}{}
		}
	}
}

// await waits for a loop after seen and returns its number.
func (p *Pool) await(l *lane, seen uint32) uint32 {
	for range l.spin {
		if e := p.epoch.Load(); e != seen {
			l.adapt(true)
			return e
		}
		pause()
	}
	l.adapt(false)
	l.parked.Store(true)
	if e := p.epoch.Load(); e != seen && l.parked.CompareAndSwap(true, false) {
		return e
	}
	// Either no loop has begun, or release has seen parked and wakes the
	// thread.
	<-l.wake
	return p.epoch.Load()
}

// tagOf returns the bits that mark a range as one of a loop.
func tagOf(epoch uint32) uint64 { return uint64(epoch&tagMask) << (2 * endBits) }

// run processes the thread's range and then helps the others.
func (p *Pool) run(thread int, epoch uint32) {
	for {
		c, ok := p.take(thread, epoch, true)
		if !ok {
			break
		}
		p.task.Do(thread, c*p.chunk, min((c+1)*p.chunk, p.n))
	}
	for i := 1; i < len(p.lanes); i++ {
		victim := (thread + i) % len(p.lanes)
		for {
			c, ok := p.take(victim, epoch, false)
			if !ok {
				break
			}
			p.task.Do(thread, c*p.chunk, min((c+1)*p.chunk, p.n))
		}
	}
}

// take takes a chunk from the front or the back of a thread's range. An owner
// marks its range as one of this loop even if the range is empty, so that the
// numbers of loops may wrap.
func (p *Pool) take(thread int, epoch uint32, owner bool) (chunk int, ok bool) {
	left := &p.lanes[thread].left
	tag := tagOf(epoch)
	for {
		v := left.Load()
		lo, hi := int(v&maxChunks), int(v>>endBits&maxChunks)
		fresh := v&^uint64(1<<(2*endBits)-1) != tag
		if fresh {
			chunks := (p.n + p.chunk - 1) / p.chunk
			lo, hi = chunks*thread/len(p.lanes), chunks*(thread+1)/len(p.lanes)
		}
		switch {
		case lo >= hi && !(fresh && owner):
			return 0, false
		case lo >= hi:
			hi = lo
		case owner:
			chunk, ok = lo, true
			lo++
		default:
			hi--
			chunk, ok = hi, true
		}
		if left.CompareAndSwap(v, tag|uint64(hi)<<endBits|uint64(lo)) {
			return chunk, ok
		}
		ok = false
	}
}

// Default returns the number of threads that can run without competing: the
// minimum of the physical cores that this process may run on, the processor
// quota of its control group, and GOMAXPROCS.
func Default() int {
	n := runtime.GOMAXPROCS(0)
	if c := physicalCores(); c > 0 {
		n = min(n, c)
	}
	if q := quota(); q > 0 {
		n = min(n, q)
	}
	return max(n, 1)
}
