package net

import (
	"math"
	"slices"
	"testing"

	"mm-abi.org/mm/train/nn"
)

func random(rows, cols int, seed uint64) nn.Matrix[float64] {
	m := nn.NewMatrix[float64](rows, cols)
	nn.FillNormal(m.Data, nn.NewRandom(seed), 1)
	return m
}

// check compares the gradient that loss sets in dy with differences of loss.
func check(t *testing.T, name string, y, dy nn.Matrix[float64], scale float64, loss func() float64) {
	t.Helper()
	loss()
	c := nn.Compare(name, y.Data, dy.Data, func() float64 { return scale * loss() }, 60)
	if c.Error > 1e-7 || c.Norm == 0 {
		t.Errorf("%s: error %.2g of a gradient of %.2g", name, c.Error, c.Norm)
	}
}

func TestGradients(t *testing.T) {
	y, dy, z := random(5, 7, 1), random(5, 7, 2), random(5, 7, 3)
	check(t, "cross entropy", y, dy, 0.3, func() float64 { return CrossEntropy(y, dy, []int32{3, -1, 0, 6, 3}, 0.3) })
	for _, d := range []Distance{L1, L2, Huber} {
		check(t, string(d), y, dy, 0.3, func() float64 { return Regression(d, y, z, dy, 0.3) })
	}
}

// Euler's steps along the true velocity end at the sample.
func TestFlow(t *testing.T) {
	noise, x := random(3, 4, 1), random(3, 4, 2)
	at, v := random(3, 4, 3), random(3, 4, 4)
	Interpolate(at, v, noise, x, 0.25)
	for i, n := range noise.Data {
		if math.Abs(at.Data[i]-(0.75*n+0.25*x.Data[i])) > 1e-15 || v.Data[i] != x.Data[i]-n {
			t.Fatal("wrong point at t = 0.25")
		}
	}
	var times []float64
	Euler(noise, 4, func(t float64) nn.Matrix[float64] { times = append(times, t); return v })
	for i, n := range noise.Data {
		if math.Abs(n-x.Data[i]) > 1e-12 {
			t.Fatal("four Euler steps miss the sample")
		}
	}
	if !slices.Equal(times, []float64{0, 0.25, 0.5, 0.75}) {
		t.Errorf("velocity computed at %v", times)
	}
}
