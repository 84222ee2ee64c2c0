//go:build amd64 && !purego

package tensor

// The kernels of DotNibbles; n and per are positive.

//go:noescape
func nibblesAVX512(x *float32, w *byte, scales *float32, n, per int) float32

//go:noescape
func nibblesAVX2(x *float32, w *byte, scales *float32, n, per int) float32

func dotNibbles(x []float32, w []byte, scales []float32, per int) float32 {
	switch {
	case hasAVX512:
		return nibblesAVX512(&x[0], &w[0], &scales[0], len(scales), per)
	case hasAVX2:
		return nibblesAVX2(&x[0], &w[0], &scales[0], len(scales), per)
	}
	return dotNibblesPlain(x, w, scales, per)
}
