//go:build amd64 && !purego

package pack

import (
	"unsafe"

	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/core/tensor"
)

// The levels that the kernels here are written for.
var (
	hasAVX2   = cpu.Has(cpu.AVX2)
	hasAVX512 = cpu.Has(cpu.AVX512)
	hasVNNI   = cpu.Has(cpu.VNNI)
)

// The kernels for one row of activations and panels that follow each other. n
// counts groups of 32 columns, and blocks of 256 for K-quants.

//go:noescape
func rowQ8VNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ4VNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ5VNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ4MinVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ5MinVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ4KVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ5KVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ6KVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ2KVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ3KVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowIQ4NLVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowIQ4XSVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowMXFP4VNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

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
func tile4AVX2(y *float32, ldy int, w *int8, scale, minimum *float32, x *int8, d, sum *float32, rows, parts, groups int)

//go:noescape
func tile1AVX2(y *float32, ldy int, w *int8, scale, minimum *float32, x *int8, d, sum *float32, rows, parts, groups int)

//go:noescape
func quantiseAVX2(q *int8, stride int, scale, sum *float32, fix32, fix16 *int32, x *float32, groups int)

//go:noescape
func unpack2AVX2(dst *int8, q *byte, groups int, offset int8)

//go:noescape
func unpack3AVX2(dst *int8, q *byte, groups int, offset int8)

//go:noescape
func unpackTableAVX2(dst *int8, q *byte, groups int, table *int8)

//go:noescape
func unpack4AVX2(dst *int8, q *byte, groups int, offset int8)

//go:noescape
func unpack5AVX2(dst *int8, q *byte, groups int, offset int8)

//go:noescape
func unpack6AVX2(dst *int8, q *byte, groups int, offset int8)

//go:noescape
func transposeAVX2(dst, src *byte, stride, n, srcStep, dstStep int)

//go:noescape
func transposeHalvesAVX2(dst, src *byte, stride, n int)

// transposeInts moves the integers of n blocks of 16 rows into a panel, where
// they need no change. It reports whether that is so.
func transposeInts(t tensor.Type, q, rows []byte, rowBytes, n int) bool {
	f, _ := formatOf(t)
	if !hasAVX2 || f.scheme != schemeScale && f.scheme != schemeScaleMin && f.scheme != schemePower {
		return false
	}
	block, step := t.BlockBytes(), f.groupBytes()
	_ = rows[lanes*rowBytes-1]
	for half := range 2 { // of the rows
		src, dst := rows[half*8*rowBytes+intsAt(t):], q[half*32:]
		transposeAVX2(&dst[0], &src[0], rowBytes, n, block, step)
		if f.bits == 8 {
			transposeAVX2(&dst[256], &src[16], rowBytes, n, block, step)
		}
	}
	return true
}

// transposeHalves moves columns of 32 rows of numbers of 2 bytes into a panel
// and gives how many it moved.
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

func quantiseRow(r quantised, x []float32) {
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
	case hasAVX2:
		mulTileAVX2(y, ldy, w, x, minimum, groups)
	default:
		mulTilePlain(y, ldy, w, x)
	}
}

// mulTileAVX2 goes over the panel in halves of eight rows, and over the tile
// in fours.
func mulTileAVX2(y []float32, ldy int, w *panel, x tile, minimum *float32, groups int) {
	kernel, step := tile4AVX2, 4
	if x.rows == 1 {
		kernel, step = tile1AVX2, 1
	}
	parts := groupLen / w.group
	for half := range 2 {
		least := minimum
		if least != nil {
			least = &w.minimum[8*half]
		}
		for t := 0; t < x.rows; t += step {
			kernel(&y[t*ldy+8*half], ldy, &w.quants[32*half], &w.scale[8*half], least,
				&x.q[4*t], &x.scale[t], &x.sum[t], x.rows, parts, groups)
		}
	}
}

// mulRow multiplies with one row of activations, unpacking in registers. It
// reports whether the machine can.
func (m *Matrix) mulRow(y []float32, b *Batch, lo, end int) bool {
	if !hasVNNI {
		return false
	}
	kernel, per, fix := rowQ8VNNI, groupLen, b.fix32
	switch m.typ {
	case tensor.Q4_0:
		kernel = rowQ4VNNI
	case tensor.Q5_0:
		kernel = rowQ5VNNI
	case tensor.Q4_1:
		kernel = rowQ4MinVNNI
	case tensor.Q5_1:
		kernel = rowQ5MinVNNI
	case tensor.IQ4_NL:
		kernel = rowIQ4NLVNNI
	case tensor.MXFP4:
		kernel = rowMXFP4VNNI
	case tensor.IQ4_XS:
		kernel, per = rowIQ4XSVNNI, 256
	case tensor.Q4_K:
		kernel, per = rowQ4KVNNI, 256
	case tensor.Q5_K:
		kernel, per = rowQ5KVNNI, 256
	case tensor.Q2_K:
		kernel, per, fix = rowQ2KVNNI, 256, b.fix16
	case tensor.Q3_K:
		kernel, per, fix = rowQ3KVNNI, 256, b.fix16
	case tensor.Q6_K:
		kernel, per, fix = rowQ6KVNNI, 256, b.fix16
	}
	p := lo / lanes
	kernel(&y[lo], &m.quants[p*m.panelBytes], &m.scales[p*m.scaleBytes],
		&b.q[0], &b.scale[0], &b.sum[0], &fix[0], m.cols/per, (end-lo)/lanes)
	return true
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
