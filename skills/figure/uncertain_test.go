package figure

import (
	"image/png"
	"os"
	"strings"
	"testing"
)

// TestUncertain reads formulas of matplotlib (testdata/formulas.py): one with
// brackets, which no letter resembles, is refused.
func TestUncertain(t *testing.T) {
	set, err := Letters()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"brackets": "", "sum": "a+b"} {
		f, err := os.Open("testdata/" + name + ".png")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		img, err := png.Decode(f)
		if err != nil {
			t.Fatal(err)
		}
		b := img.Bounds()
		var pix []byte
		for y := range b.Dy() {
			for x := range b.Dx() {
				r, g, u, _ := img.At(x, y).RGBA()
				pix = append(pix, byte(r>>8), byte(g>>8), byte(u>>8))
			}
		}
		got, err := ReadFormula(free{}, set, pix, b.Dx(), b.Dy())
		if got = strings.ReplaceAll(got, " ", ""); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
}
