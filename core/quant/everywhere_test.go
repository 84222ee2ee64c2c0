package quant_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// The same weights have the same bytes on every processor: the digests were
// computed on amd64 and must match on arm64.
func TestQuantizeIsPortable(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	x := make([]float32, 64*256)
	for i := range x {
		x[i] = float32(rng.IntN(1<<20)-1<<19) / (1 << 18) * float32(1+i%7)
	}
	for typ, want := range map[tensor.Type]string{
		tensor.Q8_0: "3d0e53f29eb1", tensor.Q4_0: "fbb3d09030d7", tensor.Q4_K: "52f22c3048ef", tensor.Q6_K: "445799382a8a", tensor.F16: "eed2d84d0154", tensor.BF16: "51579da8c36f",
		tensor.Q4_1: "635c9cd663b4", tensor.Q5_0: "d42f59d4fe66", tensor.Q5_1: "f708f91d36c1", tensor.IQ4_NL: "19bcade5d366", tensor.IQ4_XS: "2c89457a9325",
		tensor.MXFP4: "7aa9e399d7cc", tensor.Q2_K: "ec4d8ffdff17", tensor.Q3_K: "46593338a297", tensor.Q5_K: "79e544eaaf39",
	} {
		b := make([]byte, typ.RowBytes(len(x)))
		quant.Quantize(b, x, typ)
		back := make([]float32, len(x))
		quant.Dequantize(back, b, typ)
		h := sha256.New()
		h.Write(b)
		fmt.Fprint(h, back)
		if got := fmt.Sprintf("%.6x", h.Sum(nil)); got != want {
			t.Errorf("%s: %s, want %s", typ, got, want)
		}
	}
}
