package figure

import (
	"image"
	"strings"
	"testing"
)

// TestHoles: areas that ink encloses are holes, also at the edge of the rectangle, and
// single pixels are not.
func TestHoles(t *testing.T) {
	for _, c := range []struct {
		rows string
		want int
	}{
		{"###|#.#|#.#|###", 1},
		{"###|#.#|###|#.#|#.#|###", 1},
		{"####|#..#|####|#..#|####", 2},
		{"###|#.#|#.#|#.#", 0},
		{"###|#.#|###", 0},
		{"#..#|.##.", 0},
		{"", 0},
	} {
		rows := strings.Split(c.rows, "|")
		k := &Ink{W: len(rows[0]) + 2, H: len(rows) + 2}
		k.Pix = make([]float32, k.W*k.H)
		for y, row := range rows {
			for x := range row {
				if row[x] == '#' {
					k.Pix[(y+1)*k.W+x+1] = 1
				}
			}
		}
		if got := k.Holes(image.Rect(1, 1, k.W-1, k.H-1), 0.5); got != c.want {
			t.Errorf("%s: got %d holes, want %d", c.rows, got, c.want)
		}
	}
	for text, want := range map[string][2]int{"8B": {2, 2}, "069AQadop": {1, 1}, "4": {0, 1}, "g": {1, 2}, "1235lSx": {0, 0}} {
		for _, c := range text {
			if least, most := Holes(c); [2]int{least, most} != want {
				t.Errorf("%c: got %d to %d holes, want %v", c, least, most, want)
			}
		}
	}
}
