package panel

import (
	"unsafe"

	"mm-abi.org/mm/core/tensor"
)

// Mul computes columns lo to hi of y = x·Wᵀ: for every row t of the batch,
//
//	y[t·ldy + n] = Σ_k x[t][k]·W[n][k],  lo ≤ n < hi
//
// lo must be a multiple of Unit, and so must hi unless it is Rows. y must have
// room for hi rounded up to Unit, and for the batch's rows rounded up to 8 if
// there is more than one; the padding is overwritten.
func (m *Matrix) Mul(y []float32, ldy int, b *Batch, lo, hi int, s *Scratch) {
	if b.cols != m.cols {
		panic("panel: activations and weights have different lengths")
	}
	end := (hi + Unit - 1) / Unit * Unit
	padded := b.Tiles() * b.tile
	if lo < 0 || lo%Unit != 0 || hi > m.rows || hi%Unit != 0 && hi != m.rows || padded > 1 && ldy < end || len(y) < (padded-1)*ldy+end {
		panic("panel: column range out of bounds")
	}
	if lo >= hi {
		return
	}
	switch {
	case len(b.few) > 0 && b.rows <= m.fewRows() && m.mulFew(y, ldy, b, lo, end):
	case m.format.scheme == schemeFloat && b.rows == 1:
		m.mulFloatRow(y, b, lo, end)
	case m.format.scheme == schemeFloat:
		m.mulFloats(y, ldy, b, lo, end, s)
	case b.rows == 1 && m.mulRow(y, b, lo, end):
	default:
		for p := lo / lanes; p < end/lanes; p++ {
			w := m.unpack(p, s)
			mulTiles(y[p*lanes:], ldy, w, b)
			if len(w.addend) > 0 {
				for t := 0; t < padded; t += b.tile {
					s.add(y[t*ldy+p*lanes:], ldy, w, b.tileAt(t))
				}
			}
		}
	}
}

// mulTileByTile multiplies a panel with the rows of a batch from the tile of row first on:
// y[t·ldy + r], 16 rows r.
func mulTileByTile(y []float32, ldy int, w *panel, b *Batch, first int) {
	for t := first; t < b.rows; t += b.tile {
		mulTile(y[t*ldy:], ldy, w, b.tileAt(t))
	}
}

// addPlain adds the products with the addend of w: the products with a panel of
// ones with the addend as scale. They are summed separately, so that a one-row
// kernel that has both available can round in the same way.
func (s *Scratch) addPlain(y []float32, ldy int, w *panel, x tile) {
	for len(s.ones) < len(w.quants) {
		s.ones = append(s.ones, 1)
	}
	sums := &s.sums
	mulTile(sums[:], lanes, &panel{quants: s.ones[:len(w.quants)], bits: w.bits, scale: w.addend, group: halfLen}, x)
	for t := range x.rows {
		for r, v := range sums[t*lanes : (t+1)*lanes] {
			y[t*ldy+r] += v
		}
	}
}

// tile is one tile of a batch in the form that kernels take.
type tile struct {
	rows       int // 1 or 8
	q          []int8
	scale, sum []float32
	fix32      []int32
	fix16      []int32
}

// tileAt returns the tile whose first row is t.
func (b *Batch) tileAt(t int) tile { return b.tilesAt(t, t+b.tile) }

// tilesAt returns the tiles of rows from to end, one after the other.
func (b *Batch) tilesAt(from, end int) tile {
	groups := b.cols / groupLen
	lo, hi := from*groups, end*groups
	return tile{
		rows:  b.tile,
		q:     b.q[lo*groupLen : hi*groupLen],
		scale: b.scale[lo:hi],
		sum:   b.sum[lo:hi],
		fix32: b.fix32[lo:hi],
		fix16: b.fix16[2*lo : 2*hi],
	}
}

// mulTilePlain multiplies a panel with a tile: y[t·ldy + r], 16 rows r.
func mulTilePlain(y []float32, ldy int, w *panel, x tile) {
	k := len(w.quants) / lanes
	for t := range x.rows {
		for r := range lanes {
			var acc float32
			for g := range k / w.group {
				var dot int32
				for u := g * w.group / 4; u < (g+1)*w.group/4; u++ {
					for j := range 4 {
						dot += int32(w.quants[(u*lanes+r)*4+j]) * int32(x.q[(u*x.rows+t)*4+j])
					}
				}
				at := g*w.group/groupLen*x.rows + t
				acc += float32(dot) * (w.scale[g*lanes+r] * x.scale[at])
				if len(w.minimum) > 0 {
					acc -= w.minimum[g*lanes+r] * x.sum[at]
				}
			}
			y[t*ldy+r] = acc
		}
	}
}

// floatBlock is the number of columns of a panel of halves that are converted
// at a time: 32 KiB of float32.
const floatBlock = 256

// mulFloats multiplies panels of floats with several rows: each block of
// columns is converted once and used for all rows.
func (m *Matrix) mulFloats(y []float32, ldy int, b *Batch, lo, end int, s *Scratch) {
	for p := lo / Unit; p < end/Unit; p++ {
		for c := 0; c < m.cols; c += floatBlock {
			n := min(floatBlock, m.cols-c)
			s.floats = grow(s.floats, n*Unit)
			w := m.floatColumns(p, c, n, s.floats)
			tensor.MulPanel(y[p*Unit:], ldy, b.x[c:], m.cols, w, b.rows, n, c > 0)
		}
	}
}

// mulFloatRowPlain multiplies panels of floats with a single row.
func (m *Matrix) mulFloatRowPlain(y []float32, b *Batch, lo, end int) {
	var buf [Unit]float32
	for p := lo / Unit; p < end/Unit; p++ {
		out := y[p*Unit : (p+1)*Unit]
		clear(out)
		for c, x := range b.Row(0) {
			tensor.Axpy(out, x, m.floatColumns(p, c, 1, buf[:]))
		}
	}
}

// floatColumns returns n columns of panel p, from c on, as float32: n × 32. It
// uses buf unless they are float32 already.
func (m *Matrix) floatColumns(p, c, n int, buf []float32) []float32 {
	size := m.typ.BlockBytes()
	w := m.quants[p*m.panelBytes+c*Unit*size:][:n*Unit*size]
	if m.typ == tensor.F32 {
		return unsafe.Slice((*float32)(unsafe.Pointer(&w[0])), n*Unit)
	}
	buf = buf[:n*Unit]
	if m.typ == tensor.F16 {
		tensor.FromF16(buf, w)
	} else {
		tensor.FromBF16(buf, w)
	}
	return buf
}
