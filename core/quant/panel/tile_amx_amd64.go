//go:build !purego

package panel

import "mm-abi.org/mm/core/cpu"

// hasAMX: pairs of tiles are multiplied with AMX, which needs blocked batches.
var hasAMX = cpu.Has(cpu.AMX)

// The kernels for an unpacked panel and consecutive pairs of tiles.

//go:noescape
func tilesAMX(y *float32, ldy int, w *int8, scale *float32, x *int8, d *float32, groups, pairs int)

//go:noescape
func tilesMinAMX(y *float32, ldy int, w *int8, scale, minimum *float32, x *int8, d, sum *float32, groups, pairs int)

//go:noescape
func tiles16AMX(y *float32, ldy int, w *int8, scale *float32, x *int8, d *float32, groups, pairs int)

// mulPairsAMX multiplies a panel with pairs of tiles of eight rows.
func mulPairsAMX(y []float32, ldy int, w *panel, x tile) {
	groups := len(w.quants) / lanes / groupLen
	pairs := len(x.scale) / groups / pairRows
	_ = y[(pairs*pairRows-1)*ldy+lanes-1]
	switch {
	case w.group == halfLen:
		tiles16AMX(&y[0], ldy, &w.quants[0], &w.scale[0], &x.q[0], &x.scale[0], groups, pairs)
	case len(w.minimum) > 0:
		tilesMinAMX(&y[0], ldy, &w.quants[0], &w.scale[0], &w.minimum[0], &x.q[0], &x.scale[0], &x.sum[0], groups, pairs)
	default:
		tilesAMX(&y[0], ldy, &w.quants[0], &w.scale[0], &x.q[0], &x.scale[0], groups, pairs)
	}
}
