//go:build !amd64 || purego

package tensor

func unpackNibbles(dst []float32, w []byte, zero, by float32) { unpackNibblesPlain(dst, w, zero, by) }

func dotNibbles4(dst *[4]float32, x []float32, ldx int, w []byte, scales []float32, per int) {
	for i := range dst {
		dst[i] = dotNibblesPlain(x[i*ldx:], w, scales, per)
	}
}

func dotNibbles(x []float32, w []byte, scales []float32, per int) float32 {
	return dotNibblesPlain(x, w, scales, per)
}
