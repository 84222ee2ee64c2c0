//go:build (!amd64 && !arm64) || purego

package panel

// Stand-ins for the kernels that amd64 and arm64 have in assembly.

func mulTile(y []float32, ldy int, w *panel, x tile)       { mulTilePlain(y, ldy, w, x) }
func unpackQuants(f format, dst []int8, q []byte)          { unpackQuantsPlain(f, dst, q) }
func unpackPanel(f format, w *panel, q []byte, s *Scratch) { unpackSignedBytes(f, w, q, s) }
func (m *Matrix) mulRow([]float32, *Batch, int, int) bool  { return false }
