package tensor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// lengths covers full vectors, tails and rows shorter than a vector.
var lengths = []int{1, 7, 8, 16, 24, 33, 128, 1000}

// rowsOf returns n random rows of length k in both precisions.
func rowsOf(r *rand.Rand, n, k int) (a [][]float32, b [][]float64) {
	for range n {
		x := random(r, k)
		y := make([]float64, k)
		for i, v := range x {
			y[i] = float64(v)
		}
		a, b = append(a, x), append(b, y)
	}
	return a, b
}

func near(t *testing.T, name string, got []float32, want []float64) {
	t.Helper()
	var scale float64
	for _, v := range want {
		scale = max(scale, math.Abs(v))
	}
	for i, v := range want {
		if d := math.Abs(float64(got[i]) - v); !(d <= 2e-6*(1+scale)) {
			t.Fatalf("%s: element %d: got %v, want %v", name, i, got[i], v)
		}
	}
}

// Every training kernel in float32 agrees with its plain float64 form.
func TestTrainKernelsAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, n := range lengths {
		name := func(s string) string { return fmt.Sprintf("%s/%d", s, n) }

		a, b := rowsOf(r, 5, n) // x, gain, dy, dx, dgain
		y, yw := make([]float32, n), make([]float64, n)
		ra, rb := NormForward(y, a[0], a[1], 1e-5), NormForward(yw, b[0], b[1], 1e-5)
		near(t, name("norm"), y, yw)
		near(t, name("norm r"), []float32{ra}, []float64{rb})
		NormBackward(a[3], a[4], a[2], a[0], a[1], ra)
		NormBackward(b[3], b[4], b[2], b[0], b[1], rb)
		near(t, name("norm dx"), a[3], b[3])
		near(t, name("norm dgain"), a[4], b[4])

		a, b = rowsOf(r, 6, n) // x, skip, gain, dy, dx, dgain
		ra, rb = AddNormForward(y, a[0], a[1], a[2], 1e-5), AddNormForward(yw, b[0], b[1], b[2], 1e-5)
		near(t, name("sum"), a[0], b[0])
		near(t, name("norm of the sum"), y, yw)
		near(t, name("norm of the sum r"), []float32{ra}, []float64{rb})
		SkipNormBackward(a[4], a[1], a[5], a[3], a[0], a[2], ra)
		SkipNormBackward(b[4], b[1], b[5], b[3], b[0], b[2], rb)
		near(t, name("skip norm dx"), a[4], b[4])
		near(t, name("skip norm dgain"), a[5], b[5])

		a, b = rowsOf(r, 5, n) // gate, up, dh, dgate, dup
		SwiGLUForward(y, a[0], a[1])
		SwiGLUForward(yw, b[0], b[1])
		near(t, name("swiglu"), y, yw)
		SwiGLUBackward(a[3], a[4], a[2], a[0], a[1])
		SwiGLUBackward(b[3], b[4], b[2], b[0], b[1])
		near(t, name("swiglu dgate"), a[3], b[3])
		near(t, name("swiglu dup"), a[4], b[4])

		ReLU2Forward(y, a[0])
		ReLU2Forward(yw, b[0])
		near(t, name("relu2"), y, yw)
		ReLU2Backward(a[3], a[2], a[0])
		ReLU2Backward(b[3], b[2], b[0])
		near(t, name("relu2 dx"), a[3], b[3])

		a, b = rowsOf(r, 3, n)
		copy(y, a[2])
		near(t, name("nll"), []float32{NegLogLikelihood(y, n/2)}, []float64{NegLogLikelihood(append([]float64(nil), b[2]...), n/2)})
		la, lb := CrossEntropy(a[2], n/2, 0.5), CrossEntropy(b[2], n/2, 0.5)
		near(t, name("cross entropy"), []float32{la}, []float64{lb})
		near(t, name("cross entropy gradient"), a[2], b[2])

		a, b = rowsOf(r, 2, n)
		near(t, name("inner"), []float32{Inner(a[0], a[1]) / float32(n)}, []float64{Inner(b[0], b[1]) / float64(n)})
		AddScaled(a[0], 0.5, a[1])
		AddScaled(b[0], 0.5, b[1])
		ScaleBy(a[0], 3)
		ScaleBy(b[0], 3)
		near(t, name("add, scale"), a[0], b[0])
	}
}

func TestRotateAgreesAndInverts(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, dim := range []int{2, 8, 16, 24, 32, 64} {
		for _, pairs := range []bool{false, true} {
			a, b := rowsOf(r, 1, 3*dim)
			orig := append([]float64(nil), b[0]...)
			ca, cb := rowsOf(r, 3, dim/2)
			for i := range cb[0] {
				angle := cb[0][i]
				for j, v := range []float64{math.Cos(angle), math.Sin(angle), -math.Sin(angle)} {
					ca[j][i], cb[j][i] = float32(v), v
				}
			}
			Rotate(a[0], dim, ca[0], ca[1], pairs)
			Rotate(b[0], dim, cb[0], cb[1], pairs)
			near(t, fmt.Sprintf("rotate %d %v", dim, pairs), a[0], b[0])
			Rotate(a[0], dim, ca[0], ca[2], pairs)
			near(t, fmt.Sprintf("rotate back %d %v", dim, pairs), a[0], orig)
		}
	}
}

// One loss far in the tail: a clamped probability would report 20.7 nats.
func TestCrossEntropyDoesNotClamp(t *testing.T) {
	x := []float32{60, 0, -60, 0, 0, 0, 0, 0, 0}
	if got := CrossEntropy(x, 2, 1); math.Abs(float64(got)-120) > 1e-3 {
		t.Errorf("loss: got %v, want 120", got)
	}
}

func TestAdamWUpdate(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for _, n := range lengths {
		a, b := rowsOf(r, 4, n) // p, g, m, v
		for i := range a[3] {
			a[3][i] *= a[3][i]
			b[3][i] = float64(a[3][i])
		}
		k := AdamW{GradScale: 0.5, Beta1: 0.9, Inv1: 0.1, Beta2: 0.95, Inv2: 0.05, Rate: 0.01, RootCorrect: 1.5, Epsilon: 1e-8, DecayedWeight: 0.999}
		k.Update(a[0], a[1], a[2], a[3])
		for i := range b[0] {
			g := b[1][i] * 0.5
			b[2][i] = 0.9*b[2][i] + 0.1*g
			b[3][i] = 0.95*b[3][i] + 0.05*g*g
			b[0][i] = 0.999*b[0][i] - 0.01*b[2][i]/(1.5*math.Sqrt(b[3][i])+1e-8)
		}
		for j, name := range []string{"p", "g", "m", "v"} {
			near(t, fmt.Sprintf("adamw %s %d", name, n), a[j], b[j])
		}
	}
}

// Rows of causal attention, at every position of their document in the row.
func TestSoftmaxAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	for _, n := range []int{1, 8, 16, 30, 64} {
		for from := range min(n, 18) {
			for to := from + 1; to <= n; to++ {
				name := fmt.Sprintf("%d[%d:%d]", n, from, to)
				a, b := rowsOf(r, 2, n)
				scores := append([]float32(nil), a[0]...)
				la, lb := SoftmaxForward(a[0], from, to), SoftmaxForward(b[0], from, to)
				near(t, name+" softmax", a[0], b[0])
				near(t, name+" lse", []float32{la}, []float64{lb})
				var sum float32
				for i, p := range a[0] {
					if (i < from || i >= to) && p != 0 {
						t.Fatalf("%s: got %v outside the document", name, p)
					}
					sum += p
				}
				if math.Abs(float64(sum)-1) > 1e-5 {
					t.Fatalf("%s: sum of the softmax is %v", name, sum)
				}
				var delta float64
				for i, p := range b[0] {
					delta += p * b[1][i]
				}
				want := make([]float64, n)
				for i := range want {
					want[i] = 0.5 * b[0][i] * (b[1][i] - delta)
				}
				SoftmaxBackward(scores, a[1], from, to, la, float32(delta), 0.5)
				near(t, name+" again", scores, b[0])
				near(t, name+" gradient", a[1], want)
			}
		}
	}
}

// The exponential inside the kernels, over its full range.
func TestExponential(t *testing.T) {
	for x := float32(-87); x <= 0; x += 0.0137 {
		row := []float32{0, x, masked, -88, -1e4, x / 2, x / 4, 0}
		SoftmaxForward(row, 0, 8)
		want := math.Exp(float64(x))
		if got := float64(row[1] / row[0]); math.Abs(got-want) > 3e-7*want {
			t.Fatalf("e^%v: got %v, want %v", x, got, want)
		}
		if row[2] != 0 || row[3] != 0 || row[4] != 0 {
			t.Fatalf("underflow: got %v", row)
		}
	}
	for x := float32(-200); x < 200; x += 0.37 {
		gate, up, h := []float32{x, x, x, x, x, x, x, x}, []float32{1, 1, 1, 1, 1, 1, 1, 1}, make([]float32, 8)
		SwiGLUForward(h, gate, up)
		want := float64(x) / (1 + math.Exp(-float64(x)))
		if math.Abs(float64(h[3])-want) > 4e-7*max(math.Abs(want), 1e-30) && math.Abs(want) > 1e-35 {
			t.Fatalf("silu(%v): got %v, want %v", x, h[3], want)
		}
	}
}
