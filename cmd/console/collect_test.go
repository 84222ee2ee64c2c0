package console

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// Collections begin at leastHeap, again after one; a larger heap doubles, unless it holds weights.
func TestDelayCollections(t *testing.T) {
	for _, c := range []struct {
		live, scanned uint64
		want          int
	}{
		{0, 0, 100}, {leastHeap/2 + 1, 0, 100}, {leastHeap / 2, 0, 100}, {leastHeap / 4, 0, 300},
		{roomOfWeights, 0, 100}, {2 * roomOfWeights, 0, 50}, {8 * roomOfWeights, roomOfWeights, 50},
		{8 * roomOfWeights, 2 * roomOfWeights, 100}, {1 << 40, 1 << 40, 100}, {1 << 40, 1 << 20, 6},
	} {
		if got := percentOf(c.live, c.scanned); got != c.want {
			t.Errorf("percentOf(%d, %d) = %d, want %d", c.live, c.scanned, got, c.want)
		}
	}
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	stop := DelayCollections()
	defer stop()
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	if p := percent(); p != 100*leastHeap/goMinimum {
		t.Errorf("%d percent at start", p)
	}
	for range 2 {
		runtime.GC()
		for n := 0; percent() != percentOf(heap()); n++ { // the finalizer runs soon
			if n == 500 {
				t.Fatalf("%d percent after a collection, want %d", percent(), percentOf(heap()))
			}
			time.Sleep(10 * time.Millisecond)
		}
		debug.SetGCPercent(7) // the next one sets it again
	}
	t.Setenv("GOGC", "50")
	debug.SetGCPercent(50)
	DelayCollections()()
	if p := percent(); p != 50 {
		t.Errorf("%d percent with GOGC=50", p)
	}
}
