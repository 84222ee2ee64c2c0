package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// leastHeap is the size in bytes up to which the heap grows without a collection. A command
// allocates a few MiB while it reads manifests; at Go's minimum of 4 MiB, collections took a
// fifth of its processor time.
const leastHeap = 16 << 20

// goMinimum is the heap of Go's first collection, at 100 percent.
const goMinimum = 4 << 20

// delayCollections makes collections begin at a heap of leastHeap, unless GOGC is set. A
// larger heap may double between collections, as usual. stop restores that for all heaps.
func delayCollections() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	stopped := make(chan struct{})
	debug.SetGCPercent(100 * leastHeap / goMinimum)
	var watch func()
	watch = func() {
		runtime.SetFinalizer(new([64]byte), func(*[64]byte) { // after each collection
			select {
			case <-stopped:
			default:
				debug.SetGCPercent(percentOf(liveHeap()))
				watch()
			}
		})
	}
	watch()
	return func() {
		close(stopped)
		debug.SetGCPercent(100)
	}
}

// liveHeap returns the bytes that the last collection found in use.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// percentOf returns the growth of a heap until the next collection.
func percentOf(live uint64) int {
	if live == 0 || live > leastHeap/2 {
		return 100
	}
	return int(100*leastHeap/live) - 100
}
