package arith

import (
	"math"
	"math/bits"
	"math/cmplx"
)

// fourier computes discrete Fourier transforms of one length: by the factors of
// the length where they are small, otherwise as a convolution of a power of two
// (Bluestein's algorithm).
type fourier struct {
	n       int
	turns   []complex128 // e^(-2πik/n)
	factors []int
	chirp   []complex128 // e^(-πik²/n); nil if the factors are small
	inner   *fourier     // of the convolution
	kernel  []complex128 // transformed
	room    [2][]complex128
}

// maxFactor is the largest factor that is computed directly.
const maxFactor = 31

func newFourier(n int) *fourier {
	f := &fourier{n: n, turns: make([]complex128, n)}
	for k := range f.turns {
		f.turns[k] = cmplx.Rect(1, -2*math.Pi*float64(k)/float64(n))
	}
	rest := n
	for p := 2; p <= maxFactor && rest > 1; p++ {
		for rest%p == 0 {
			f.factors, rest = append(f.factors, p), rest/p
		}
	}
	if rest > 1 {
		f.bluestein()
	}
	return f
}

func (f *fourier) bluestein() {
	m := 1 << bits.Len(uint(2*f.n-2))
	f.chirp, f.kernel, f.inner = make([]complex128, f.n), make([]complex128, m), newFourier(m)
	padded := make([]complex128, m)
	for k := range f.chirp {
		f.chirp[k] = cmplx.Rect(1, -math.Pi*float64(k*k%(2*f.n))/float64(f.n))
		padded[k] = cmplx.Conj(f.chirp[k])
		padded[(m-k)%m] = padded[k]
	}
	f.inner.forward(f.kernel, padded)
	f.room = [2][]complex128{padded, make([]complex128, m)}
}

// forward sets dst to the transform of x, which has n numbers. They must not
// overlap.
func (f *fourier) forward(dst, x []complex128) {
	if f.chirp == nil {
		f.split(dst, x, 1, f.n, f.factors)
		return
	}
	a, b := f.room[0], f.room[1]
	clear(a)
	for k, v := range x {
		a[k] = v * f.chirp[k]
	}
	f.inner.forward(b, a)
	for k := range b { // the inverse is the conjugate of the transform of the conjugate
		b[k] = cmplx.Conj(b[k] * f.kernel[k])
	}
	f.inner.forward(a, b)
	for k := range dst {
		dst[k] = cmplx.Conj(a[k]) / complex(float64(len(a)), 0) * f.chirp[k]
	}
}

// split transforms n numbers of x, step apart, by the first factor.
func (f *fourier) split(dst, x []complex128, step, n int, factors []int) {
	if n == 1 {
		dst[0] = x[0]
		return
	}
	p, m := factors[0], n/factors[0]
	for r := range p {
		f.split(dst[r*m:(r+1)*m], x[r*step:], step*p, m, factors[1:])
	}
	var in, out [maxFactor]complex128
	for k := range m {
		for r := range p {
			in[r] = dst[r*m+k] * f.turns[r*k*step]
		}
		for q := range p {
			out[q] = in[0]
			for r := 1; r < p; r++ {
				out[q] += in[r] * f.turns[q*r*m*step%f.n]
			}
		}
		for q := range p {
			dst[q*m+k] = out[q]
		}
	}
}

// inverse sets dst to the inverse transform of x, which it conjugates.
func (f *fourier) inverse(dst, x []complex128) {
	for k := range x {
		x[k] = cmplx.Conj(x[k])
	}
	f.forward(dst, x)
	for k := range dst {
		dst[k] = cmplx.Conj(dst[k]) / complex(float64(f.n), 0)
	}
}
