package llm

import (
	"fmt"
	"testing"
	"time"

	"mm-abi.org/mm/core/pool"
)

// BenchmarkTrain reports the best rate of a gradient step, packing included, in
// positions per second and in GFLOP/s according to Config.FLOPs.
func BenchmarkTrain(b *testing.B) {
	for _, c := range []Config{
		{Vocab: 1024, Dim: 128, Layers: 4, Heads: 4, Context: 128},
		{Vocab: 1024, Dim: 192, Layers: 6, Heads: 6, Context: 128},
		{Vocab: 1024, Dim: 128, Layers: 4, Heads: 4, Context: 128, Mixer: RWKV},
	} {
		for _, size := range []int{4, 16} {
			for threads := 1; threads <= 2; threads++ {
				b.Run(fmt.Sprintf("%dM%s/B%d/%dT", c.Parameters()/1e6, c.Mixer, size, threads), func(b *testing.B) {
					p := pool.New(threads)
					defer p.Close()
					m := randomModel[float32](b, c, 1)
					pass, batch := m.NewPass(p, size, 128), randomBatch[float32](c, size, 128, 2)
					batch.Starts = nil
					best := time.Hour
					for b.Loop() {
						start := time.Now()
						m.Refresh(p)
						train(b, m, pass, batch)
						best = min(best, time.Since(start))
					}
					n := float64(size * 128)
					b.ReportMetric(n/best.Seconds(), "tok/s")
					b.ReportMetric(n*float64(c.FLOPs(128))/best.Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}
