package console

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

// roomOfWeights is the least size in bytes by which a large heap grows until the next
// collection. A collection scans pointers, not the weights of a model, so that a heap of
// weights need not double before one.
const roomOfWeights = 64 << 20

// goMinimum is the heap of Go's first collection, at 100 percent.
const goMinimum = 4 << 20

// DelayCollections makes collections begin at a heap of leastHeap, unless GOGC is set. A
// larger heap may double between collections, as usual, unless most of it has no pointers.
// stop restores that for all heaps.
func DelayCollections() (stop func()) {
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
				debug.SetGCPercent(percentOf(heap()))
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

// heap returns the bytes that the last collection found in use, and those of them that
// it scanned for pointers.
func heap() (live, scanned uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64()
}

// percentOf returns the growth of a heap until the next collection.
func percentOf(live, scanned uint64) int {
	switch {
	case live == 0:
		return 100
	case live <= leastHeap/2:
		return int(100*leastHeap/live) - 100
	}
	return int(min(100, 100*max(roomOfWeights, live/16, 4*scanned)/live))
}
