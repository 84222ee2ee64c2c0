//go:build unix

package llm

import (
	"syscall"
	"testing"
	"time"

	"mm-abi.org/mm/core/pool"
)

// processorTime returns the processor time of all threads of the process.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkStepBF16 alternates steps with products of float32 and of bfloat16
// on one thread. It reports the minimum processor time of each, in
// milliseconds.
func BenchmarkStepBF16(b *testing.B) {
	for _, s := range sizes {
		b.Run(s.name, func(b *testing.B) {
			p := pool.New(1)
			defer p.Close()
			once := [2]func(){step(b, s.model, s.T, false, p), step(b, s.model, s.T, true, p)}
			best := [2]time.Duration{time.Hour, time.Hour}
			for b.Loop() {
				for i, f := range once {
					start := processorTime(b)
					f()
					best[i] = min(best[i], processorTime(b)-start)
				}
			}
			b.ReportMetric(best[0].Seconds()*1e3, "fp32-ms")
			b.ReportMetric(best[1].Seconds()*1e3, "bf16-ms")
			b.ReportMetric(float64(best[0])/float64(best[1]), "ratio")
		})
	}
}
