package tensor

// plainWidth is the panel width of the plain kernel: a compiler can keep 4×4
// accumulators in registers.
const plainWidth = 4

// packPanelPlain is the oracle of packPanel: the w columns of b side by side,
// zero up to width.
func packPanelPlain[F Float](dst []F, width int, b []F, ld, k, w int) {
	for r := range k {
		row := dst[r*width : (r+1)*width]
		copy(row[:w], b[r*ld:])
		clear(row[w:])
	}
}

// packPanelTransposedPlain packs w rows of b, each k long, as columns.
func packPanelTransposedPlain[F Float](dst []F, width int, b []F, ld, k, w int) {
	for j := range w {
		for r, v := range b[j*ld : j*ld+k] {
			dst[r*width+j] = v
		}
	}
	for j := w; j < width; j++ {
		for r := range k {
			dst[r*width+j] = 0
		}
	}
}

// mulTilePlain multiplies m rows of A, k deep, by one panel and blends w
// columns of the product into C.
func mulTilePlain[F Float](width, m, k, w int, alpha F, a Left[F], b []F, beta F, c []F, ldc int) {
	for i := range m {
		for j := 0; j < w; j += plainWidth {
			row := c[i*ldc+j : i*ldc+min(j+plainWidth, w)]
			dot4(k, alpha, a.Data[i*a.Row:], a.Col, b[j:], width, beta, row)
		}
	}
}

// dot4 computes up to four adjacent elements of C.
func dot4[F Float](k int, alpha F, a []F, cs int, b []F, width int, beta F, c []F) {
	var s0, s1, s2, s3 F
	for r := range k {
		v := a[r*cs]
		q := b[r*width : r*width+plainWidth]
		s0 += v * q[0]
		s1 += v * q[1]
		s2 += v * q[2]
		s3 += v * q[3]
	}
	for j, s := range [plainWidth]F{s0, s1, s2, s3} {
		switch {
		case j >= len(c):
		case beta == 0:
			c[j] = alpha * s
		default:
			c[j] = alpha*s + beta*c[j]
		}
	}
}
