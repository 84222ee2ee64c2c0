package adapter

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLimits has sizes at each limit, and beyond it.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		rank, in, out int
		want          bool
	}{
		{maxRank, 1, 1, true}, {maxRank + 1, 1, 1, false}, {0, 1, 1, false},
		{1, maxDim, 1, true}, {1, maxDim + 1, 1, false}, {1, 0, 1, false},
		{1, 1, maxDim, true}, {1, 1, maxDim + 1, false}, {1, 1, 0, false},
	} {
		ch := Change{Rank: c.rank, In: c.in, Out: c.out, A: make([]float32, c.rank*c.in), B: make([]float32, c.rank*c.out), Scale: 1}
		if err := ch.check(); (err == nil) != c.want {
			t.Errorf("%d of %d × %d: %v", c.rank, c.in, c.out, err)
		}
	}
	for i, want := range map[int]bool{0: true, 1: false, -1: false} {
		ch := Change{Rank: 1, In: 2, Out: 3, A: make([]float32, 2+i), B: make([]float32, 3), Scale: 1}
		if err := ch.check(); (err == nil) != want {
			t.Errorf("A with %d more numbers: %v", i, err)
		}
		ch = Change{Rank: 1, In: 2, Out: 3, A: make([]float32, 2), B: make([]float32, 3), Magnitude: make([]float32, 3+i), Scale: 1}
		if err := ch.check(); (err == nil) != want {
			t.Errorf("%d more magnitudes: %v", i, err)
		}
	}
	if err := (Change{Rank: 1, In: 1, Out: 1, A: []float32{1}, B: []float32{1}, Scale: float32(math.NaN())}).check(); err == nil {
		t.Error("a scale of NaN")
	}
	for n, want := range map[int64]bool{maxConfig: false, maxConfig + 1: true} {
		dir := t.TempDir()
		if err := os.WriteFile(configPath(dir), []byte(`{"x":"`+strings.Repeat("x", int(n)-6)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "adapter_model.safetensors"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openPEFT(dir, Model{}); err == nil || strings.Contains(err.Error(), "exceeds") != want {
			t.Errorf("maxConfig: %d bytes: %v", n, err)
		}
	}
}
