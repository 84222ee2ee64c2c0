package tensor

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// fmaPeak returns the float32 rate of fused multiply-adds on one core, in
// GFLOP/s.
func fmaPeak() float64 {
	var best float64
	for range 10 {
		start := time.Now()
		flops := fmaBurst()
		best = max(best, flops/time.Since(start).Seconds()/1e9)
	}
	return best
}

// BenchmarkGemm reports the GFLOP/s of the three forms and, for one thread, the
// fraction of the peak of fused multiply-adds in the same run.
func BenchmarkGemm(b *testing.B) {
	peak := fmaPeak()
	r := rand.New(rand.NewPCG(1, 1))
	for _, s := range [][3]int{{512, 512, 512}, {512, 1024, 128}, {1024, 1024, 1024}, {128, 128, 512}} {
		for form, name := range []string{"NN", "TN", "NT"} {
			for threads := 1; threads <= 2; threads++ {
				p := tight(product(r, s[0], s[1], s[2], form == 1, form == 2, 1, 0))
				g := Multiplier[float32]{Threads: threads}
				b.Run(fmt.Sprintf("%dx%dx%d/%s/%dT", s[0], s[1], s[2], name, threads), func(b *testing.B) {
					best := time.Hour
					for b.Loop() {
						start := time.Now()
						g.Do(p)
						best = min(best, time.Since(start))
					}
					rate := 2 * float64(s[0]) * float64(s[1]) * float64(s[2]) / best.Seconds() / 1e9
					b.ReportMetric(rate, "GFLOP/s")
					if threads == 1 {
						b.ReportMetric(100*rate/peak, "%peak")
					}
				})
			}
		}
	}
}

// tight removes the space between rows, because matrices in use have none.
func tight(p Product[float32]) Product[float32] {
	p.LDC, p.LDB = p.N, p.N
	if p.TransB {
		p.LDB = p.K
	}
	if p.A.Col == 1 {
		p.A.Row = p.K
	} else {
		p.A.Col = p.M
	}
	return p
}
