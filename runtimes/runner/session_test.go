package runner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/runtimes"
)

// The positions after a prefix may start within tokens or within vectors.
func TestFrom(t *testing.T) {
	p := &positions{width: 2, in: []runtimes.Positions{{Tokens: []int32{5, 6}}, {Vectors: []float32{1, 2, 3, 4, 5, 6}}, {Tokens: []int32{7}}}}
	for n, want := range [][]runtimes.Positions{
		p.in,
		{{Tokens: []int32{6}}, p.in[1], p.in[2]},
		{p.in[1], p.in[2]},
		{{Vectors: []float32{3, 4, 5, 6}}, p.in[2]},
		{{Vectors: []float32{5, 6}}, p.in[2]},
		{p.in[2]},
		nil,
	} {
		if d := cmp.Diff(want, p.from(n)); d != "" {
			t.Errorf("from %d (-want +got):\n%s", n, d)
		}
	}
}
