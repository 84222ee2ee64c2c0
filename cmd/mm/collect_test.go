package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// Collections begin at leastHeap, again after one; a larger heap doubles.
func TestDelayCollections(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, leastHeap/2 + 1: 100, leastHeap / 2: 100, leastHeap / 4: 300, 1 << 40: 100} {
		if got := percentOf(live); got != want {
			t.Errorf("percentOf(%d) = %d, want %d", live, got, want)
		}
	}
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	stop := delayCollections()
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
		for n := 0; percent() != percentOf(liveHeap()); n++ { // the finalizer runs soon
			if n == 500 {
				t.Fatalf("%d percent after a collection with %d bytes in use, want %d", percent(), liveHeap(), percentOf(liveHeap()))
			}
			time.Sleep(10 * time.Millisecond)
		}
		debug.SetGCPercent(7) // the next one sets it again
	}
	t.Setenv("GOGC", "50")
	debug.SetGCPercent(50)
	delayCollections()()
	if p := percent(); p != 50 {
		t.Errorf("%d percent with GOGC=50", p)
	}
}
