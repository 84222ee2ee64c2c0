package tensor

import (
	"math/rand/v2"
	"testing"
)

func TestMulBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]uint8, 4096)
	for i := range x {
		x[i] = uint8(rng.Uint32() | 0x80*uint32(i&1))
	}
	for _, steps := range []int{0, 1, 2, 3, 64, 1000} {
		w, offs := make([]int8, 4*BytesRows*steps), make([]int32, steps)
		for i := range w {
			w[i] = int8(rng.Uint32())
		}
		for i := range offs {
			offs[i] = int32(rng.IntN(len(x) - 4*BytesLanes + 1))
		}
		if steps > 1 {
			offs[0], offs[1] = 0, int32(len(x)-4*BytesLanes)
		}
		var got, want [BytesRows * BytesLanes]int32
		MulBytes(&got, w, x, offs)
		mulBytesPlain(&want, w, x, offs)
		if got != want {
			t.Errorf("%d steps: got %v, want %v", steps, got[:8], want[:8])
		}
	}
	for name, f := range map[string]func(){
		"offset":  func() { MulBytes(new([256]int32), make([]int8, 32), x, []int32{4096 - 127}) },
		"before":  func() { MulBytes(new([256]int32), make([]int8, 32), x, []int32{-1}) },
		"weights": func() { MulBytes(new([256]int32), make([]int8, 31), x, []int32{0}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func BenchmarkMulBytes(b *testing.B) {
	const steps = 64 * 7
	x, w, offs := make([]uint8, 1<<16), make([]int8, 32*steps), make([]int32, steps)
	for i := range offs {
		offs[i] = int32(i * 64)
	}
	var tile [BytesRows * BytesLanes]int32
	for range b.N {
		MulBytes(&tile, w, x, offs)
	}
	b.ReportMetric(float64(b.N)*steps*4*256/b.Elapsed().Seconds()/1e9, "GMAC/s")
}
