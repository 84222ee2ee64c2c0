//go:build amd64 && !purego

package panel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
)

// TestOlderKernels repeats the tests with fewer processor features.
func TestOlderKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: all kernels of older processors")
	}
	avx2, avxvnni, avx512, vnni, amx := hasAVX2, hasAVXVNNI, hasAVX512, hasVNNI, hasAMX
	defer func() { hasAVX2, hasAVXVNNI, hasAVX512, hasVNNI, hasAMX = avx2, avxvnni, avx512, vnni, amx }()
	hasAVXVNNI, hasAMX = false, false // TestAVXVNNI, TestAMX
	older := map[string]func(){
		"AVX512": func() { hasAVX2, hasAVX512, hasVNNI = avx2, avx512, false },
		"AVX2":   func() { hasAVX2, hasAVX512, hasVNNI = avx2, false, false },
		"plain":  func() { hasAVX2, hasAVX512, hasVNNI = false, false, false },
	}
	if amx {
		older["VNNI"] = func() { hasAVX2, hasAVX512, hasVNNI = avx2, avx512, vnni }
	}
	for name, set := range older {
		set()
		t.Run(name, func(t *testing.T) {
			t.Run("Mul", TestMul)
			t.Run("Scratch", TestScratch)
			t.Run("BatchInvariance", TestBatchInvariance)
			t.Run("Prepare", TestPrepare)
			t.Run("Extremes", TestExtremes)
			t.Run("NaN", TestNaNScale)
		})
	}
}

// The kernel's results are bit-equal to those of the plain function.
func TestQuantiseRow(t *testing.T) {
	if !hasAVX2 {
		t.Skip("skipped: no AVX2")
	}
	r := rand.New(rand.NewPCG(1, 1))
	for _, stride := range []int{1, 8} {
		for n := 32; n <= 512; n += 32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(r.NormFloat64() * math.Exp(5*r.NormFloat64()))
			}
			clear(x[n-32 : n-32+r.IntN(33)]) // zeros, possibly a full group
			x[0] = 127 * 0.5                 // ties
			for i := 1; i < 16; i++ {
				x[i] = float32(i) + 0.5
			}
			make1 := func() quantized {
				g := n / 32 * stride
				return quantized{make([]int8, n), stride, make([]float32, g), make([]float32, g), make([]int32, g), make([]int32, 2*g)}
			}
			got, want := make1(), make1()
			quantiseRow(got, x)
			quantiseRowPlain(want, x)
			if !slices.Equal(got.q, want.q) || !slices.Equal(got.scale, want.scale) || !slices.Equal(got.sum, want.sum) ||
				!slices.Equal(got.fix32, want.fix32) || !slices.Equal(got.fix16, want.fix16) {
				t.Fatalf("stride %d, %d elements: got %+v, want %+v", stride, n, got, want)
			}
		}
	}
	// NaN and infinities do no harm.
	x := make([]float32, 32)
	x[3], x[9] = float32(math.NaN()), float32(math.Inf(1))
	quantiseRow(quantized{make([]int8, 32), 1, make([]float32, 1), make([]float32, 1), make([]int32, 1), make([]int32, 2)}, x)
}

func TestUnpackQuants(t *testing.T) {
	if !hasAVX2 {
		t.Skip("skipped: no AVX2")
	}
	r := rand.New(rand.NewPCG(2, 2))
	for _, bits := range []int{2, 3, 4, 5, 6} {
		for _, offset := range []int{0, 4, 8, 16, 32, -1, -2} {
			f := format{bits: bits, offset: offset}
			if offset < 0 { // a lookup table
				f = format{bits: 4, table: table(-offset)}
			}
			q := make([]byte, 3*f.groupBytes())
			for i := range q {
				q[i] = byte(r.Uint32())
			}
			got, want := make([]int8, 3*512), make([]int8, 3*512)
			unpackQuants(f, got, q)
			unpackQuantsPlain(f, want, q)
			if !slices.Equal(got, want) {
				t.Errorf("%d bits minus %d differ", bits, offset)
			}
		}
	}
}

// Panels filled by words and by rows are equal.
func TestTransposed(t *testing.T) {
	avx2 := hasAVX2
	defer func() { hasAVX2 = avx2 }()
	threads := pool.New(1)
	defer threads.Close()
	r := rand.New(rand.NewPCG(4, 4))
	for _, typ := range allTypes {
		for _, shape := range [][2]int{{16, 256}, {32, 768}, {50, 256}, {100, 512}} {
			data := randomRows(r, typ, shape[0], shape[1])
			var both [2]*Matrix
			for i := range both {
				hasAVX2 = avx2 && i == 0
				m, err := New(typ, shape[0], shape[1], data, threads, nil)
				if err != nil {
					t.Fatal(err)
				}
				both[i] = m
			}
			if !slices.Equal(both[0].quants, both[1].quants) || !slices.Equal(both[0].scales, both[1].scales) {
				t.Errorf("%v %v: panels differ", typ, shape)
			}
		}
	}
	// Only floats may have odd numbers of columns.
	for _, cols := range []int{1, 7, 9, 172} {
		data := randomRows(r, tensor.F16, 40, cols)
		hasAVX2 = avx2
		a, err := New(tensor.F16, 40, cols, data, threads, nil)
		if err != nil {
			t.Fatal(err)
		}
		hasAVX2 = false
		b, err := New(tensor.F16, 40, cols, data, threads, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a.quants, b.quants) {
			t.Errorf("%d columns: panels differ", cols)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	threads := pool.New(1)
	defer threads.Close()
	for _, typ := range allTypes {
		b.Run(typ.String(), func(b *testing.B) {
			data := randomRows(rand.New(rand.NewPCG(5, 5)), typ, 1024, 1024)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := New(typ, 1024, 1024, data, threads, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPrepare(b *testing.B) {
	for _, rows := range []int{1, 8} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			x := randomBatch(rand.New(rand.NewPCG(3, 3)), rows, 1536)
			b.SetBytes(int64(4 * 1536 * rows))
			for b.Loop() {
				x.Prepare(0)
			}
		})
	}
}
