package figure

import (
	"testing"
	"unicode/utf8"

	"mm-abi.org/mm/train/dataset/scene"
)

// FuzzReadFormula checks that any pixels are an error or print.
func FuzzReadFormula(f *testing.F) {
	src, err := scene.New(scene.Options{Kinds: []string{scene.Digits}, Size: 64})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(src.Make(0).RGB, 64)
	f.Add(make([]byte, 3*40*20), 40)
	set, err := Letters()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, pix []byte, w int) {
		if w < 1 || w > 128 || len(pix) > 3*128*128 {
			return
		}
		h := len(pix) / 3 / w
		text, err := ReadFormula(free{}, set, pix[:3*w*h], w, h)
		if err == nil && !utf8.ValidString(text) {
			t.Errorf("%q", text)
		}
	})
}
