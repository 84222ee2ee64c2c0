package sound

import (
	"cmp"
	"math"
	"slices"
)

// rightSingular returns the right singular vectors of the rows a, N × M with N at
// most M, the largest singular value first; a vector of a zero singular value is
// nil. It diagonalizes a·aᵀ by Jacobi rotations, which is exact enough for the few
// largest of a few hundred rows.
func rightSingular(a [][]float64) [][]float64 {
	n := len(a)
	gram, u := make([][]float64, n), make([][]float64, n)
	for i := range n {
		gram[i], u[i] = make([]float64, n), make([]float64, n)
		u[i][i] = 1
		for j := range n {
			gram[i][j] = dot(a[i], a[j])
		}
	}
	for range 60 { // sweeps; a dozen suffice
		off := 0.0
		for p := range n {
			for q := p + 1; q < n; q++ {
				off += gram[p][q] * gram[p][q]
				rotate(gram, u, p, q)
			}
		}
		if off == 0 {
			break
		}
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(gram[j][j], gram[i][i]) })
	out := make([][]float64, n)
	for k, c := range order {
		if !(gram[c][c] > 1e-14*gram[order[0]][order[0]]) {
			break
		}
		v := make([]float64, len(a[0]))
		for i, row := range a {
			for m, x := range row {
				v[m] += float64(u[i][c] * x)
			}
		}
		by := 1 / math.Sqrt(dot(v, v))
		for m := range v {
			v[m] *= by
		}
		out[k] = v
	}
	return out
}

// rotate applies the Jacobi rotation that clears g[p][q] of the symmetric matrix g,
// and accumulates it in the columns of u.
func rotate(g, u [][]float64, p, q int) {
	if math.Abs(g[p][q]) <= 1e-18*math.Sqrt(math.Abs(g[p][p]*g[q][q])) {
		g[p][q], g[q][p] = 0, 0
		return
	}
	theta := (g[q][q] - g[p][p]) / (2 * g[p][q])
	t := math.Copysign(1, theta) / (math.Abs(theta) + math.Sqrt(theta*theta+1))
	c := 1 / math.Sqrt(t*t+1)
	s := t * c
	for k := range g {
		x, y := g[k][p], g[k][q]
		g[k][p], g[k][q] = float64(c*x)-float64(s*y), float64(s*x)+float64(c*y)
	}
	for k := range g {
		x, y := g[p][k], g[q][k]
		g[p][k], g[q][k] = float64(c*x)-float64(s*y), float64(s*x)+float64(c*y)
	}
	for k := range u {
		x, y := u[k][p], u[k][q]
		u[k][p], u[k][q] = float64(c*x)-float64(s*y), float64(s*x)+float64(c*y)
	}
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += float64(x * b[i])
	}
	return sum
}
