//go:build !purego

package panel

import (
	"unsafe"

	"mm-abi.org/mm/core/cpu"
)

// hasAMX: tiles are multiplied with AMX, which needs blocked batches.
var hasAMX = cpu.Has(cpu.AMX)

// The kernels for an unpacked panel and consecutive tiles; minimum may be nil.

//go:noescape
func tilesAMX(y *float32, ldy int, w *int8, scale, minimum *float32, x *int8, d, sum *float32, groups, tiles int)

//go:noescape
func tiles16AMX(y *float32, ldy int, w *int8, scale *float32, x *int8, d *float32, groups, tiles int)

// mulTilesAMX multiplies a panel with tiles of eight rows.
func mulTilesAMX(y []float32, ldy int, w *panel, x tile) {
	groups := len(w.quants) / lanes / groupLen
	tiles := len(x.scale) / groups / tileRows
	_ = y[(tiles*tileRows-1)*ldy+lanes-1]
	if w.group == halfLen {
		tiles16AMX(&y[0], ldy, &w.quants[0], &w.scale[0], &x.q[0], &x.scale[0], groups, tiles)
		return
	}
	minimum := unsafe.SliceData(w.minimum) // of an empty slice with capacity it is not nil
	if len(w.minimum) == 0 {
		minimum = nil
	}
	tilesAMX(&y[0], ldy, &w.quants[0], &w.scale[0], minimum, &x.q[0], &x.scale[0], &x.sum[0], groups, tiles)
}
