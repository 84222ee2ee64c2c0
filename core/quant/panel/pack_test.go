package panel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

var allTypes = []tensor.Type{
	tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_0, tensor.Q4_1,
	tensor.Q5_0, tensor.Q5_1, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K,
	tensor.Q2_K, tensor.Q3_K, tensor.IQ4_NL, tensor.IQ4_XS, tensor.MXFP4,
}

// halves lists the offsets of the f16 scales of a block.
var halves = map[tensor.Type][]int{
	tensor.Q8_0: {0}, tensor.Q4_0: {0}, tensor.Q4_1: {0, 2}, tensor.Q5_0: {0}, tensor.Q5_1: {0, 2},
	tensor.Q4_K: {0, 2}, tensor.Q5_K: {0, 2}, tensor.Q6_K: {208},
	tensor.Q2_K: {80, 82}, tensor.Q3_K: {108}, tensor.IQ4_NL: {0}, tensor.IQ4_XS: {0},
}

// randomRows returns rows of blocks of random bits with scales near 1.
func randomRows(r *rand.Rand, t tensor.Type, rows, cols int) []byte {
	if t.BlockSize() == 1 {
		x := make([]float32, rows*cols)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		b := make([]byte, t.RowBytes(len(x)))
		quant.Quantize(b, x, t)
		return b
	}
	b := make([]byte, rows*t.RowBytes(cols))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	for at := 0; at < len(b); at += t.BlockBytes() {
		for _, h := range halves[t] {
			le.PutUint16(b[at+h:], tensor.F32ToF16(float32(0.5+r.Float64())))
		}
		if t == tensor.MXFP4 {
			b[at] = byte(120 + r.IntN(10))
		}
	}
	return b
}

func randomBatch(r *rand.Rand, rows, cols int) *Batch {
	b := &Batch{}
	b.Resize(rows, cols)
	for t := range rows {
		for i, row := 0, b.Row(t); i < cols; i++ {
			row[i] = float32(r.NormFloat64())
		}
	}
	if cols%groupLen == 0 {
		for i := range b.Tiles() {
			b.Prepare(i)
		}
	}
	return b
}

// reference returns the product in float64 of the dequantized weights with the
// activations as quantized for the kernels, and the sum of magnitudes as a
// measure of the expected rounding.
func reference(t tensor.Type, data []byte, rows, cols int, b *Batch) (y, size []float64) {
	w := make([]float32, rows*cols)
	for r := range rows {
		quant.Dequantize(w[r*cols:(r+1)*cols], data[r*t.RowBytes(cols):(r+1)*t.RowBytes(cols)], t)
	}
	f, _ := formatOf(t)
	for i := range b.rows {
		x := make([]float64, cols)
		for k := range x {
			x[k] = float64(b.Row(i)[k])
			if f.scheme != schemeFloat {
				tl := b.tileAt(i / b.tile * b.tile)
				lane := i % b.tile
				at := (k/4*b.tile+lane)*4 + k%4
				q := tl.q
				if hasAMX && i < b.pairedRows() {
					q = b.tilesAt(i/pairRows*pairRows, i/pairRows*pairRows+pairRows).q
					at = (k/groupLen*pairRows+i%pairRows)*groupLen + k%groupLen
				}
				x[k] = float64(q[at]) * float64(tl.scale[k/groupLen*b.tile+lane])
			}
		}
		for n := range rows {
			var sum, abs float64
			for k, v := range x {
				p := v * float64(w[n*cols+k])
				sum += p
				abs += math.Abs(p)
			}
			y, size = append(y, sum), append(size, abs)
		}
	}
	return y, size
}

// Products of every type match the reference, for numbers of rows that need
// padding.
func TestMul(t *testing.T) {
	threads := pool.New(2)
	defer threads.Close()
	for _, typ := range allTypes {
		for _, shape := range [][3]int{{1, 64, 512}, {2, 33, 256}, {8, 16, 256}, {13, 100, 512}, {1, 1, 256}, {3, 70, 768}} {
			T, n, k := shape[0], shape[1], shape[2]
			r := rand.New(rand.NewPCG(uint64(typ), uint64(n)))
			data := randomRows(r, typ, n, k)
			m, err := New(typ, n, k, data, threads, nil)
			if err != nil {
				t.Fatal(err)
			}
			b := randomBatch(r, T, k)
			want, size := reference(typ, data, n, k, b)
			ldy := (n + Unit - 1) / Unit * Unit
			y := make([]float32, (T+7)/8*8*ldy)
			m.Mul(y, ldy, b, 0, n, &Scratch{})
			for i := range T {
				for j := range n {
					if d := math.Abs(float64(y[i*ldy+j]) - want[i*n+j]); !(d <= 4e-6*size[i*n+j]) {
						t.Fatalf("%v %v: y[%d][%d] = %v, want %v", typ, shape, i, j, y[i*ldy+j], want[i*n+j])
					}
				}
			}
		}
	}
}

// A row's product is bit-equal alone, in a batch, and for any split of the
// columns.
func TestBatchInvariance(t *testing.T) {
	threads := pool.New(1)
	defer threads.Close()
	for _, T := range []int{2, 3, 4, 5, 6, 7, 11, 16, 27} {
		batchInvariance(t, threads, T)
	}
}

func batchInvariance(t *testing.T, threads *pool.Pool, T int) {
	const n, k = 96, 768
	for _, typ := range allTypes {
		r := rand.New(rand.NewPCG(uint64(typ), 7))
		m, err := New(typ, n, k, randomRows(r, typ, n, k), threads, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := randomBatch(r, T, k)
		y := make([]float32, 32*n)
		m.Mul(y, n, b, 0, n, &Scratch{})
		z := make([]float32, 32*n)
		for lo := 0; lo < n; lo += Unit {
			m.Mul(z, n, b, lo, lo+Unit, &Scratch{})
		}
		for i := range T {
			one := &Batch{}
			one.Resize(1, k)
			copy(one.Row(0), b.Row(i))
			one.Prepare(0)
			alone := make([]float32, n)
			m.Mul(alone, n, one, 0, n, &Scratch{})
			for j := range n {
				if alone[j] != y[i*n+j] || z[i*n+j] != y[i*n+j] {
					t.Fatalf("%v: y[%d][%d] is %v alone, %v in a batch, %v in parts", typ, i, j, alone[j], y[i*n+j], z[i*n+j])
				}
			}
		}
	}
}

func TestPrepare(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	b := &Batch{}
	b.Resize(1, 96)
	row := b.Row(0)
	for i := range row {
		row[i] = float32(r.NormFloat64())
	}
	clear(row[32:64]) // an empty group
	b.Prepare(0)
	q := make([]byte, tensor.Q8_0.RowBytes(96))
	quant.Quantize(q, row, tensor.Q8_0)
	for g := range 3 {
		var sum, lo int32
		for i := range 32 {
			v := int32(b.q[g*32+i])
			if d := v - int32(int8(q[g*34+2+i])); d < -1 || d > 1 {
				t.Errorf("element %d of group %d is %d, Q8_0 has %d", i, g, v, int8(q[g*34+2+i]))
			}
			sum += v
			if i < 16 {
				lo += v
			}
		}
		if b.fix32[g] != -128*sum || b.fix16[2*g] != -128*lo || b.fix16[2*g+1] != -128*(sum-lo) || b.sum[g] != b.scale[g]*float32(sum) {
			t.Errorf("group %d: %v %v %v do not match the sum %d", g, b.fix32[g], b.fix16[2*g:2*g+2], b.sum[g], sum)
		}
	}
}

// A panel represents MXFP4's scales exactly.
func TestPowers(t *testing.T) {
	for e := range 256 {
		b, s := make([]byte, 17), make([]byte, 2*lanes)
		b[0] = byte(e)
		packScales(tensor.MXFP4, 3, b, nil, s)
		var got [lanes]float32
		tensor.FromBF16(got[:], s)
		if want := quant.ScaleMXFP4(byte(e)); got[3] != want {
			t.Errorf("exponent %d: %v, want %v", e, got[3], want)
		}
	}
}

// Types without kernels are named in the error.
func TestRefusalNamesType(t *testing.T) {
	for typ, want := range map[tensor.Type]string{tensor.IQ2_XXS: "IQ2_XXS", tensor.TQ1_0: "TQ1_0", tensor.NVFP4: "NVFP4", tensor.Q2_0: "Q2_0", tensor.I8: "I8"} {
		if _, err := New(typ, 1, 256, make([]byte, 1), nil, nil); err == nil || !strings.Contains(err.Error(), "type "+want+" ") {
			t.Errorf("%d: %v", typ, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	threads := pool.New(1)
	defer threads.Close()
	for _, c := range []struct {
		typ        tensor.Type
		rows, cols int
		bytes      int
	}{
		{tensor.I32, 1, 32, 128}, {tensor.Q8_0, 0, 32, 0}, {tensor.Q8_0, 1, 31, 34}, {tensor.Q8_0, 1, 32, 33},
		{tensor.Q8_0, 2, 32, 69}, {tensor.Q6_K, 1, 32, 210}, {tensor.F32, -1, -4, 16}, {tensor.F32, 1 << 40, 1 << 40, 0},
	} {
		if _, err := New(c.typ, c.rows, c.cols, make([]byte, c.bytes), threads, nil); err == nil {
			t.Errorf("%d × %d of %v in %d bytes accepted", c.rows, c.cols, c.typ, c.bytes)
		}
	}
}

func BenchmarkMul(b *testing.B) {
	threads := pool.New(1)
	defer threads.Close()
	const n, k = 1536, 768
	for _, typ := range allTypes {
		r := rand.New(rand.NewPCG(3, 3))
		m, err := New(typ, n, k, randomRows(r, typ, n, k), threads, nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, T := range []int{1, 8, 64} {
			b.Run(fmt.Sprint(typ, "/", T), func(b *testing.B) {
				x := randomBatch(r, T, k)
				y := make([]float32, T*n)
				var s Scratch
				// The fastest run is the least disturbed one.
				best := math.Inf(1)
				for b.Loop() {
					begin := time.Now()
					m.Mul(y, n, x, 0, n, &s)
					best = min(best, time.Since(begin).Seconds())
				}
				b.ReportMetric(2*n*k*float64(T)/best/1e9, "Gop/s")
				b.ReportMetric(float64(m.Bytes())/best/1e9, "GB/s")
			})
		}
	}
}
