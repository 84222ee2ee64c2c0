//go:build amd64 && !purego

package panel

import (
	"unsafe"

	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/core/tensor"
)

// The levels that the kernels are written for.
var (
	hasAVX2    = cpu.Has(cpu.AVX2)
	hasAVXVNNI = cpu.Has(cpu.AVXVNNI)
	hasAVX512  = cpu.Has(cpu.AVX512)
	hasVNNI    = cpu.Has(cpu.VNNI)

	// fewMeasured: fewRows was measured on this level.
	fewMeasured = hasAVX2 && !hasAVXVNNI
)

//go:noescape
func rowF16AVX512(y *float32, w *byte, x *float32, k int)

//go:noescape
func rowBF16AVX512(y *float32, w *byte, x *float32, k int)

//go:noescape
func rowF16AVX2(y *float32, w *byte, x *float32, k int)

//go:noescape
func rowBF16AVX2(y *float32, w *byte, x *float32, k int)

// The kernels for a tile of activations and an unpacked panel; minimum may be
// nil.

//go:noescape
func tileVNNI(y *float32, ldy int, w *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

//go:noescape
func tile16VNNI(y *float32, ldy int, w *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

//go:noescape
func quantiseAVX2(q *int8, stride int, scale, sum *float32, fix32, fix16 *int32, x *float32, groups int)

//go:noescape
func unpack2AVX2(dst *int8, q *byte, groups int, offset int8)

//go:noescape
func unpack3AVX2(dst *int8, q *byte, groups int, offset int8)

//go:noescape
func unpackTableAVX2(dst *int8, q *byte, groups int, table *int8)

// splitAVX2 takes groups of 512 signed bytes apart: with 128 added they are
// 16·high + low.
//
//go:noescape
func splitAVX2(low, high *int8, q *byte, groups int)

//go:noescape
func unpack4AVX2(dst *int8, q *byte, groups int, offset int8)

//go:noescape
func unpack5AVX2(dst *int8, q *byte, groups int, offset int8)

//go:noescape
func unpack6AVX2(dst *int8, q *byte, groups int, offset int8)

//go:noescape
func transposeAVX2(dst, src *byte, stride, n, srcStep, dstStep, apart int)

//go:noescape
func transposeHalvesAVX2(dst, src *byte, stride, n int)

// transposeInts copies the integers of n blocks of 16 rows into a panel if the
// type's layout needs no conversion, and reports whether it did.
func transposeInts(t tensor.Type, q, rows []byte, rowBytes, n int) bool {
	f, _ := formatOf(t)
	if !hasAVX2 || f.scheme != schemeScale && f.scheme != schemeScaleMin && f.scheme != schemePower {
		return false
	}
	block, step := t.BlockBytes(), f.groupBytes()
	_ = rows[lanes*rowBytes-1]
	for half := range 2 { // of the rows
		src, dst := rows[half*8*rowBytes+intsAt(t):], q[half*32:]
		transposeAVX2(&dst[0], &src[0], rowBytes, n, block, step, 64)
		if f.bits == 8 {
			transposeAVX2(&dst[256], &src[16], rowBytes, n, block, step, 64)
		}
	}
	return true
}

// transposeHalves copies columns of 32 rows of 2-byte numbers into a panel and
// returns the number of columns.
func transposeHalves(panel, rows []byte, cols int) int {
	n := cols / 8
	if !hasAVX2 || n == 0 {
		return 0
	}
	_ = rows[Unit*2*cols-1]
	for part := range 4 {
		transposeHalvesAVX2(&panel[part*16], &rows[part*8*2*cols], 2*cols, n)
	}
	return 8 * n
}

// interleave interleaves the integers of a tile's rows, four columns at a time.
func interleave(tile, rows []int8) {
	if !hasAVX2 {
		interleavePlain(tile, rows)
		return
	}
	cols := len(tile) / tileRows
	transposeAVX2((*byte)(unsafe.Pointer(&tile[0])), (*byte)(unsafe.Pointer(&rows[0])), cols, cols/16, 16, 16*tileRows, 4*tileRows)
}

func quantiseRow(r quantized, x []float32) {
	if !hasAVX2 {
		quantiseRowPlain(r, x)
		return
	}
	quantiseAVX2(&r.q[0], r.stride, &r.scale[0], &r.sum[0], &r.fix32[0], &r.fix16[0], &x[0], len(x)/groupLen)
}

func unpackQuants(f format, dst []int8, q []byte) {
	groups := len(q) / f.groupBytes()
	switch {
	case !hasAVX2:
		unpackQuantsPlain(f, dst, q)
	case f.table != noTable:
		values := f.table.values()
		unpackTableAVX2(&dst[0], &q[0], groups, &values[0])
	case f.bits == 2:
		unpack2AVX2(&dst[0], &q[0], groups, int8(f.offset))
	case f.bits == 3:
		unpack3AVX2(&dst[0], &q[0], groups, int8(f.offset))
	case f.bits == 4:
		unpack4AVX2(&dst[0], &q[0], groups, int8(f.offset))
	case f.bits == 5:
		unpack5AVX2(&dst[0], &q[0], groups, int8(f.offset))
	default:
		unpack6AVX2(&dst[0], &q[0], groups, int8(f.offset))
	}
}

// unpackPanel writes a panel's integers for the tile kernels: signed bytes, or
// unsigned ones for 256-bit registers.
func unpackPanel(f format, w *panel, q []byte, s *Scratch) {
	if !hasAVX2 || hasVNNI {
		unpackSignedBytes(f, w, q, s)
		return
	}
	groups := len(q) / f.groupBytes()
	n := groups * groupLen * lanes
	w.bits = f.bits
	if f.bits == 8 || f.table == tableIQ4 {
		w.bits = 8
		if hasAVXVNNI { // its kernels add 128
			unpackSignedBytes(f, w, q, s)
			return
		}
		s.buf = grow(s.buf, 2*n)
		w.quants, w.high = s.buf[:n], s.buf[n:]
	} else {
		s.buf = grow(s.buf, n)
		w.quants = s.buf
	}
	switch {
	case f.bits == 8:
		splitAVX2(&w.quants[0], &w.high[0], &q[0], groups)
	case f.table == tableIQ4:
		low, high := halvesOf(f.table.values())
		unpackTableAVX2(&w.quants[0], &q[0], groups, &low[0])
		unpackTableAVX2(&w.high[0], &q[0], groups, &high[0])
	case f.table == tableMXFP4: // as 5 bits minus 16
		w.bits = 5
		values := f.table.values()
		for i := range values {
			values[i] += 16
		}
		unpackTableAVX2(&w.quants[0], &q[0], groups, &values[0])
	default:
		f.offset = 0
		unpackQuants(f, w.quants, q)
	}
}

// halvesOf returns v as 16·high + low - 128.
func halvesOf(v [16]int8) (low, high [16]int8) {
	for i, x := range v {
		u := byte(x) ^ 0x80
		low[i], high[i] = int8(u&15), int8(u>>4)
	}
	return low, high
}

// mulTiles multiplies a panel with a batch.
func mulTiles(y []float32, ldy int, w *panel, b *Batch) {
	done := 0
	if hasAMX {
		if done = b.pairedRows(); done > 0 {
			mulPairsAMX(y, ldy, w, b.tilesAt(0, done))
		}
	}
	mulTileByTile(y, ldy, w, b, done)
}

func mulTile(y []float32, ldy int, w *panel, x tile) {
	groups := len(w.quants) / lanes / groupLen
	minimum := unsafe.SliceData(w.minimum)
	if len(w.minimum) == 0 {
		minimum = nil
	}
	switch {
	case hasVNNI && x.rows == tileRows && w.group == groupLen:
		tileVNNI(&y[0], ldy, &w.quants[0], &w.scale[0], minimum, &x.q[0], &x.scale[0], &x.sum[0], &x.fix32[0], groups)
	case hasVNNI && x.rows == tileRows:
		tile16VNNI(&y[0], ldy, &w.quants[0], &w.scale[0], nil, &x.q[0], &x.scale[0], &x.sum[0], &x.fix16[0], groups)
	case hasAVX2 && x.rows == tileRows:
		mulTile256(y, ldy, w, x, minimum, groups)
	default:
		mulTilePlain(y, ldy, w, x)
	}
}

//go:noescape
func addendsAVX2(y *float32, ldy int, addend, d *float32, fix *int32, groups int)

// add adds the products with the addend of w.
func (s *Scratch) add(y []float32, ldy int, w *panel, x tile) {
	if !hasAVX2 || x.rows != tileRows {
		s.addPlain(y, ldy, w, x)
		return
	}
	_ = y[(tileRows-1)*ldy+lanes-1]
	for t := 0; t < tileRows; t += 4 {
		addendsAVX2(&y[t*ldy], ldy, &w.addend[0], &x.scale[t], &x.fix16[t], len(w.addend)/lanes/2)
	}
}

// mulTile256 processes four rows of the tile at a time, in 256-bit registers.
func mulTile256(y []float32, ldy int, w *panel, x tile, minimum *float32, groups int) {
	kernel, fix := tileAVX2(w.bits, minimum != nil), x.fix32
	if hasAVXVNNI {
		kernel = tileAVXVNNI(w.bits, minimum != nil)
	}
	if w.group == halfLen {
		fix = x.fix16
	}
	for t := 0; t < tileRows; t += 4 {
		kernel(&y[t*ldy], ldy, &w.quants[0], unsafe.SliceData(w.high), &w.scale[0], minimum,
			&x.q[4*t], &x.scale[t], &x.sum[t], &fix[t], groups)
	}
}

// mulFloatRow multiplies panels of floats with one row.
func (m *Matrix) mulFloatRow(y []float32, b *Batch, lo, end int) {
	if !hasAVX2 {
		m.mulFloatRowPlain(y, b, lo, end)
		return
	}
	for p := lo / Unit; p < end/Unit; p++ {
		w, out := m.quants[p*m.panelBytes:], y[p*Unit:]
		switch {
		case m.typ == tensor.F16 && hasAVX512:
			rowF16AVX512(&out[0], &w[0], &b.x[0], m.cols)
		case m.typ == tensor.F16:
			rowF16AVX2(&out[0], &w[0], &b.x[0], m.cols)
		case m.typ == tensor.BF16 && hasAVX512:
			rowBF16AVX512(&out[0], &w[0], &b.x[0], m.cols)
		case m.typ == tensor.BF16:
			rowBF16AVX2(&out[0], &w[0], &b.x[0], m.cols)
		default:
			tensor.MulPanel(out, Unit, b.x, m.cols, m.floatColumns(p, 0, m.cols, nil), 1, m.cols, false)
		}
	}
}
