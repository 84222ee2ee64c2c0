//go:build !purego

package tensor

// neonTile is the height and the width of the NEON kernel's tile: 16 of 32
// registers are its accumulators.
const neonTile = 8

//go:noescape
func gemm8x8(k int, rows *[neonTile]*float32, cs uintptr, b, out *float32)

func panelWidth[F Float]() int {
	var v F
	if _, ok := any(v).(float32); ok {
		return neonTile
	}
	return plainWidth
}

func packPanel[F Float](dst []F, width int, b []F, ld, k, w int) {
	packPanelPlain(dst, width, b, ld, k, w)
}

func packPanelTransposed[F Float](dst []F, width int, b []F, ld, k, w int) {
	packPanelTransposedPlain(dst, width, b, ld, k, w)
}

// mulTile multiplies m rows of A, k deep, by one panel and blends w columns
// of the product into C. The caller has checked every bound.
func mulTile[F Float](width, m, k, w int, alpha F, a Left[F], b []F, beta F, c []F, ldc int) {
	bf, ok := any(b).([]float32)
	if !ok || width != neonTile {
		mulTilePlain(width, m, k, w, alpha, a, b, beta, c, ldc)
		return
	}
	af, cf := any(a.Data).([]float32), any(c).([]float32)
	var out [neonTile * neonTile]float32
	var rows [neonTile]*float32
	for i := 0; i < m; i += neonTile {
		h := min(neonTile, m-i)
		for r := range rows {
			rows[r] = &af[(i+min(r, h-1))*a.Row] // rows beyond the last are computed and discarded
		}
		gemm8x8(k, &rows, uintptr(a.Col)*4, &bf[0], &out[0])
		for r := range h {
			blendRow(cf[(i+r)*ldc:(i+r)*ldc+w], out[r*neonTile:], float32(alpha), float32(beta))
		}
	}
}

// blendRow sets c = alpha·s + beta·c.
func blendRow(c, s []float32, alpha, beta float32) {
	if beta == 0 {
		for i := range c {
			c[i] = alpha * s[i]
		}
		return
	}
	for i := range c {
		c[i] = alpha*s[i] + beta*c[i]
	}
}
