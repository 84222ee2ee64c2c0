package panel

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/tools/libllama"
)

// BenchmarkStream compares the speed of products with that of reading memory,
// with weights larger than every cache, by processor time.
func BenchmarkStream(b *testing.B) {
	threads := pool.New(2)
	defer threads.Close()
	r := rand.New(rand.NewPCG(3, 3))
	const n, k = 2048 * 32, 2048
	plain := make([]float32, 32<<20)
	for i := range plain {
		plain[i] = 1
	}
	for _, typ := range allTypes[1:] {
		data := randomRows(r, typ, 64, k)
		data = []byte(strings.Repeat(string(data), n/64))
		m, err := New(typ, n, k, data, threads, nil)
		if err != nil {
			b.Fatal(err)
		}
		x := randomBatch(r, 1, k)
		y := make([]float32, n)
		var s Scratch
		b.Run(typ.String(), func(b *testing.B) {
			best, read := math.Inf(1), math.Inf(1)
			for b.Loop() {
				for range 3 {
					begin := libllama.CPUTime()
					for lo := 0; lo < n; lo += 64 {
						m.Mul(y, n, x, lo, lo+64, &s)
					}
					best = min(best, (libllama.CPUTime() - begin).Seconds())
					begin = libllama.CPUTime()
					tensor.Dot(plain, plain)
					read = min(read, (libllama.CPUTime() - begin).Seconds())
				}
			}
			b.ReportMetric(float64(m.Bytes())/best/1e9, "GB/s")
			b.ReportMetric(float64(4*len(plain))/read/1e9, "readGB/s")
			b.ReportMetric(100*float64(m.Bytes())/best/(float64(4*len(plain))/read), "%")
		})
	}
	if smaps, err := os.ReadFile("/proc/self/smaps_rollup"); err == nil {
		for _, l := range strings.Split(string(smaps), "\n") {
			if strings.HasPrefix(l, "AnonHuge") {
				b.Log(l)
			}
		}
	}
}
