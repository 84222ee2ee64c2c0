package nn

import "math"

// SigLIP is the sigmoid loss of paired vectors (Zhai et al., arXiv 2303.15343):
// each pair of a batch is judged alone, by its cosine, as equal or different.
type SigLIP struct {
	Scale float64 // log of the factor of cosines
	Bias  float64
}

// Vectors is rows of C numbers.
type Vectors struct {
	Data []float32
	C    int
}

// unit returns the vectors at length 1 and their lengths.
func (v Vectors) unit() (unit, length []float64) {
	unit, length = make([]float64, len(v.Data)), make([]float64, len(v.Data)/v.C)
	for i := range length {
		row := v.Data[i*v.C : (i+1)*v.C]
		for _, x := range row {
			length[i] += float64(x) * float64(x)
		}
		length[i] = max(math.Sqrt(length[i]), 1e-12)
		for c, x := range row {
			unit[i*v.C+c] = float64(x) / length[i]
		}
	}
	return unit, length
}

// SigLIPGradients are the gradients of the loss, which are added to.
type SigLIPGradients struct {
	X, Y        []float32 // nil: not wanted
	Scale, Bias float64
}

// Loss returns the mean loss of the rows of x, and adds weight times its gradients
// to g. same reports whether x's row i and y's row j are a pair; i and i are.
func (s SigLIP) Loss(x, y Vectors, same func(i, j int) bool, weight float64, g *SigLIPGradients) float64 {
	n, C, factor := len(x.Data)/x.C, x.C, math.Exp(s.Scale)
	ux, lx := x.unit()
	uy, ly := y.unit()
	dx, dy := make([]float64, len(ux)), make([]float64, len(uy))
	var loss float64
	for i := range n {
		for j := range n {
			a, b := ux[i*C:(i+1)*C], uy[j*C:(j+1)*C]
			var cosine float64
			for c := range a {
				cosine += a[c] * b[c]
			}
			z := -1.0
			if i == j || same(i, j) {
				z = 1
			}
			v := -z * (factor*cosine + s.Bias)
			loss += max(v, 0) + math.Log1p(math.Exp(-math.Abs(v))) // of -log σ(-v)
			d := -z / (1 + math.Exp(-v)) / float64(n) * weight
			g.Scale += d * factor * cosine
			g.Bias += d
			for c := range a {
				dx[i*C+c] += d * factor * b[c]
				dy[j*C+c] += d * factor * a[c]
			}
		}
	}
	addUnit(g.X, dx, ux, lx, C)
	addUnit(g.Y, dy, uy, ly, C)
	return loss / float64(n)
}

// addUnit adds the gradients of vectors to grads, from those of the same vectors at
// length 1.
func addUnit(grads []float32, d, unit, length []float64, C int) {
	if grads == nil {
		return
	}
	for i, l := range length {
		var along float64
		for c := range C {
			along += d[i*C+c] * unit[i*C+c]
		}
		for c := range C {
			grads[i*C+c] += float32((d[i*C+c] - along*unit[i*C+c]) / l)
		}
	}
}
