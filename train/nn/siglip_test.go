package nn_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"mm-abi.org/mm/train/nn"
)

func never(i, j int) bool { return false }

// The loss and its gradients are those of PyTorch (scripts/siglip.py).
func TestSigLIP(t *testing.T) {
	data, err := os.ReadFile("testdata/siglip.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		N                                int
		Scale, Bias, Loss, DScale, DBias float64
		X, Y, DX, DY                     []float32
	}
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) != 3 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		C := len(c.X) / c.N
		g := nn.SigLIPGradients{X: make([]float32, len(c.X)), Y: make([]float32, len(c.Y))}
		loss := nn.SigLIP{Scale: c.Scale, Bias: c.Bias}.Loss(nn.Vectors{Data: c.X, C: C}, nn.Vectors{Data: c.Y, C: C}, never, 1, &g)
		worst := max(math.Abs(loss-c.Loss), math.Abs(g.Scale-c.DScale), math.Abs(g.Bias-c.DBias))
		for i := range c.X {
			worst = max(worst, math.Abs(float64(g.X[i]-c.DX[i])), math.Abs(float64(g.Y[i]-c.DY[i])))
		}
		t.Logf("n %d: loss %.6f, largest difference %.2g", c.N, loss, worst)
		if !(worst < 1e-6) {
			t.Errorf("n %d: largest difference %.3g from PyTorch, want 1e-6", c.N, worst)
		}
	}
}

// The gradients agree with central differences, also with several pairs in a row
// and a weight, and are added to.
func TestSigLIPDifferences(t *testing.T) {
	const n, C, h, weight = 4, 5, 1e-3, 3
	x, y := make([]float32, n*C), make([]float32, n*C)
	nn.FillNormal(x, nn.NewRandom(1), 1)
	nn.FillNormal(y, nn.NewRandom(2), 1)
	same := func(i, j int) bool { return i+j == 3 }
	s := nn.SigLIP{Scale: 0.7, Bias: -0.3}
	loss := func(s nn.SigLIP) float64 {
		return weight * s.Loss(nn.Vectors{Data: x, C: C}, nn.Vectors{Data: y, C: C}, same, 0, &nn.SigLIPGradients{})
	}
	g := nn.SigLIPGradients{X: make([]float32, n*C), Y: make([]float32, n*C), Scale: 2}
	g.X[0] = 7
	s.Loss(nn.Vectors{Data: x, C: C}, nn.Vectors{Data: y, C: C}, same, weight, &g)
	g.X[0] -= 7
	check := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 2e-4*max(1, math.Abs(want)) {
			t.Errorf("%s: got %.6f, want %.6f", name, got, want)
		}
	}
	for _, v := range []struct {
		name       string
		data, grad []float32
	}{{"x", x, g.X}, {"y", y, g.Y}} {
		for i := range v.data {
			old := v.data[i]
			v.data[i] = old + h
			up := loss(s)
			v.data[i] = old - h
			down := loss(s)
			v.data[i] = old
			check(v.name, float64(v.grad[i]), (up-down)/(2*h))
		}
	}
	check("scale", g.Scale-2, (loss(nn.SigLIP{Scale: s.Scale + h, Bias: s.Bias})-loss(nn.SigLIP{Scale: s.Scale - h, Bias: s.Bias}))/(2*h))
	check("bias", g.Bias, (loss(nn.SigLIP{Scale: s.Scale, Bias: s.Bias + h})-loss(nn.SigLIP{Scale: s.Scale, Bias: s.Bias - h}))/(2*h))
}
