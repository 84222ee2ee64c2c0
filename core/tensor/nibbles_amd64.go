//go:build amd64 && !purego

package tensor

// The kernels of DotNibbles; n and per are positive.

//go:noescape
func nibblesAVX512(x *float32, w *byte, scales *float32, n, per int) float32

//go:noescape
func nibblesAVX2(x *float32, w *byte, scales *float32, n, per int) float32

//go:noescape
func nibbles4AVX512(dst, x *float32, ldx uintptr, w *byte, scales *float32, n, per int)

//go:noescape
func unpackAVX512(dst *float32, w *byte, groups int, zero, by float32)

func unpackNibbles(dst []float32, w []byte, zero, by float32) {
	if hasAVX512 && len(dst) > 0 {
		unpackAVX512(&dst[0], &w[0], len(dst)/NibbleGroup, zero, by)
		return
	}
	unpackNibblesPlain(dst, w, zero, by)
}

func dotNibbles4(dst *[4]float32, x []float32, ldx int, w []byte, scales []float32, per int) {
	if hasAVX512 {
		nibbles4AVX512(&dst[0], &x[0], uintptr(ldx)*4, &w[0], &scales[0], len(scales), per)
		return
	}
	for i := range dst {
		dst[i] = dotNibbles(x[i*ldx:], w, scales, per)
	}
}

func dotNibbles(x []float32, w []byte, scales []float32, per int) float32 {
	switch {
	case hasAVX512:
		return nibblesAVX512(&x[0], &w[0], &scales[0], len(scales), per)
	case hasAVX2:
		return nibblesAVX2(&x[0], &w[0], &scales[0], len(scales), per)
	}
	return dotNibblesPlain(x, w, scales, per)
}
