package panel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// The products of the largest integers of every type, with equal and with
// opposite signs, do not overflow the 16-bit sums. Scales are one, so all
// results are integers.
func TestExtremes(t *testing.T) {
	threads := pool.New(1)
	defer threads.Close()
	const n, k = 32, 256
	r := rand.New(rand.NewPCG(8, 8))
	fills := map[string]func(int) byte{
		"zeros": func(int) byte { return 0 }, "ones": func(int) byte { return 0xff },
		"lowest": func(int) byte { return 0x80 }, "highest": func(int) byte { return 0x7f },
		"low halves": func(int) byte { return 0x0f }, "high halves": func(int) byte { return 0xf0 },
		"random": func(int) byte { return byte(r.Uint32()) },
	}
	signs := map[string]func(int) float32{
		"positive": func(int) float32 { return 127 }, "negative": func(int) float32 { return -127 },
		"alternating": func(i int) float32 { return float32(127 - 254*(i%2)) },
		"pairs":       func(i int) float32 { return float32(127 - 254*(i/2%2)) },
		"random":      func(int) float32 { return float32(127 - 254*r.IntN(2)) },
	}
	for _, typ := range allTypes {
		if typ.BlockSize() == 1 {
			continue
		}
		for fill, byteAt := range fills {
			data := make([]byte, n*typ.RowBytes(k))
			for i := range data {
				data[i] = byteAt(i)
			}
			for at := 0; at < len(data); at += typ.BlockBytes() {
				for _, h := range halves[typ] {
					le.PutUint16(data[at+h:], 0x3c00) // 1
				}
				if typ == tensor.MXFP4 {
					data[at] = 128 // of halves: 1
				}
			}
			m, err := New(typ, n, k, data, threads, nil)
			if err != nil {
				t.Fatal(err)
			}
			for sign, x := range signs {
				for _, T := range []int{1, 8, pairRows} {
					t.Run(fmt.Sprint(typ, "/", fill, "/", sign, "/", T), func(t *testing.T) {
						b := &Batch{}
						b.Resize(T, k)
						for i := range T {
							for j := range k {
								b.Row(i)[j] = x(j + i)
							}
						}
						for i := range b.Tiles() {
							b.Prepare(i)
						}
						y := make([]float32, T*n)
						m.Mul(y, n, b, 0, n, &Scratch{})
						w := make([]float32, k)
						for j := range n {
							quant.Dequantize(w, data[j*typ.RowBytes(k):(j+1)*typ.RowBytes(k)], typ)
							for i := range T {
								var want, size, off float64
								for c, v := range w {
									want += float64(v) * float64(b.Row(i)[c])
									size += math.Abs(float64(v)) * 127
								}
								if size >= 1<<21 { // float32 may round sums of products and of minima
									off = size * 0x1p-22
								}
								if !(math.Abs(float64(y[i*n+j])-want) <= off) {
									t.Fatalf("y[%d][%d] = %v, want %v", i, j, y[i*n+j], want)
								}
							}
						}
					})
				}
			}
		}
	}
}
