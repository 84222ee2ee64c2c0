package tensor

import "math"

// The plain kernels are the oracle of the assembly and run on other machines.

func dotPlain(a, b []float32) float32 {
	b = b[:len(a)]
	var s [8]float32 // the partial sums of the vector kernel's lanes
	n := len(a) &^ 7
	for i := 0; i < n; i += 8 {
		x, y := a[i:i+8:i+8], b[i:i+8:i+8]
		s[0] += x[0] * y[0]
		s[1] += x[1] * y[1]
		s[2] += x[2] * y[2]
		s[3] += x[3] * y[3]
		s[4] += x[4] * y[4]
		s[5] += x[5] * y[5]
		s[6] += x[6] * y[6]
		s[7] += x[7] * y[7]
	}
	for i := n; i < len(a); i++ {
		s[0] += a[i] * b[i]
	}
	return (s[0] + s[4]) + (s[1] + s[5]) + ((s[2] + s[6]) + (s[3] + s[7]))
}

func axpyPlain(y []float32, a float32, x []float32) {
	y = y[:len(x)]
	for i := range x {
		y[i] += a * x[i]
	}
}

func addPlain(y, x []float32) {
	y = y[:len(x)]
	for i := range x {
		y[i] += x[i]
	}
}

func scalePlain(x []float32, a float32) {
	for i := range x {
		x[i] *= a
	}
}

func maxPlain(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return m
}

func expSumPlain(dst, x []float32, sub float32) float32 {
	x = x[:len(dst)]
	var s [8]float32
	for i := range dst {
		e := exp(x[i] - sub)
		dst[i] = e
		s[i&7] += e
	}
	return (s[0] + s[4]) + (s[1] + s[5]) + ((s[2] + s[6]) + (s[3] + s[7]))
}

// exp returns e^x, 0 below the smallest normal number.
func exp(x float32) float32 {
	if x < expMin {
		return 0
	}
	return float32(math.Exp(float64(x)))
}

// expMin is slightly above ln(2⁻¹²⁶): the exponential of anything smaller is 0.
const expMin = -87.336

func mulScaledPlain(dst, x, gain []float32, a float32) {
	x, gain = x[:len(dst)], gain[:len(dst)]
	for i := range dst {
		dst[i] = x[i] * a * gain[i]
	}
}

func siluMulPlain(dst, gate, up []float32) {
	gate, up = gate[:len(dst)], up[:len(dst)]
	for i := range dst {
		dst[i] = gate[i] / (1 + exp(-gate[i])) * up[i]
	}
}

func ropePairsPlain(x, cos, sin []float32) {
	for i, c := range cos {
		a, b, s := x[2*i], x[2*i+1], sin[i]
		x[2*i] = a*c - b*s
		x[2*i+1] = a*s + b*c
	}
}

func ropeHalvesPlain(lo, hi, cos, sin []float32) {
	for i, c := range cos {
		a, b, s := lo[i], hi[i], sin[i]
		lo[i] = a*c - b*s
		hi[i] = a*s + b*c
	}
}

func mulPanelPlain(c []float32, ldc int, a []float32, lda int, b []float32, m, k int, acc bool) {
	for i := range m {
		row := c[i*ldc : i*ldc+PanelWidth]
		if !acc {
			clear(row)
		}
		for j, x := range a[i*lda : i*lda+k] {
			axpyPlain(row, x, b[j*PanelWidth:j*PanelWidth+PanelWidth])
		}
	}
}

// mulPanelHalves converts parts of b for the float32 kernel.
func mulPanelHalves(c []float32, ldc int, a []float32, lda int, b []byte, m, k int, acc bool) {
	var values [64 * PanelWidth]float32
	for at := 0; at < k || at == 0; at += 64 {
		n := min(k-at, 64)
		part := values[:n*PanelWidth]
		fromF16(part, b[2*at*PanelWidth:][:2*len(part)])
		mulPanel(c, ldc, a[at:], lda, part, m, n, acc || at > 0)
	}
}
