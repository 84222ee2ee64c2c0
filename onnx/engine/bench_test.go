package engine_test

import (
	"testing"
)

// One run of each available model on one thread.
func BenchmarkRun(b *testing.B) {
	for _, r := range append(reals(b), fetched(b)...) {
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
