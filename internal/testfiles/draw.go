package testfiles

import (
	"bytes"
	"image"
	"image/draw"
	"image/png"
	"testing"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// Line returns a PNG of a line of text, black on white, with letters of size pixels.
func Line(t testing.TB, text string, size float64) []byte {
	t.Helper()
	f, err := opentype.Parse(goregular.TTF)
	if err != nil {
		t.Fatal(err)
	}
	face, err := opentype.NewFace(f, &opentype.FaceOptions{Size: size, DPI: 72, Hinting: font.HintingFull})
	if err != nil {
		t.Fatal(err)
	}
	defer face.Close()
	margin := int(size / 3)
	metrics := face.Metrics()
	m := image.NewRGBA(image.Rect(0, 0, font.MeasureString(face, text).Ceil()+2*margin, (metrics.Ascent+metrics.Descent).Ceil()+margin))
	draw.Draw(m, m.Bounds(), image.White, image.Point{}, draw.Src)
	d := font.Drawer{Dst: m, Src: image.Black, Face: face, Dot: fixed.P(margin, metrics.Ascent.Ceil()+margin/2)}
	d.DrawString(text)
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
