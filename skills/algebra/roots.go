package algebra

import (
	"math"
	"math/cmplx"
	"slices"
)

// roots returns the complex roots of a polynomial, coefficients from the
// constant up, by the method of Aberth (1973), or nil if it does not converge.
func (c *calc) roots(coefs []complex128) []complex128 {
	n := len(coefs) - 1
	top := coefs[n]
	radius := 0.0
	for i, k := range coefs[:n] {
		a := cmplx.Abs(k / top)
		if cmplx.IsNaN(k/top) || cmplx.IsInf(k/top) {
			return nil
		}
		radius = math.Max(radius, math.Pow(a, 1/float64(n-i)))
	}
	if radius == 0 {
		return make([]complex128, n)
	}
	z := make([]complex128, n)
	for i := range z {
		z[i] = cmplx.Rect(radius, 2*math.Pi*float64(i)/float64(n)+0.4)
	}
	for range 500 {
		c.step(n * n)
		moved := 0.0
		for i := range z {
			p, d := top, complex128(0)
			for j := n - 1; j >= 0; j-- {
				d = d*z[i] + p
				p = p*z[i] + coefs[j]
			}
			if p == 0 {
				continue
			}
			w := p / d
			if d == 0 {
				w = complex(radius/1e3, radius/1e3)
			}
			var others complex128
			for j := range z {
				if j != i && z[j] != z[i] {
					others += 1 / (z[i] - z[j])
				}
			}
			w /= 1 - w*others
			if cmplx.IsNaN(w) || cmplx.IsInf(w) {
				return nil
			}
			z[i] -= w
			moved = math.Max(moved, cmplx.Abs(w)/(cmplx.Abs(z[i])+1e-300))
		}
		if moved < 1e-15 {
			break
		}
	}
	return c.sortRoots(z, coefs)
}

// sortRoots makes roots real that are real but for rounding, if the
// coefficients are, and sorts them.
func (c *calc) sortRoots(z, coefs []complex128) []complex128 {
	isReal := !slices.ContainsFunc(coefs, func(k complex128) bool { return imag(k) != 0 })
	for i, v := range z {
		if isReal && math.Abs(imag(v)) < 1e-9*cmplx.Abs(v) {
			z[i] = complex(real(v), 0)
		}
	}
	slices.SortFunc(z, inOrder)
	return z
}

// inOrder orders real values first, then by size.
func inOrder(a, b complex128) int {
	if (imag(a) == 0) != (imag(b) == 0) {
		if imag(a) == 0 {
			return -1
		}
		return 1
	}
	if d := real(a) - real(b); math.Abs(d) > 1e-9*(1+cmplx.Abs(a)) {
		return int(math.Copysign(1, d))
	}
	switch {
	case imag(a) < imag(b):
		return -1
	case imag(a) > imag(b):
		return 1
	}
	return 0
}
