package tensor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// readings returns the ways to read bfloat16 on this machine.
func readings() []reading {
	all := []reading{rounded}
	if r := readsBF16[float32](); r != rounded {
		all = append(all, r)
	}
	return all
}

// bf16Panels packs p.B for a product that reads bfloat16.
func bf16Panels(p Product[float32], r reading) *Panels[float32] {
	b := newPanelsReading[float32](p.K, p.N, r)
	if p.TransB {
		b.PackTransposed(p.B, p.LDB)
	} else {
		b.Pack(p.B, p.LDB)
	}
	return b
}

var bf16Shapes = [][3]int{{1, 1, 1}, {12, 32, 8}, {13, 33, 9}, {64, 96, 64}, {23, 100, 7}, {62, 40, 600},
	{3, 5, 1030}, {47, 31, 16}, {25, 64, 513}, {61, 17, 1}, {5, 256, 2}, {13, 40, 1100}}

// TestMulBF16 compares products with those of the rounded elements in float64,
// and the two ways of reading with each other.
func TestMulBF16(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 2))
	for _, s := range bf16Shapes {
		for form := range 4 {
			for _, scale := range [][2]float32{{1, 0}, {1, 1}, {-0.5, 2}} {
				p := product(r, s[0], s[1], s[2], form&1 != 0, form&2 != 0, scale[0], scale[1])
				q := p
				q.A.Data, q.B = append([]float32(nil), p.A.Data...), append([]float32(nil), p.B...)
				roundPlain(q.A.Data, q.A.Data)
				roundPlain(q.B, q.B)
				want := reference(q)
				for _, reads := range readings() {
					c := append([]float32(nil), p.C...)
					bf16Panels(p, reads).Mul(p.M, p.Alpha, p.A, p.Beta, c, p.LDC)
					checkClose(t, fmt.Sprintf("%v form %d scale %v reading %d", s, form, scale, reads), p, c, want)
				}
			}
		}
	}
}

// Every split of rows computes the same bits, also on threads, without
// allocating.
func TestMulBF16SplitsBitwise(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 6))
	for _, s := range [][3]int{{61, 70, 600}, {300, 40, 40}, {180, 40, 128}} {
		for form := range 4 {
			for _, reads := range readings() {
				p := product(r, s[0], s[1], s[2], form&1 != 0, form&2 != 0, 1, 1)
				b := bf16Panels(p, reads)
				want := append([]float32(nil), p.C...)
				b.Mul(p.M, 1, p.A, 1, want, p.LDC)
				for _, part := range []int{5, 48, 170} {
					c := append([]float32(nil), p.C...)
					done := make(chan bool)
					for i := 0; i < p.M; i += part {
						go func() {
							b.Mul(min(part, p.M-i), 1, Left[float32]{p.A.Data[i*p.A.Row:], p.A.Row, p.A.Col}, 1, c[i*p.LDC:], p.LDC)
							done <- true
						}()
					}
					for i := 0; i < p.M; i += part {
						<-done
					}
					for i := range want {
						if math.Float32bits(want[i]) != math.Float32bits(c[i]) {
							t.Fatalf("%v form %d reading %d: parts of %d differ at %d", s, form, reads, part, i)
						}
					}
				}
				c := append([]float32(nil), p.C...)
				if n := testing.AllocsPerRun(3, func() { b.Mul(p.M, 1, p.A, 1, c, p.LDC) }); n > 0 {
					t.Errorf("%v form %d reading %d: %v allocations", s, form, reads, n)
				}
			}
		}
	}
}

// Rounding handles ties, the largest number, zeros, subnormals, infinities and
// NaN when packing either side.
func TestBF16Rounds(t *testing.T) {
	inf := float32(math.Inf(1))
	values := []float32{1, 1.00390625, 1.01171875, -1.00390625, 0x1.fdp0, math.MaxFloat32, 0x1.fep127, 1e-40, -1e-45, 0x1p-126,
		0x1.fffffep-127, float32(math.Copysign(0, -1)), inf, -inf, float32(math.NaN()), 3.14159, 65504.7}
	want := func(f float32) float32 {
		switch {
		case math.Abs(float64(f)) < 0x1p-126:
			return 0
		case f != f:
			return f
		}
		return BF16ToF32(F32ToBF16(f))
	}
	all := append(append([]float32(nil), values...), values...) // full vectors, and a rest
	plain := make([]float32, len(all))
	roundPlain(plain, all)
	round(all, all)
	for i, v := range all {
		w := values[i%len(values)]
		for _, v := range []float32{v, plain[i]} {
			if !same(v, want(w)) || math.Signbit(float64(v)) != math.Signbit(float64(w)) && v == v {
				t.Errorf("rounded %g: got %g, want %g", w, v, want(w))
			}
		}
	}
	one := make([]float32, 32*len(values))
	for i := range values { // a row of ones, and a column, to read back the other side
		one[i] = 1
	}
	for _, reads := range readings() {
		for i, v := range values {
			for _, transposed := range []bool{false, true} {
				b := newPanelsReading[float32](1, 32, reads)
				row, c := make([]float32, 32), make([]float32, 32)
				for j := range row {
					row[j] = v
				}
				if transposed {
					b.PackTransposed(row, 1)
				} else {
					b.Pack(row, 32)
				}
				b.Mul(1, 1, Rows(one, 1), 0, c, 32)
				left := newPanelsReading[float32](33, 32, reads)
				first := make([]float32, 33*32)
				copy(first, one[:1])
				left.Pack(first, 32)
				from, d := make([]float32, 33), make([]float32, 32)
				from[0] = v
				left.Mul(1, 1, Rows(from, 33), 0, d, 32)
				if w := want(v); !same(c[31], w) || !same(d[0], w) {
					t.Errorf("reading %d: value %d, %g: got %g on the right and %g on the left, want %g", reads, i, v, c[31], d[0], w)
				}
			}
		}
	}
}

func same(a, b float32) bool { return a == b || a != a && b != b }

func TestMulBF16Float64(t *testing.T) {
	b := NewPanelsBF16[float64](2, 1)
	b.Pack([]float64{1 + 1.0/1024, 3}, 1)
	c := []float64{0}
	b.Mul(1, 1, Rows([]float64{1, 1 + 1.0/1024}, 2), 0, c, 1)
	if c[0] != 4 || !b.BF16() {
		t.Errorf("rounded product: got %v, want 4", c[0])
	}
}

// BenchmarkGemmBF16 reports GFLOP/s of bfloat16 and float32, without packing.
func BenchmarkGemmBF16(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, s := range [][3]int{{48, 1024, 128}, {48, 2816, 512}, {48, 512, 1408}, {720, 256, 128}} {
		p := tight(product(r, s[0], s[1], s[2], s[0] == 720, false, 1, 0))
		for _, reads := range append([]reading{full}, readings()...) {
			b.Run(fmt.Sprintf("%dx%dx%d/reading%d", s[0], s[1], s[2], reads), func(b *testing.B) {
				panels := bf16Panels(p, reads)
				for b.Loop() {
					panels.Mul(p.M, 1, p.A, 0, p.C, p.LDC)
				}
				b.ReportMetric(2*float64(s[0])*float64(s[1])*float64(s[2])*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
