package llm

import (
	"fmt"
	"testing"
	"time"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/optim"
)

// sizes are the models and sequence lengths of the published training speeds.
var sizes = []struct {
	name  string
	model Config
	T     int
}{
	{"1.3M", Config{Vocab: 1024, Dim: 128, Layers: 4, Heads: 4, Context: 128}, 128},
	{"3.9M", Config{Vocab: 1024, Dim: 192, Layers: 6, Heads: 6, Context: 128}, 128},
	{"30M", Config{Vocab: 8192, Dim: 512, Layers: 8, Heads: 8, Hidden: 1408, Context: 256, Tied: true}, 256},
}

// step returns a complete step with batch size 4: forward, backward, the
// gradient norm, AdamW and packing for the next step.
func step(b *testing.B, c Config, T int, bf16 bool, p *pool.Pool) func() {
	m := randomModel[float32](b, c, 1)
	m.BF16 = bf16
	pass, batch := m.NewPass(p, 4, T), randomBatch[float32](c, 4, T, 2)
	batch.Starts = nil
	var params []optim.Param
	for _, t := range m.Tensors() {
		params = append(params, optim.Param{Name: t.Name, Shape: t.Shape, Data: t.Data, Grad: t.Grad, Decay: t.Matrix()})
	}
	gauge, adam := optim.NewGauge(params, p), optim.NewAdamW(params, optim.AdamWOptions{Decay: 0.1}, p)
	m.Refresh(p)
	return func() {
		train(b, m, pass, batch)
		adam.Step(1e-4, 1/max(gauge.Norm(), 1))
		m.Refresh(p)
	}
}

// BenchmarkStep reports the best rate of complete steps.
func BenchmarkStep(b *testing.B) {
	for _, s := range sizes {
		for threads := 1; threads <= 2; threads++ {
			b.Run(fmt.Sprintf("%s/%dT", s.name, threads), func(b *testing.B) {
				p := pool.New(threads)
				defer p.Close()
				once := step(b, s.model, s.T, false, p)
				best := time.Hour
				for b.Loop() {
					start := time.Now()
					once()
					best = min(best, time.Since(start))
				}
				n := float64(4 * s.T)
				b.ReportMetric(n/best.Seconds(), "tok/s")
				b.ReportMetric(n*float64(s.model.FLOPs(s.T))/best.Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
