package panel

import "mm-abi.org/mm/core/tensor"

// fewRows returns the largest batch for which one-row kernels are faster than a
// tile, which unpacks the whole panel: BenchmarkFewRows measures it. A tile
// costs as much as 3.2 rows of Q8_0 and 6 to 11 rows of the other types listed.
// Levels and types that were not measured keep the tile.
func (m *Matrix) fewRows() int {
	switch {
	case !fewMeasured:
		return 1
	case m.typ == tensor.Q8_0 && hasVNNI:
		return 2
	case m.typ == tensor.F16 && hasVNNI:
		return 4
	case m.typ == tensor.Q8_0, m.typ == tensor.Q4_K, m.typ == tensor.F16:
		return 7
	case m.typ == tensor.Q6_K, m.typ == tensor.Q4_0:
		return 6
	}
	return 1
}

// mulFew multiplies each row by itself, panel by panel, so that a panel is read
// from memory once. It reports false without a kernel for one row.
func (m *Matrix) mulFew(y []float32, ldy int, b *Batch, lo, end int) bool {
	for p := lo; p < end; p += Unit {
		for t := range b.few {
			row := &b.few[t]
			if m.format.scheme == schemeFloat {
				m.mulFloatRow(y[t*ldy:], row, p, p+Unit)
			} else if !m.mulRow(y[t*ldy:], row, p, p+Unit) {
				return false
			}
		}
	}
	return true
}

// resizeFew shares the activations and integers of the rows with few, whose
// figures are copies because those of a tile are interleaved.
func (b *Batch) resizeFew() {
	n := 0
	if fewMeasured && b.rows > 1 && b.rows < tileRows {
		n = b.rows
	}
	b.few = grow(b.few, n)
	groups := (b.cols + groupLen - 1) / groupLen
	for t := range b.few {
		row := &b.few[t]
		row.rows, row.cols, row.tile = 1, b.cols, 1
		row.x, row.q = b.Row(t), b.staged[t*b.cols:(t+1)*b.cols]
		row.scale, row.sum = grow(row.scale, groups), grow(row.sum, groups)
		row.fix32, row.fix16 = grow(row.fix32, groups), grow(row.fix16, 2*groups)
	}
}

// fillFew copies the figures of the quantized rows to few.
func (b *Batch) fillFew() {
	for t := range b.few {
		row := &b.few[t]
		for g := range row.scale {
			at := g*b.tile + t
			row.scale[g], row.sum[g], row.fix32[g] = b.scale[at], b.sum[at], b.fix32[at]
			row.fix16[2*g] = b.fix16[2*g*b.tile+t]
			row.fix16[2*g+1] = b.fix16[(2*g+1)*b.tile+t]
		}
	}
}
