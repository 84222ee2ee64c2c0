package tensor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// widths returns the panel widths, and so the kernels, available on this
// machine.
func widths() []int {
	var all []int
	for _, w := range []int{plainWidth, 16, 32} {
		if w <= panelWidth[float32]() {
			all = append(all, w)
		}
	}
	return all
}

func random(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// reference returns the product in float64, computed from the definition.
func reference(p Product[float32]) []float64 {
	c := make([]float64, p.M*p.N)
	for i := range p.M {
		for j := range p.N {
			var s float64
			for k := range p.K {
				b := p.B[min(k*p.LDB+j, len(p.B)-1)]
				if p.TransB {
					b = p.B[j*p.LDB+k]
				}
				s += float64(p.A.Data[i*p.A.Row+k*p.A.Col]) * float64(b)
			}
			s *= float64(p.Alpha)
			if p.Beta != 0 {
				s += float64(p.Beta) * float64(p.C[i*p.LDC+j])
			}
			c[i*p.N+j] = s
		}
	}
	return c
}

// product returns a random product whose matrices have unused space around
// them.
func product(r *rand.Rand, m, n, k int, transA, transB bool, alpha, beta float32) Product[float32] {
	p := Product[float32]{M: m, N: n, K: k, Alpha: alpha, Beta: beta, TransB: transB, LDC: n + r.IntN(3)}
	if transA {
		lda := m + r.IntN(3)
		p.A = Columns(random(r, k*lda), lda)
	} else {
		lda := k + r.IntN(3)
		p.A = Rows(random(r, m*lda), lda)
	}
	if transB {
		p.LDB = k + r.IntN(3)
		p.B = random(r, n*p.LDB)
	} else {
		p.LDB = n + r.IntN(3)
		p.B = random(r, k*p.LDB)
	}
	p.C = random(r, m*p.LDC)
	return p
}

func TestMulAgreesWithReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	shapes := [][3]int{{1, 1, 1}, {12, 32, 8}, {13, 33, 9}, {128, 96, 64}, {23, 100, 7}, {250, 40, 600}, {3, 5, 1030}, {47, 31, 16}}
	for _, s := range shapes {
		for form := range 4 {
			for _, scale := range [][2]float32{{1, 0}, {1, 1}, {-0.5, 2}} {
				p := product(r, s[0], s[1], s[2], form&1 != 0, form&2 != 0, scale[0], scale[1])
				want := reference(p)
				for _, width := range widths() {
					name := fmt.Sprintf("%v form %d scale %v width %d", s, form, scale, width)
					b := newPanels[float32](p.K, p.N, width)
					if p.TransB {
						b.PackTransposed(p.B, p.LDB)
					} else {
						b.Pack(p.B, p.LDB)
					}
					c := append([]float32(nil), p.C...)
					b.Mul(p.M, p.Alpha, p.A, p.Beta, c, p.LDC)
					checkClose(t, name, p, c, want)
				}
			}
		}
	}
}

// checkClose compares the M×N part of c with want and the rest with p.C.
func checkClose(t *testing.T, name string, p Product[float32], c []float32, want []float64) {
	t.Helper()
	bound := 1e-6 * math.Sqrt(float64(p.K)) * 8
	for i := range p.M {
		for j := range p.LDC {
			at := i*p.LDC + j
			if at >= len(c) {
				break
			}
			if j >= p.N {
				if c[at] != p.C[at] {
					t.Fatalf("%s: element outside the matrix written", name)
				}
				continue
			}
			if d := math.Abs(float64(c[at]) - want[i*p.N+j]); !(d <= bound) {
				t.Fatalf("%s: C[%d,%d] = %v, want %v", name, i, j, c[at], want[i*p.N+j])
			}
		}
	}
}

// NaN in C must not survive a product with beta 0, which never reads C.
func TestMulBetaZeroIgnoresC(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, width := range widths() {
		p := product(r, 17, 37, 5, false, false, 1, 0)
		for i := range p.C {
			p.C[i] = float32(math.NaN())
		}
		b := newPanels[float32](p.K, p.N, width)
		b.Pack(p.B, p.LDB)
		b.Mul(p.M, 1, p.A, 0, p.C, p.LDC)
		for i := range p.M {
			for j := range p.N {
				if math.IsNaN(float64(p.C[i*p.LDC+j])) {
					t.Fatalf("width %d: C[%d,%d] is NaN", width, i, j)
				}
			}
		}
	}
}

// Every split of rows and every number of threads computes the same bits.
func TestMulSplitsBitwise(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, s := range [][3]int{{61, 130, 600}, {128, 20, 256}, {300, 64, 40}} {
		for form := range 4 {
			p := product(r, s[0], s[1], s[2], form&1 != 0, form&2 != 0, 1, 1)
			var want []float32
			for threads := 1; threads <= 3; threads++ {
				q := p
				q.C = append([]float32(nil), p.C...)
				g := Multiplier[float32]{Threads: threads}
				g.Do(q)
				if threads == 1 {
					want = q.C
				}
				for i := range want {
					if math.Float32bits(want[i]) != math.Float32bits(q.C[i]) {
						t.Fatalf("%v form %d: %d threads differ from one at %d", s, form, threads, i)
					}
				}
			}
		}
	}
}

// The 256-bit and the 512-bit kernel perform the same chain of operations.
func TestMulKernelsBitwise(t *testing.T) {
	if panelWidth[float32]() < 32 {
		t.Skip("skipped: one assembly kernel only on this machine")
	}
	r := rand.New(rand.NewPCG(7, 8))
	p := product(r, 50, 70, 600, false, true, 0.5, 1)
	var first []float32
	for _, width := range []int{16, 32} {
		b := newPanels[float32](p.K, p.N, width)
		b.PackTransposed(p.B, p.LDB)
		c := append([]float32(nil), p.C...)
		b.Mul(p.M, p.Alpha, p.A, p.Beta, c, p.LDC)
		if first == nil {
			first = c
		}
		for i := range c {
			if c[i] != first[i] {
				t.Fatalf("kernels differ at %d: %v and %v", i, first[i], c[i])
			}
		}
	}
}

func TestMulFloat64(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	m, n, k := 13, 11, 700
	a, b := make([]float64, m*k), make([]float64, n*k)
	for i := range a {
		a[i] = r.NormFloat64()
	}
	for i := range b {
		b[i] = r.NormFloat64()
	}
	c := make([]float64, m*n)
	g := Multiplier[float64]{Threads: 2}
	g.Do(Product[float64]{M: m, N: n, K: k, Alpha: 1, A: Rows(a, k), B: b, LDB: k, TransB: true, C: c, LDC: n})
	for i := range m {
		for j := range n {
			var s float64
			for x := range k {
				s += a[i*k+x] * b[j*k+x]
			}
			if math.Abs(s-c[i*n+j]) > 1e-11 {
				t.Fatalf("C[%d,%d] = %v, want %v", i, j, c[i*n+j], s)
			}
		}
	}
}

func TestMulPanics(t *testing.T) {
	b := NewPanels[float32](4, 4)
	for name, f := range map[string]func(){
		"short b":     func() { b.Pack(make([]float32, 15), 4) },
		"short a":     func() { b.Mul(2, 1, Rows(make([]float32, 7), 4), 0, make([]float32, 8), 4) },
		"short c":     func() { b.Mul(2, 1, Rows(make([]float32, 8), 4), 0, make([]float32, 7), 4) },
		"narrow rows": func() { b.Pack(make([]float32, 16), 3) },
		"empty":       func() { NewPanels[float32](0, 4) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

// A view multiplies like the matrix it covers.
func TestMulView(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	for _, width := range widths() {
		p := product(r, 19, 100, 60, false, false, 1, 0)
		b := newPanels[float32](p.K, p.N, width)
		b.Pack(p.B, p.LDB)
		v := b.View(11, 48, 64, 97)
		part := Product[float32]{M: p.M, N: 33, K: 37, Alpha: 1, A: Left[float32]{p.A.Data[11:], p.A.Row, 1}, B: p.B[11*p.LDB+64:], LDB: p.LDB, C: p.C, LDC: p.LDC}
		want := reference(part)
		c := append([]float32(nil), p.C...)
		v.Mul(part.M, 1, part.A, 0, c, part.LDC)
		checkClose(t, fmt.Sprintf("view width %d", width), part, c, want)
	}
}
