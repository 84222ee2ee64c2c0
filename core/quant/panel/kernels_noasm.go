//go:build !amd64 || purego

package panel

import "mm-abi.org/mm/core/tensor"

// Stand-ins for the kernels that only amd64 has in assembly.

func quantiseRow(r quantized, x []float32)                       { quantiseRowPlain(r, x) }
func (m *Matrix) mulFloatRow(y []float32, b *Batch, lo, end int) { m.mulFloatRowPlain(y, b, lo, end) }
func interleave(tile, rows []int8)                               { interleavePlain(tile, rows) }
func transposeInts(tensor.Type, []byte, []byte, int, int) bool   { return false }
func transposeHalves([]byte, []byte, int) int                    { return 0 }
func mulTiles(y []float32, ldy int, w *panel, b *Batch)          { mulTileByTile(y, ldy, w, b, 0) }

func (s *Scratch) add(y []float32, ldy int, w *panel, x tile) { s.addPlain(y, ldy, w, x) }

// hasAMX: batches are blocked.
const hasAMX = false

// fewMeasured: fewRows was measured on amd64 only.
const fewMeasured = false

// hasVNNI: fewRows asks it for a level of amd64.
const hasVNNI = false
