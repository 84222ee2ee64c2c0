//go:build (!amd64 && !arm64) || purego

package tensor

func panelWidth[F Float]() int { return plainWidth }

func packPanel[F Float](dst []F, width int, b []F, ld, k, w int) {
	packPanelPlain(dst, width, b, ld, k, w)
}

func packPanelTransposed[F Float](dst []F, width int, b []F, ld, k, w int) {
	packPanelTransposedPlain(dst, width, b, ld, k, w)
}

func mulTile[F Float](width, m, k, w int, alpha F, a Left[F], b []F, beta F, c []F, ldc int) {
	mulTilePlain(width, m, k, w, alpha, a, b, beta, c, ldc)
}
