package pool

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// Loops of many lengths and chunk sizes, with pauses long enough for the
// workers to park in between.
func TestForDoesEachIndexOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		p := New(threads)
		if p.Threads() != threads {
			t.Fatalf("Threads() = %d, want %d", p.Threads(), threads)
		}
		for _, n := range []int{0, 1, 2, 7, 64, 1000} {
			for _, chunk := range []int{-1, 1, 3, 16, 5000} {
				counts := make([]atomic.Int32, n)
				p.For(n, chunk, Func(func(thread, lo, hi int) {
					if thread < 0 || thread >= threads || lo >= hi || hi-lo > max(chunk, 1) || lo%max(chunk, 1) != 0 || hi > n {
						t.Errorf("Do(%d, %d, %d) with chunk %d", thread, lo, hi, chunk)
					}
					for i := lo; i < hi; i++ {
						counts[i].Add(1)
					}
				}))
				for i := range counts {
					if c := counts[i].Load(); c != 1 {
						t.Fatalf("threads %d n %d chunk %d: index %d was done %d times", threads, n, chunk, i, c)
					}
				}
			}
			time.Sleep(200 * time.Microsecond)
		}
		p.Close()
		p.Close()
	}
}

// Many short loops exercise the hand-off.
func TestManyShortLoops(t *testing.T) {
	p := New(4)
	defer p.Close()
	var sum atomic.Int64
	const loops = 20000
	for range loops {
		p.For(8, 1, Func(func(_, lo, hi int) { sum.Add(int64(hi - lo)) }))
	}
	if got := sum.Load(); got != 8*loops {
		t.Fatalf("%d indices were done, want %d", got, 8*loops)
	}
}

// The ranges of a loop are distinguished from those of every earlier loop,
// across the wrap of loop numbers.
func TestWrap(t *testing.T) {
	p := &Pool{lanes: make([]lane, 2)}
	for _, first := range []uint32{0, tagMask - 2, 1<<32 - 3} {
		for epoch := first + 1; epoch != first+8; epoch++ {
			p.n, p.chunk = int(epoch%5), 1
			seen := make([]int, p.n)
			for _, owner := range []bool{false, true} { // a thief may come first
				for thread := range p.lanes {
					for {
						c, ok := p.take(thread, epoch, owner)
						if !ok {
							break
						}
						seen[c]++
						if !owner {
							break
						}
					}
				}
			}
			for c, n := range seen {
				if n != 1 {
					t.Fatalf("loop %d: chunk %d was taken %d times", epoch, c, n)
				}
			}
		}
	}
}

// Pieces grow if there would be too many.
func TestManyIndices(t *testing.T) {
	p := New(3)
	defer p.Close()
	const n = 5 << 20
	var sum atomic.Int64
	p.For(n, 1, Func(func(_, lo, hi int) { sum.Add(int64(hi - lo)) }))
	if got := sum.Load(); got != n {
		t.Fatalf("%d indices were done, want %d", got, n)
	}
	for _, n := range []int{maxChunks, maxChunks + 1} {
		var chunks atomic.Int64
		p.For(n, 1, Func(func(_, lo, hi int) { chunks.Add(1) }))
		if got := chunks.Load(); n == maxChunks && got != maxChunks || got > maxChunks {
			t.Errorf("%d indices: %d chunks", n, got)
		}
	}
}

// No two concurrent calls share a thread number.
func TestScratchIsExclusive(t *testing.T) {
	p := New(4)
	defer p.Close()
	busy := make([]atomic.Bool, p.Threads())
	p.For(2000, 1, Func(func(thread, _, _ int) {
		if !busy[thread].CompareAndSwap(false, true) {
			t.Errorf("thread %d is in use twice", thread)
		}
		runtime.Gosched()
		busy[thread].Store(false)
	}))
}

// A blocked thread does not delay the rest of its range.
func TestStealing(t *testing.T) {
	p := New(2)
	defer p.Close()
	var others atomic.Int32
	p.For(64, 1, Func(func(_, lo, _ int) {
		if lo == 0 {
			for others.Load() < 63 {
				runtime.Gosched()
			}
			return
		}
		others.Add(1)
	}))
}

func TestCloseWaits(t *testing.T) {
	before := runtime.NumGoroutine()
	p := New(6)
	p.For(100, 1, Func(func(int, int, int) {}))
	p.Close()
	// A goroutine is counted until it has returned, a moment after it is waited for.
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines after Close, %d before New", after, before)
	}
}

func TestDefault(t *testing.T) {
	if n := Default(); n < 1 || n > runtime.GOMAXPROCS(0) {
		t.Errorf("Default() = %d with GOMAXPROCS %d", n, runtime.GOMAXPROCS(0))
	}
}

func TestNoAllocations(t *testing.T) {
	p := New(2)
	defer p.Close()
	task := &noop{}
	if n := testing.AllocsPerRun(100, func() { p.For(64, 4, task) }); n != 0 {
		t.Errorf("%v allocations a loop", n)
	}
}

type noop struct{}

func (*noop) Do(int, int, int) {}

func BenchmarkFor(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			p := New(threads)
			defer p.Close()
			task := &noop{}
			for b.Loop() {
				p.For(2, 1, task)
			}
		})
	}
}

func ExamplePool_For() {
	p := New(2)
	defer p.Close()
	squares := make([]int, 5)
	p.For(len(squares), 2, Func(func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			squares[i] = i * i
		}
	}))
	fmt.Println(squares)
	// Output: [0 1 4 9 16]
}

// Rounds shrink while waiting is in vain, down to minRounds, and grow again, up
// to maxRounds.
func TestAdapt(t *testing.T) {
	l := lane{spin: maxRounds}
	l.adapt(true)
	if l.spin != maxRounds {
		t.Errorf("%d rounds after success", l.spin)
	}
	for before := l.spin; ; before = l.spin {
		if l.adapt(false); l.spin >= before {
			break
		}
	}
	if l.spin != minRounds {
		t.Errorf("%d rounds after failures", l.spin)
	}
	for range 10 {
		l.adapt(true)
	}
	if l.spin != maxRounds {
		t.Errorf("%d rounds after successes", l.spin)
	}
}

// Threads that wait in vain spin less the next time.
func TestWaitingShrinksSpin(t *testing.T) {
	p := New(2)
	for range 3 {
		for p.For(2, 1, &noop{}); !p.lanes[1].parked.Load(); {
			time.Sleep(100 * time.Microsecond)
		}
	}
	p.Close()
	if l := &p.lanes[1]; l.spin >= maxRounds {
		t.Errorf("%d rounds after a thread has parked", l.spin)
	}
}
