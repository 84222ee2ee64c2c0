package llm

import (
	"fmt"
	"testing"
	"time"

	"mm-abi.org/mm/core/optim"
	"mm-abi.org/mm/core/pool"
)

// sizes are the models that training speed is told of, with the positions of a
// sequence.
var sizes = []struct {
	name  string
	model Config
	T     int
}{
	{"1.3M", Config{Vocab: 1024, Dim: 128, Layers: 4, Heads: 4, Context: 128}, 128},
	{"3.9M", Config{Vocab: 1024, Dim: 192, Layers: 6, Heads: 6, Context: 128}, 128},
	{"30M", Config{Vocab: 8192, Dim: 512, Layers: 8, Heads: 8, Hidden: 1408, Context: 256, Tied: true}, 256},
}

// BenchmarkStep is whole steps of batch 4: forward, backward, the norm of the
// gradient, AdamW and what makes the weights ready for the next one. It
// reports the best rate.
func BenchmarkStep(b *testing.B) {
	for _, s := range sizes {
		for i := range 4 {
			threads, bf16, name := 1+i%2, i > 1, fmt.Sprintf("%s/%dT", s.name, 1+i%2)
			if bf16 {
				name += "/bf16"
			}
			b.Run(name, func(b *testing.B) {
				p := pool.New(threads)
				defer p.Close()
				m := randomModel[float32](b, s.model, 1)
				m.BF16 = bf16
				pass, batch := m.NewPass(p, 4, s.T), randomBatch[float32](s.model, 4, s.T, 2)
				batch.Starts = nil
				var params []optim.Param
				for _, t := range m.Tensors() {
					params = append(params, optim.Param{Name: t.Name, Shape: t.Shape, Data: t.Data, Grad: t.Grad, Decay: t.Matrix()})
				}
				gauge, adam := optim.NewGauge(params, p), optim.NewAdamW(params, optim.AdamWOptions{Decay: 0.1}, p)
				m.Refresh(p)
				best := time.Hour
				for b.Loop() {
					start := time.Now()
					train(b, m, pass, batch)
					adam.Step(1e-4, 1/max(gauge.Norm(), 1))
					m.Refresh(p)
					best = min(best, time.Since(start))
				}
				n := float64(4 * s.T)
				b.ReportMetric(n/best.Seconds(), "tok/s")
				b.ReportMetric(n*float64(s.model.FLOPs(s.T))/best.Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
