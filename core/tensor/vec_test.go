package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// vecLengths includes every tail of the vector kernels, and none.
var vecLengths = []int{0, 1, 3, 7, 8, 9, 15, 16, 24, 31, 32, 33, 40, 63, 64, 65, 127, 576, 1536}

func normal(r *rand.Rand, n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * scale)
	}
	return x
}

// vecNear fails unless each pair differs by at most tol, relative to the larger
// of the value and floor.
func vecNear(t *testing.T, what string, got, want []float32, tol, floor float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range got {
		g, w := float64(got[i]), float64(want[i])
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			continue
		}
		if d := math.Abs(g - w); !(d <= tol*max(math.Abs(w), floor)) {
			t.Fatalf("%s: element %d: got %v, want %v", what, i, got[i], want[i])
		}
	}
}

// TestKernelsAgree compares every kernel with its plain version.
func TestKernelsAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range vecLengths {
		x, y, z := normal(r, n, 1), normal(r, n, 1), normal(r, n, 1)
		var abs float64
		for i := range x {
			abs += math.Abs(float64(x[i] * y[i]))
		}
		vecNear(t, fmt.Sprint("dot ", n), []float32{Dot(x, y)}, []float32{dotPlain(x, y)}, 1e-6, abs+1e-30)

		// In place and through a copy; the results of got are compared with
		// those of want.
		pair := func(name string, tol, floor float64, got, want func(v []float32)) {
			a, b := append([]float32(nil), x...), append([]float32(nil), x...)
			got(a)
			want(b)
			vecNear(t, fmt.Sprint(name, " ", n), a, b, tol, floor)
		}
		pair("axpy", 3e-7, 1, func(v []float32) { Axpy(v, 0.7, y) }, func(v []float32) { axpyPlain(v, 0.7, y) })
		pair("add", 0, 0, func(v []float32) { Add(v, y) }, func(v []float32) { addPlain(v, y) })
		pair("scale", 0, 0, func(v []float32) { Scale(v, 3.3) }, func(v []float32) { scalePlain(v, 3.3) })
		pair("mulScaled", 0, 0, func(v []float32) { mulScaled(v, v, y, 1.1) }, func(v []float32) { mulScaledPlain(v, v, y, 1.1) })
		pair("siluMul", 1e-6, 0, func(v []float32) { SiLUMul(v, v, y) }, func(v []float32) { siluMulPlain(v, v, y) })
		pair("expSum", 3e-7, 0, func(v []float32) { ExpSum(v, v, 0.5) }, func(v []float32) { expSumPlain(v, v, 0.5) })
		pair("rmsnorm", 1e-6, 0, func(v []float32) { RMSNorm(v, v, y, 1e-5) }, func(v []float32) {
			if n > 0 {
				mulScaledPlain(v, v, y, float32(1/math.Sqrt(float64(dotPlain(v, v)/float32(n)+1e-5))))
			}
		})
		if got, want := Max(z), maxPlain(z); got != want {
			t.Errorf("max %d: %v, want %v", n, got, want)
		}
		h := n / 2
		cos, sin := y[:h], z[:h]
		pair("ropePairs", 5e-7, 3, func(v []float32) { RopePairs(v[:2*h], cos, sin) }, func(v []float32) { ropePairsPlain(v[:2*h], cos, sin) })
		pair("ropeHalves", 5e-7, 3, func(v []float32) { RopeHalves(v[:2*h], cos, sin) }, func(v []float32) { ropeHalvesPlain(v[:h], v[h:2*h], cos, sin) })
	}
}

func TestExpAccuracy(t *testing.T) {
	var xs []float32
	for x := -90.0; x < 90; x += 0.00317 {
		xs = append(xs, float32(x))
	}
	inf := float32(math.Inf(1))
	xs = append(xs, 0, inf, -inf, float32(math.NaN()), math.MaxFloat32, -math.MaxFloat32, 88.7228, 88.7229, expMin, -87.33601, math.SmallestNonzeroFloat32)
	got := make([]float32, len(xs))
	ExpSum(got, xs, 0)
	for i, x := range xs {
		want := math.Exp(float64(x))
		switch {
		case x < expMin:
			want = 0
		case want > math.MaxFloat32:
			want = math.Inf(1)
		}
		vecNear(t, fmt.Sprint("exp ", x), got[i:i+1], []float32{float32(want)}, 0x1p-22, 0)
	}
}

// Trailing elements of -Inf, the mask of attention, leave the sum bit-equal.
func TestExpSumPadding(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := 8; n <= 64; n += 8 {
		x := normal(r, n, 3)
		want := ExpSum(make([]float32, n), x, 1)
		for pad := 8; pad <= 64; pad += 8 {
			for range 8 {
				x = append(x, float32(math.Inf(-1)))
			}
			if got := ExpSum(make([]float32, len(x)), x, 1); got != want {
				t.Fatalf("%d elements and %d of padding: %v, want %v", n, pad, got, want)
			}
		}
	}
}

// TestF16 decodes all 2¹⁶ patterns and encodes their values, the neighbors of
// those, and the midpoints.
func TestF16(t *testing.T) {
	src := make([]byte, 2<<16)
	for i := range 1 << 16 {
		binary.LittleEndian.PutUint16(src[2*i:], uint16(i))
	}
	got, want := make([]float32, 1<<16), make([]float32, 1<<16)
	FromF16(got, src)
	fromF16Plain(want, src)
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("binary16 %04x decodes to %08x, plain %08x", i, math.Float32bits(got[i]), math.Float32bits(want[i]))
		}
	}
	if F16ToF32(0x3c00) != 1 || F16ToF32(0xc000) != -2 || F16ToF32(1) != 0x1p-24 || F16ToF32(0x7bff) != 65504 {
		t.Error("known values decode wrongly")
	}
	var xs []float32
	for i, f := range want {
		b := math.Float32bits(f)
		for d := uint32(0); d < 3; d++ {
			xs = append(xs, math.Float32frombits(b+d-1), math.Float32frombits(b+0x1000+d-1))
		}
		if g := F32ToF16(f); g != uint16(i) && !math.IsNaN(float64(f)) {
			t.Fatalf("%v encodes to %04x, want %04x", f, g, i)
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 100000 {
		xs = append(xs, math.Float32frombits(r.Uint32()))
	}
	a, b := make([]byte, 2*len(xs)), make([]byte, 2*len(xs))
	ToF16(a, xs)
	toF16Plain(b, xs)
	for i, x := range xs {
		if g, w := binary.LittleEndian.Uint16(a[2*i:]), binary.LittleEndian.Uint16(b[2*i:]); g != w {
			t.Fatalf("%x (%v) encodes to %04x, plain %04x", math.Float32bits(x), x, g, w)
		}
	}
}

func TestBF16(t *testing.T) {
	src := make([]byte, 2<<16)
	for i := range 1 << 16 {
		binary.LittleEndian.PutUint16(src[2*i:], uint16(i))
	}
	got, want := make([]float32, 1<<16), make([]float32, 1<<16)
	FromBF16(got, src)
	fromBF16Plain(want, src)
	back := make([]byte, len(src))
	ToBF16(back, got)
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("bfloat16 %04x decodes to %v, plain %v", i, got[i], want[i])
		}
		if b := binary.LittleEndian.Uint16(back[2*i:]); b != uint16(i) && !math.IsNaN(float64(got[i])) {
			t.Fatalf("%v encodes to %04x, want %04x", got[i], b, i)
		}
	}
	// Ties round to even, all other values to the nearer number.
	for _, c := range []struct {
		in   uint32
		want uint16
	}{{0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81}, {0x3f807fff, 0x3f80}, {0x7f7fffff, 0x7f80}, {0x7f800001, 0x7fc0}} {
		if g := F32ToBF16(math.Float32frombits(c.in)); g != c.want {
			t.Errorf("%08x encodes to %04x, want %04x", c.in, g, c.want)
		}
	}
}

// The micro-kernels agree with the plain one, and rows are independent.
func TestMulPanel(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, k := range []int{0, 1, 2, 3, 4, 5, 8, 31, 64, 100} {
		for m := 1; m <= 19; m++ {
			lda, ldc := k+3, PanelWidth+5
			a, b, c := normal(r, m*lda, 1), normal(r, k*PanelWidth, 1), normal(r, m*ldc, 1)
			for _, acc := range []bool{false, true} {
				got, want := append([]float32(nil), c...), append([]float32(nil), c...)
				MulPanel(got, ldc, a, lda, b, m, k, acc)
				mulPanelPlain(want, ldc, a, lda, b, m, k, acc)
				vecNear(t, fmt.Sprintf("panel m=%d k=%d acc=%v", m, k, acc), got, want, 2e-6, 10)
				// Halves have the products of their values.
				half := make([]byte, 2*len(b))
				ToF16(half, b)
				rounded := make([]float32, len(b))
				FromF16(rounded, half)
				fromHalves, fromValues := append([]float32(nil), c...), append([]float32(nil), c...)
				MulPanelF16(fromHalves, ldc, a, lda, half, m, k, acc)
				MulPanel(fromValues, ldc, a, lda, rounded, m, k, acc)
				vecNear(t, fmt.Sprintf("F16 panel m=%d k=%d acc=%v", m, k, acc), fromHalves, fromValues, 0, 0)
				// A row does not depend on the other rows.
				for i := range m {
					one := append([]float32(nil), c[i*ldc:i*ldc+PanelWidth]...)
					MulPanel(one, PanelWidth, a[i*lda:], k, b, 1, k, acc)
					for j := range one {
						if one[j] != got[i*ldc+j] {
							t.Fatalf("m=%d k=%d: row %d: got %v alone, %v among others", m, k, i, one[j], got[i*ldc+j])
						}
					}
				}
			}
		}
	}
}

func TestVecPanics(t *testing.T) {
	three, four := make([]float32, 3), make([]float32, 4)
	for name, f := range map[string]func(){
		"dot":       func() { Dot(three, four) },
		"axpy":      func() { Axpy(three, 1, four) },
		"add":       func() { Add(three, four) },
		"expsum":    func() { ExpSum(three, four, 0) },
		"rmsnorm":   func() { RMSNorm(three, three, four, 0) },
		"silumul":   func() { SiLUMul(three, three, four) },
		"rope":      func() { RopePairs(three, three, three) },
		"ropehalf":  func() { RopeHalves(four, four, four) },
		"f16":       func() { FromF16(three, make([]byte, 5)) },
		"panel":     func() { MulPanel(make([]float32, 31), 32, four, 4, make([]float32, 128), 1, 4, false) },
		"panelrows": func() { MulPanel(make([]float32, 64), 32, four, 4, make([]float32, 128), 2, 4, false) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: slices of different lengths accepted", name)
				}
			}()
			f()
		}()
	}
}

func BenchmarkVec(b *testing.B) {
	r := rand.New(rand.NewPCG(9, 10))
	const n = 1536
	x, y, z := normal(r, n, 1), normal(r, n, 1), make([]float32, n)
	for name, f := range map[string]func(){
		"Dot":     func() { Dot(x, y) },
		"ExpSum":  func() { ExpSum(z, x, 1) },
		"SiLUMul": func() { SiLUMul(z, x, y) },
		"RMSNorm": func() { RMSNorm(z, x, y, 1e-5) },
		"Rope":    func() { RopePairs(z, x[:n/2], y[:n/2]) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(n * 4)
			for b.Loop() {
				f()
			}
		})
	}
	p := normal(r, 256*PanelWidth, 1)
	for _, m := range []int{1, 3, 8} {
		b.Run(fmt.Sprint("MulPanel", m), func(b *testing.B) {
			a, c := make([]float32, 8*256), make([]float32, 8*PanelWidth)
			b.SetBytes(int64(2 * m * 256 * PanelWidth)) // flop, so MB/s is MFLOP/s
			for b.Loop() {
				MulPanel(c, PanelWidth, a, 256, p, m, 256, false)
			}
		})
	}
}
