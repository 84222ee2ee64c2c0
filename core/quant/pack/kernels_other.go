//go:build (!amd64 && !arm64) || purego

package pack

func mulTile(y []float32, ldy int, w *panel, x tile) { mulTilePlain(y, ldy, w, x) }
