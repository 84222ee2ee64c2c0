package graph_test

import (
	"testing"
)

// The models at hand, one run each, on one thread.
func BenchmarkRun(b *testing.B) {
	for _, r := range reals(b) {
		b.Run(r.name, func(b *testing.B) {
			p := load(b, r.path, 1)
			in := noise(p)
			for b.Loop() {
				if _, err := p.Run(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
