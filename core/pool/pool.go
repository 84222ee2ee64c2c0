// Package pool runs loops over index ranges on a fixed set of threads: the
// fork and join beneath every matrix product, a few hundred times a token.
//
// The way of a loop: [Pool.For] cuts [0, n) into one contiguous range a
// thread, so that each streams through memory in order; a thread works its
// range off from the front, chunk by chunk, and when it has none left takes
// chunks from the back of another's. For returns when every index has been
// done. A loop costs two cache-line hand-offs, below a microsecond.
//
// Threads wait for work by spinning for a bounded time and then park, and the
// caller waits for stragglers the same way. When other programs keep the
// cores busy the pool gives its core up instead of spinning against them, and
// a descheduled thread loses only the chunk that it holds.
//
// Which thread does a chunk is not determined; what a chunk computes must not
// depend on it. Then results are the same for any number of threads.
package pool

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Task is the body of a loop.
type Task interface {
	// Do works on the indices lo ≤ i < hi. Calls run at the same time on
	// different threads; thread is in [0, Threads) and may select scratch
	// memory that no other call uses meanwhile.
	Do(thread, lo, hi int)
}

// Func is a function as a Task.
type Func func(thread, lo, hi int)

// Do calls f.
func (f Func) Do(thread, lo, hi int) { f(thread, lo, hi) }

// Pool is a set of threads. The zero value is not usable; see [New]. One loop
// runs at a time: For must not be called from two goroutines at once, nor
// from within a Task.
type Pool struct {
	workers []*worker // those besides the caller
	ranges  []span    // one a thread
	task    Task
	chunk   int

	_       [64]byte // the caller and the workers write to different lines
	epoch   atomic.Uint32
	_       [60]byte
	pending atomic.Int32 // workers that have not finished this epoch's loop
	_       [60]byte

	waiting atomic.Bool   // the caller is parked on done
	done    chan struct{} // wakes the caller
	exit    sync.WaitGroup
	closed  bool
}

// span is what is left of a thread's range: lo in the lower half, hi in the
// upper. Its owner takes from lo, thieves from hi. It fills a cache line.
type span struct {
	left atomic.Uint64
	_    [56]byte
}

// worker is a thread besides the caller.
type worker struct {
	parked atomic.Bool
	wake   chan struct{}
	_      [48]byte
}

// How long a thread spins before it parks, in rounds of [pause]. One round is
// about 20 to 40 ns, so that the limit lies near 50 µs: longer than the gaps
// between the loops of one token, shorter than a scheduler's time slice.
const spinRounds = 1 << 11

// New starts a pool of the given number of threads, of which the caller of
// For is one. 0 or less means [Default]. Close stops it.
func New(threads int) *Pool {
	if threads <= 0 {
		threads = Default()
	}
	p := &Pool{
		ranges: make([]span, threads),
		done:   make(chan struct{}, 1),
	}
	for i := 1; i < threads; i++ {
		w := &worker{wake: make(chan struct{}, 1)}
		p.workers = append(p.workers, w)
		p.exit.Add(1)
		go p.work(w, i)
	}
	return p
}

// Threads is the number of threads, the caller's included.
func (p *Pool) Threads() int { return len(p.ranges) }

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

// For does the indices 0 ≤ i < n of t in pieces of at most chunk indices
// (at least 1) and returns when all are done. n must be below 2³¹.
func (p *Pool) For(n, chunk int, t Task) {
	if n < 0 || n >= 1<<31 {
		panic("pool: loop length out of range")
	}
	chunk = max(chunk, 1)
	if len(p.workers) == 0 || n <= chunk {
		for lo := 0; lo < n; lo += chunk {
			t.Do(0, lo, min(lo+chunk, n))
		}
		return
	}
	p.task, p.chunk = t, chunk
	threads := len(p.ranges)
	for i := range p.ranges {
		// Range borders fall on multiples of chunk.
		chunks := (n + chunk - 1) / chunk
		lo, hi := chunks*i/threads*chunk, min(chunks*(i+1)/threads*chunk, n)
		p.ranges[i].left.Store(uint64(hi)<<32 | uint64(lo))
	}
	p.pending.Store(int32(len(p.workers)))
	p.release()
	p.run(0)
	p.join()
}

// release begins an epoch: the workers see the task.
func (p *Pool) release() {
	p.epoch.Add(1)
	for _, w := range p.workers {
		if w.parked.Load() && w.parked.CompareAndSwap(true, false) {
			w.wake <- struct{}{}
		}
	}
}

// join waits until the workers have finished the loop.
func (p *Pool) join() {
	for range spinRounds {
		if p.pending.Load() == 0 {
			return
		}
		pause()
	}
	p.waiting.Store(true)
	if p.pending.Load() == 0 && p.waiting.CompareAndSwap(true, false) {
		return
	}
	<-p.done
}

// work is the life of a worker.
func (p *Pool) work(w *worker, thread int) {
	defer p.exit.Done()
	seen := uint32(0)
	for {
		seen = p.await(w, seen)
		if p.task == nil {
			return
		}
		p.run(thread)
		if p.pending.Add(-1) == 0 && p.waiting.Load() && p.waiting.CompareAndSwap(true, false) {
			p.done <- struct{}{}
		}
	}
}

// await returns the number of the epoch after seen, when it has begun.
func (p *Pool) await(w *worker, seen uint32) uint32 {
	for range spinRounds {
		if e := p.epoch.Load(); e != seen {
			return e
		}
		pause()
	}
	w.parked.Store(true)
	if e := p.epoch.Load(); e != seen && w.parked.CompareAndSwap(true, false) {
		return e
	}
	// Either nothing has begun, or release has seen parked and wakes us.
	<-w.wake
	return p.epoch.Load()
}

// run works the thread's own range off and then helps the others.
func (p *Pool) run(thread int) {
	for {
		lo, hi, ok := p.ranges[thread].takeFront(p.chunk)
		if !ok {
			break
		}
		p.task.Do(thread, lo, hi)
	}
	for i := 1; i < len(p.ranges); i++ {
		victim := &p.ranges[(thread+i)%len(p.ranges)]
		for {
			lo, hi, ok := victim.takeBack(p.chunk)
			if !ok {
				break
			}
			p.task.Do(thread, lo, hi)
		}
	}
}

// takeFront takes up to chunk indices from the beginning.
func (s *span) takeFront(chunk int) (lo, hi int, ok bool) {
	for {
		v := s.left.Load()
		lo, hi = int(v&0xffffffff), int(v>>32)
		if lo >= hi {
			return 0, 0, false
		}
		next := min(lo+chunk, hi)
		if s.left.CompareAndSwap(v, uint64(hi)<<32|uint64(next)) {
			return lo, next, true
		}
	}
}

// takeBack takes up to chunk indices from the end, so that the pieces begin
// on multiples of chunk.
func (s *span) takeBack(chunk int) (lo, hi int, ok bool) {
	for {
		v := s.left.Load()
		lo, hi = int(v&0xffffffff), int(v>>32)
		if lo >= hi {
			return 0, 0, false
		}
		cut := max(lo, (hi-1)/chunk*chunk)
		if s.left.CompareAndSwap(v, uint64(cut)<<32|uint64(lo)) {
			return cut, hi, true
		}
	}
}

// Default is the number of threads that compute without getting into each
// other's way: the smallest of the physical cores this process may run on,
// the processor quota of its control group, and GOMAXPROCS.
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
