package loss

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

// check holds the gradient that loss sets in dy against differences of it.
func check(t *testing.T, name string, y, dy nn.Matrix[float64], scale float64, loss func() float64) {
	t.Helper()
	loss()
	c := nn.Compare(name, y.Data, dy.Data, func() float64 { return scale * loss() }, 60)
	if c.Error > 1e-7 || c.Norm == 0 {
		t.Errorf("%s: error %.2g of a gradient of %.2g", name, c.Error, c.Norm)
	}
}

func TestGradients(t *testing.T) {
	y, dy, z, dz := random(5, 7, 1), random(5, 7, 2), random(5, 7, 3), random(5, 7, 4)
	check(t, "cross entropy", y, dy, 0.3, func() float64 { return CrossEntropy(y, dy, []int32{3, -1, 0, 6, 3}, 0.3) })
	for _, d := range []Distance{L1, L2, Huber} {
		check(t, string(d), y, dy, 0.3, func() float64 { return Regression(d, y, z, dy, 0.3) })
	}
	pairs := func() float64 { sum, _ := Contrastive(y, z, dy, dz, 4, 0.3); return sum }
	check(t, "contrastive a", y, dy, 0.3, pairs)
	check(t, "contrastive b", z, dz, 0.3, pairs)
	sharp, slope := []float64{4}, []float64{0}
	_, slope[0] = Contrastive(y, z, dy, dz, 4, 0.3)
	c := nn.Compare("sharpness", sharp, slope, func() float64 { sum, _ := Contrastive(y, z, dy, dz, sharp[0], 0.3); return 0.3 * sum }, 1)
	if c.Error > 1e-7 {
		t.Errorf("sharpness: error %.2g", c.Error)
	}
	for _, labels := range [][]int32{{}, {2}, {2, 2}, {1, 3, 5}, {4, 4, 1}} {
		check(t, "ctc", y, dy, 0.3, func() float64 { return CTC(y, dy, labels, 0, 0.3) })
	}
}

// TestContrastive: pairs that point the same way cost less than strangers.
func TestContrastive(t *testing.T) {
	a, d := random(4, 8, 1), random(4, 8, 2)
	same, _ := Contrastive(a, a, d, d, 20, 1)
	strange, _ := Contrastive(a, random(4, 8, 3), d, d, 20, 1)
	if same > 0.2 || strange < 4*math.Log(4) {
		t.Errorf("pairs cost %v, strangers %v", same, strange)
	}
}

// spell is what a way through the rows says: repetitions once, no blanks.
func spell(way []int32, blank int32) []int32 {
	var out []int32
	for i, l := range way {
		if l != blank && (i == 0 || l != way[i-1]) {
			out = append(out, l)
		}
	}
	return out
}

// TestCTC: the loss is that of all ways one by one.
func TestCTC(t *testing.T) {
	const T, V = 5, 3
	y, dy := random(T, V, 9), random(T, V, 1)
	for _, blank := range []int{0, 2} {
		sums := map[string]float64{}
		way := make([]int32, T)
		for n := range 243 { // V^T
			p := 0.0
			for t := range T {
				way[t] = int32(n % V)
				n /= V
				p += logSoftmax(y.Row(t))[way[t]]
			}
			key := string(spell(way, int32(blank)))
			sums[key] += math.Exp(p)
		}
		total := 0.0
		for key, want := range sums {
			labels := []int32(nil)
			for _, r := range key {
				labels = append(labels, r)
			}
			got := math.Exp(-CTC(y, dy, labels, blank, 1))
			if math.Abs(got-want) > 1e-12 {
				t.Errorf("blank %d, labels %v: probability %v, %v of all ways one by one", blank, labels, got, want)
			}
			total += got
		}
		if math.Abs(total-1) > 1e-12 {
			t.Errorf("blank %d: all texts together have probability %v", blank, total)
		}
	}
}

func TestCTCTooShort(t *testing.T) {
	y, dy := random(2, 3, 1), random(2, 3, 2)
	for _, labels := range [][]int32{{1, 1}, {1, 2, 1}} {
		if got := CTC(y, dy, labels, 0, 1); !math.IsInf(got, 1) || slices.Max(dy.Data) != 0 || slices.Min(dy.Data) != 0 {
			t.Errorf("%v in two rows: loss %v, gradient %v", labels, got, dy.Data)
		}
	}
}

func TestGreedy(t *testing.T) {
	y := nn.NewMatrix[float64](6, 3)
	for t, best := range []int{1, 1, 0, 1, 2, 2} {
		y.Row(t)[best] = 1
	}
	if got := Greedy(y, 0); !slices.Equal(got, []int32{1, 1, 2}) {
		t.Errorf("read %v", got)
	}
}

// TestFlow: along the true velocity Euler's steps end at the sample.
func TestFlow(t *testing.T) {
	noise, x := random(3, 4, 1), random(3, 4, 2)
	at, v := random(3, 4, 3), random(3, 4, 4)
	Interpolate(at, v, noise, x, 0.25)
	for i, n := range noise.Data {
		if math.Abs(at.Data[i]-(0.75*n+0.25*x.Data[i])) > 1e-15 || v.Data[i] != x.Data[i]-n {
			t.Fatal("a quarter of the way lies elsewhere")
		}
	}
	var times []float64
	Euler(noise, 4, func(t float64) nn.Matrix[float64] { times = append(times, t); return v })
	for i, n := range noise.Data {
		if math.Abs(n-x.Data[i]) > 1e-12 {
			t.Fatal("four steps along the velocity do not end at the sample")
		}
	}
	if !slices.Equal(times, []float64{0, 0.25, 0.5, 0.75}) {
		t.Errorf("velocity asked for at %v", times)
	}
}
