//go:build amd64 && !purego

package tensor

import (
	"math"

	"mm-abi.org/mm/core/cpu"
)

//go:noescape
func gemmPairs12x32(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)

//go:noescape
func gemmPairs4x32(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)

//go:noescape
func gemmPairs1x32(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)

// pairAlong rounds 32·n32 elements, two neighbors to a pair.
//
//go:noescape
func pairAlong(n32 int, src, dst *float32)

// pairAcross rounds pairs of rows, lds bytes from one row to the next, 16·n16
// columns each: elements of a column to a pair.
//
//go:noescape
func pairAcross(pairs, n16 int, src *float32, lds uintptr, dst *float32, ldd uintptr)

// roundAVX2 rounds 8·n8 elements, each stored as one element.
//
//go:noescape
func roundAVX2(n8 int, src, dst *float32)

// readsBF16 returns how the best kernel of this processor reads bfloat16.
func readsBF16[F Float]() reading {
	if panelWidth[F]() == width512 && cpu.Has(cpu.BF16) {
		return pairs
	}
	return rounded
}

// round sets dst to src, rounded.
func round[F Float](dst, src []F) {
	n := 0
	if d, ok := any(dst).([]float32); ok && hasAVX2 && len(d) >= 8 {
		n = len(d) &^ 7
		from := any(src).([]float32)[:n]
		roundAVX2(n/8, &from[0], &d[0])
	}
	roundPlain(dst[n:], src[n:])
}

// pair returns two rounded numbers stored as one float32.
func pair(first, second float32) float32 {
	return math.Float32frombits(uint32(bf16(first)) | uint32(bf16(second))<<16)
}

// packPairs packs w columns of b, k rows ld apart, into one panel of pairs of
// rows; if k is odd, the last row is paired with zeros.
func packPairs[F Float](dst []F, width int, b []F, ld, k, w int) {
	d, src := any(dst).([]float32), any(b).([]float32)
	pairRows(d, width, src, ld, k, w)
	for r := range (k + 1) / 2 {
		clear(d[r*width+w : (r+1)*width])
	}
}

// pairRows rounds k rows of w elements, lds apart, two rows to one of dst.
func pairRows(dst []float32, ldd int, src []float32, lds, k, w int) {
	quick := w &^ 15
	if quick > 0 && k > 1 {
		pairAcross(k/2, quick/16, &src[0], uintptr(lds)*4, &dst[0], uintptr(ldd)*4)
	}
	for r := 0; r < k; r += 2 {
		to := dst[r/2*ldd:]
		if r+1 == k {
			for j := range w {
				to[j] = pair(src[r*lds+j], 0)
			}
			return
		}
		for j := quick; j < w; j++ {
			to[j] = pair(src[r*lds+j], src[(r+1)*lds+j])
		}
	}
}

// pairRow rounds one row, two neighbors to a pair.
func pairRow(dst, src []float32) {
	n := len(src) &^ 31
	if n > 0 {
		pairAlong(n/32, &src[0], &dst[0])
	}
	for ; n+1 < len(src); n += 2 {
		dst[n/2] = pair(src[n], src[n+1])
	}
	if n < len(src) {
		dst[n/2] = pair(src[n], 0)
	}
}

// packPairsTransposed packs w rows of b, each k long, as columns of one panel.
func packPairsTransposed[F Float](dst []F, width int, b []F, ld, k, w int) {
	d, src := any(dst).([]float32), any(b).([]float32)
	const ldr = blockK/2 + leftGap
	var room [width512 * ldr]float32
	for k0 := 0; k0 < k; k0 += blockK {
		kb := min(blockK, k-k0)
		for r := range w {
			pairRow(room[r*ldr:], src[r*ld+k0:][:kb])
		}
		packPanelTransposed(d[k0/2*width:(k0+kb+1)/2*width], width, room[:], ldr, (kb+1)/2, w)
	}
}

// pairLeft rounds m rows of a, k deep, to pairs.
func pairLeft[F Float](dst, a Left[F], m, k int) {
	to, from := any(dst.Data).([]float32), any(a.Data).([]float32)
	switch {
	case a.Row == 1:
		pairRows(to, dst.Col, from, a.Col, k, m)
	case a.Col == 1:
		for i := range m {
			pairRow(to[i*dst.Row:], from[i*a.Row:][:k])
		}
	default:
		for i := range m {
			row := from[i*a.Row:]
			for r := 0; r < k; r += 2 {
				var second float32
				if r+1 < k {
					second = row[(r+1)*a.Col]
				}
				to[i*dst.Row+r/2] = pair(row[r*a.Col], second)
			}
		}
	}
}

// mulPairs is mulTile on pairs, k of them deep.
func mulPairs[F Float](width, m, k, w int, alpha F, a Left[F], b []F, beta F, c []F, ldc int) {
	af, bf, cf := any(a.Data).([]float32), any(b).([]float32), any(c).([]float32)
	if w == width {
		tilePairs(m, k, float32(alpha), af, a.Row, a.Col, bf, float32(beta), cf, ldc)
		return
	}
	var edge [tile512 * width512]float32
	for i := 0; i < m; i += tile512 {
		h := min(tile512, m-i)
		tilePairs(h, k, float32(alpha), af[i*a.Row:], a.Row, a.Col, bf, 0, edge[:], width)
		for r := range h {
			blend(cf[(i+r)*ldc:(i+r)*ldc+w], edge[r*width:], float32(beta))
		}
	}
}

// tilePairs processes m rows with the tallest tile that fits.
func tilePairs(m, k int, alpha float32, a []float32, rs, cs int, b []float32, beta float32, c []float32, ldc int) {
	rb, cb, lb, bp := uintptr(rs)*4, uintptr(cs)*4, uintptr(ldc)*4, &b[0]
	for i := 0; i < m; {
		ap, cp, left := &a[i*rs], &c[i*ldc], m-i
		switch {
		case left >= 12:
			gemmPairs12x32(k, ap, rb, cb, bp, cp, lb, alpha, beta)
			i += 12
		case left >= 4:
			gemmPairs4x32(k, ap, rb, cb, bp, cp, lb, alpha, beta)
			i += 4
		default:
			gemmPairs1x32(k, ap, rb, cb, bp, cp, lb, alpha, beta)
			i++
		}
	}
}
