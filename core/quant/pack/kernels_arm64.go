//go:build !purego

package pack

import (
	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/core/tensor"
)

// hasDot says that the processor multiplies bytes four at a time (SDOT of
// ARMv8.2); the others run the plain kernel.
var hasDot = cpu.Has(cpu.DotProd)

//go:noescape
func tileSDOT(y *float32, q *int8, s *float32, x *int8, d *float32, stride uintptr, groups int)

// mulTile multiplies a panel with a tile: y[t·ldy + r], 16 rows r.
func mulTile(y []float32, ldy int, w *panel, x tile) {
	groups := len(w.quants) / lanes / groupLen
	if !hasDot || w.group != groupLen || groups == 0 {
		mulTilePlain(y, ldy, w, x)
		return
	}
	_, _ = w.scale[groups*lanes-1], x.q[groups*groupLen*x.rows-1]
	for t := range x.rows {
		out := y[t*ldy : t*ldy+lanes]
		tileSDOT(&out[0], &w.quants[0], &w.scale[0], &x.q[4*t], &x.scale[t], uintptr(4*x.rows), groups)
		if len(w.minimum) == 0 {
			continue
		}
		for g := range groups {
			tensor.Axpy(out, -x.sum[g*x.rows+t], w.minimum[g*lanes:(g+1)*lanes])
		}
	}
}
