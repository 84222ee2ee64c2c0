//go:build !amd64 || purego

package tensor

func dotNibbles(x []float32, w []byte, scales []float32, per int) float32 {
	return dotNibblesPlain(x, w, scales, per)
}
