//go:build !purego

package panel

import (
	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/core/tensor"
)

// The levels that the kernels are written for: products of bytes four at
// a time (SDOT of ARMv8.2), and of 2×8 with 8×2 (SMMLA of ARMv8.6). Other
// processors run the plain kernels.
var (
	hasDot  = cpu.Has(cpu.DotProd)
	hasI8MM = cpu.Has(cpu.I8MM)
)

//go:noescape
func tileSDOT(y *float32, q *int8, s *float32, x *int8, d *float32, stride uintptr, groups int)

//go:noescape
func tileSMMLA(y *float32, ldy int, w *int8, s *float32, x *int8, d *float32, groups int)

//go:noescape
func zipNEON(dst, src *int8, pairs int)

//go:noescape
func unpack4NEON(dst *int8, q *byte, groups, offset int)

//go:noescape
func rowQ8SDOT(y *float32, q, s *byte, x *int8, d *float32, fix *int32, n, panels int)

//go:noescape
func rowQ4SDOT(y *float32, q, s *byte, x *int8, d *float32, fix *int32, n, panels int)

// mulRow multiplies with one row of activations, unpacking in registers. It
// reports whether there is a kernel for the type.
func (m *Matrix) mulRow(y []float32, b *Batch, lo, end int) bool {
	kernel := rowQ8SDOT
	switch {
	case !hasDot || m.typ != tensor.Q8_0 && m.typ != tensor.Q4_0:
		return false
	case m.typ == tensor.Q4_0:
		kernel = rowQ4SDOT
	}
	p := lo / lanes
	kernel(&y[lo], &m.quants[p*m.panelBytes], &m.scales[p*m.scaleBytes], &b.q[0], &b.scale[0], &b.fix32[0], m.cols/groupLen, (end-lo)/lanes)
	return true
}

func unpackQuants(f format, dst []int8, q []byte) {
	if f.bits != 4 || f.table != noTable {
		unpackQuantsPlain(f, dst, q)
		return
	}
	unpack4NEON(&dst[0], &q[0], len(q)/f.groupBytes(), f.offset)
}

// unpackPanel writes a panel's integers as signed bytes, and for SMMLA also with
// eight columns of a row adjacent, if a kernel uses them.
func unpackPanel(f format, w *panel, q []byte, s *Scratch) {
	if !hasI8MM || w.group != groupLen {
		unpackSignedBytes(f, w, q, s)
		return
	}
	n := len(q) / f.groupBytes() * groupLen * lanes
	s.buf = grow(s.buf, 2*n)
	w.high = s.buf[n:]
	unpackSignedBytes(f, w, q, s) // into the first half, or aliased
	zipNEON(&w.high[0], &w.quants[0], n/128)
}

// mulTile multiplies a panel with a tile: y[t·ldy + r], 16 rows r.
func mulTile(y []float32, ldy int, w *panel, x tile) {
	groups := len(w.quants) / lanes / groupLen
	if !hasDot || w.group != groupLen || groups == 0 {
		mulTilePlain(y, ldy, w, x)
		return
	}
	_, _ = w.scale[groups*lanes-1], x.q[groups*groupLen*x.rows-1]
	if hasI8MM && x.rows == tileRows {
		for t := range x.rows {
			clear(y[t*ldy : t*ldy+lanes])
		}
		for t := 0; t < tileRows; t += 4 {
			tileSMMLA(&y[t*ldy], ldy, &w.high[0], &w.scale[0], &x.q[4*t], &x.scale[t], groups)
		}
	}
	for t := range x.rows {
		out := y[t*ldy : t*ldy+lanes]
		if !hasI8MM || x.rows != tileRows {
			tileSDOT(&out[0], &w.quants[0], &w.scale[0], &x.q[4*t], &x.scale[t], uintptr(4*x.rows), groups)
		}
		if len(w.minimum) == 0 {
			continue
		}
		for g := range groups {
			tensor.Axpy(out, -x.sum[g*x.rows+t], w.minimum[g*lanes:(g+1)*lanes])
		}
	}
}
