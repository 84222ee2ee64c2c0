package tensor

import "math"

// reading selects how a product reads the elements of its factors.
type reading uint8

const (
	full    reading = iota // unchanged
	rounded                // rounded to bfloat16, stored as elements
	pairs                  // rounded, two consecutive along K stored as one float32
)

// depth returns the number of rows of a panel for k rows of a matrix.
func (r reading) depth(k int) int {
	if r == pairs {
		return (k + 1) / 2
	}
	return k
}

// NewPanelsBF16 returns room for a K×N matrix whose products read bfloat16: the
// elements of both factors are rounded, ties to even and subnormals to zero,
// and their products are summed in float32. Operands and results keep their
// types. Processors with AVX512_BF16 multiply pairs at twice the rate of
// float32; others multiply the rounded numbers as floats, so a sum has the same
// terms on all processors and differs only by the order of addition.
func NewPanelsBF16[F Float](k, n int) *Panels[F] {
	return newPanelsReading[F](k, n, readsBF16[F]())
}

func newPanelsReading[F Float](k, n int, r reading) *Panels[F] {
	p := &Panels[F]{width: panelWidth[F](), reads: r}
	p.Resize(k, n)
	return p
}

// BF16 reports whether products read bfloat16.
func (p *Panels[F]) BF16() bool { return p.reads != full }

// leftRoom is the number of elements of A that are rounded at a time, 48 rows
// of a block of K in pairs; leftGap keeps such rows from evicting each other.
const (
	leftGap  = 16
	leftRoom = 48 * (blockK/2 + leftGap)
)

// mulRounded is Mul with a block of A rounded before all panels of B are read.
// Neither the block's height nor m changes the operations on an element of C.
func (p *Panels[F]) mulRounded(m int, alpha F, a Left[F], beta F, c []F, ldc int) {
	var room [leftRoom]F
	deepest := p.reads.depth(min(p.k, blockK)) + leftGap
	high := leftRoom / deepest / 12 * 12
	for i0 := 0; i0 < m; i0 += high {
		mb := min(high, m-i0)
		for k0 := 0; k0 < p.k; k0 += blockK {
			kb := min(blockK, p.k-k0)
			depth := p.reads.depth(kb)
			left := Left[F]{room[:], depth + leftGap, 1}
			if a.Row == 1 {
				left.Row, left.Col = 1, mb
			}
			from := Left[F]{a.Data[i0*a.Row+k0*a.Col:], a.Row, a.Col}
			if p.reads == pairs {
				pairLeft(left, from, mb, kb)
			} else {
				roundLeft(left, from, mb, kb)
			}
			by := beta
			if k0 > 0 {
				by = 1
			}
			for j := 0; j < p.n; j += p.width {
				w, panel, to := min(p.width, p.n-j), p.data[j*p.depth+p.reads.depth(k0)*p.width:], c[i0*ldc+j:]
				if p.reads == pairs {
					mulPairs(p.width, mb, depth, w, alpha, left, panel, by, to, ldc)
				} else {
					mulTile(p.width, mb, depth, w, alpha, left, panel, by, to, ldc)
				}
			}
		}
	}
}

// roundLeft rounds m rows of a, k deep, to dst.
func roundLeft[F Float](dst, a Left[F], m, k int) {
	switch {
	case a.Row == 1:
		for r := range k {
			round(dst.Data[r*dst.Col:][:m], a.Data[r*a.Col:])
		}
	case a.Col == 1:
		for i := range m {
			round(dst.Data[i*dst.Row:][:k], a.Data[i*a.Row:])
		}
	default:
		for i := range m {
			for r := range k {
				dst.Data[i*dst.Row+r] = nearest(a.Data[i*a.Row+r*a.Col])
			}
		}
	}
}

// roundPlain is the oracle of round: it sets dst to src, rounded.
func roundPlain[F Float](dst, src []F) {
	for i := range dst {
		dst[i] = nearest(src[i])
	}
}

// nearest returns the bfloat16 number that a product reads instead of v.
func nearest[F Float](v F) F { return F(BF16ToF32(bf16(float32(v)))) }

// bf16 is F32ToBF16 with the rounding of processors: subnormals become zero.
func bf16(f float32) uint16 {
	if b := math.Float32bits(f); b&0x7f800000 == 0 {
		return uint16(b >> 16 & 0x8000)
	}
	return F32ToBF16(f)
}
