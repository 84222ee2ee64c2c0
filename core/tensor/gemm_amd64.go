//go:build amd64 && !purego

package tensor

// Panel widths of the two assembly kernels; the tallest tile of each keeps its
// accumulators in 24 of 32, or 12 of 16, vector registers.
const (
	width512 = 32
	width256 = 16
	tile512  = 12
)

// gemmWidth is the panel width of the best kernel that this processor runs.
var gemmWidth = func() int {
	switch {
	case hasAVX512:
		return width512
	case hasAVX2:
		return width256
	}
	return plainWidth
}()

//go:noescape
func gemm12x32(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)

//go:noescape
func gemm8x32(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)

//go:noescape
func gemm4x32(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)

//go:noescape
func gemm1x32(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)

//go:noescape
func gemm6x16(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)

//go:noescape
func gemm4x16(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)

//go:noescape
func gemm2x16(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)

//go:noescape
func gemm1x16(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)

//go:noescape
func packRows(k, w8 int, src *float32, lds uintptr, dst *float32, ldd uintptr)

//go:noescape
func packTransposed8(k8 int, src *float32, lds uintptr, dst *float32, ldd uintptr)

func fmaLoop512(n int)

func fmaLoop256(n int)

func panelWidth[F Float]() int {
	var v F
	if _, ok := any(v).(float32); ok {
		return gemmWidth
	}
	return plainWidth
}

// packPanel packs w columns of b, k rows ld apart, into one panel.
func packPanel[F Float](dst []F, width int, b []F, ld, k, w int) {
	d, ok := any(dst).([]float32)
	if !ok || width == plainWidth || w%8 != 0 || w < width {
		packPanelPlain(dst, width, b, ld, k, w)
		return
	}
	src := any(b).([]float32)
	_, _ = src[(k-1)*ld+w-1], d[k*width-1]
	packRows(k, w/8, &src[0], uintptr(ld)*4, &d[0], uintptr(width)*4)
}

// packPanelTransposed packs w rows of b, each k long, as columns of one panel.
func packPanelTransposed[F Float](dst []F, width int, b []F, ld, k, w int) {
	d, ok := any(dst).([]float32)
	if !ok || width == plainWidth || w < width || k < 8 {
		packPanelTransposedPlain(dst, width, b, ld, k, w)
		return
	}
	src := any(b).([]float32)
	_, _ = src[(w-1)*ld+k-1], d[k*width-1]
	full := k &^ 7
	for j := 0; j < width; j += 8 {
		packTransposed8(full/8, &src[j*ld], uintptr(ld)*4, &d[j], uintptr(width)*4)
	}
	if full < k {
		packPanelTransposedPlain(d[full*width:], width, src[full:], ld, k-full, w)
	}
}

// mulTile multiplies m rows of A, k deep, by one panel and blends w columns
// of the product into C. The caller has checked every bound.
func mulTile[F Float](width, m, k, w int, alpha F, a Left[F], b []F, beta F, c []F, ldc int) {
	bf, ok := any(b).([]float32)
	if !ok || width == plainWidth {
		mulTilePlain(width, m, k, w, alpha, a, b, beta, c, ldc)
		return
	}
	af, cf := any(a.Data).([]float32), any(c).([]float32)
	if w == width {
		tiles(width, m, k, float32(alpha), af, a.Row, a.Col, bf, float32(beta), cf, ldc)
		return
	}
	var edge [tile512 * width512]float32
	for i := 0; i < m; i += tile512 {
		h := min(tile512, m-i)
		tiles(width, h, k, float32(alpha), af[i*a.Row:], a.Row, a.Col, bf, 0, edge[:], width)
		for r := range h {
			blend(cf[(i+r)*ldc:(i+r)*ldc+w], edge[r*width:], float32(beta))
		}
	}
}

// blend sets c = s + beta·c.
func blend(c, s []float32, beta float32) {
	if beta == 0 {
		copy(c, s)
		return
	}
	for j := range c {
		c[j] = s[j] + beta*c[j]
	}
}

// tiles processes m rows with the tallest tile that fits.
func tiles(width, m, k int, alpha float32, a []float32, rs, cs int, b []float32, beta float32, c []float32, ldc int) {
	rb, cb, lb, bp := uintptr(rs)*4, uintptr(cs)*4, uintptr(ldc)*4, &b[0]
	for i := 0; i < m; {
		ap, cp, left := &a[i*rs], &c[i*ldc], m-i
		switch {
		case width == width512 && left >= 12:
			gemm12x32(k, ap, rb, cb, bp, cp, lb, alpha, beta)
			i += 12
		case width == width512 && left >= 8:
			gemm8x32(k, ap, rb, cb, bp, cp, lb, alpha, beta)
			i += 8
		case width == width512 && left >= 4:
			gemm4x32(k, ap, rb, cb, bp, cp, lb, alpha, beta)
			i += 4
		case width == width512:
			gemm1x32(k, ap, rb, cb, bp, cp, lb, alpha, beta)
			i++
		case left >= 6 && left != 8:
			gemm6x16(k, ap, rb, cb, bp, cp, lb, alpha, beta)
			i += 6
		case left >= 4:
			gemm4x16(k, ap, rb, cb, bp, cp, lb, alpha, beta)
			i += 4
		case left >= 2:
			gemm2x16(k, ap, rb, cb, bp, cp, lb, alpha, beta)
			i += 2
		default:
			gemm1x16(k, ap, rb, cb, bp, cp, lb, alpha, beta)
			i++
		}
	}
}
