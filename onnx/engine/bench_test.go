package engine_test

import (
	"testing"
)

// The models at hand, one run each, on one thread.
func BenchmarkRun(b *testing.B) {
	for _, r := range append(reals(b), strangers(b)...) {
		b.Run(r.name, func(b *testing.B) {
			p := load(b, r.path, 1)
			in := r.inputs(b)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Run(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
