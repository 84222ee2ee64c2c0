package figure

import (
	"fmt"
	"image"
	"image/draw"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/image/vector"

	"mm-abi.org/mm/train/dataset/fonts"
)

// press renders text in a held-out font.
type press struct {
	chars map[rune]fonts.Glyph
	mask  *image.Alpha
}

// text renders s from a point of the baseline and returns where it ends.
func (p *press) text(s string, x, y, em float64) float64 {
	for _, c := range s {
		o := p.chars[c]
		fill := vector.NewRasterizer(p.mask.Rect.Dx(), p.mask.Rect.Dy())
		for _, contour := range o.Contours {
			for i, q := range contour {
				qx, qy := float32(x+float64(q[0])*em/1024), float32(y+float64(q[1])*em/1024)
				if i == 0 {
					fill.MoveTo(qx, qy)
				} else {
					fill.LineTo(qx, qy)
				}
			}
			fill.ClosePath()
		}
		fill.Draw(p.mask, p.mask.Rect, image.Opaque, image.Point{})
		x += float64(o.Advance) * em / 1024
	}
	return x
}

func (p *press) width(s string, em float64) (w float64) {
	for _, c := range s {
		w += float64(p.chars[c].Advance) * em / 1024
	}
	return w
}

// formula renders a random formula and returns its LaTeX.
func (p *press) formula(r *rand.Rand, em float64) string {
	x, y := em, float64(p.mask.Rect.Dy())/2+0.3*em
	var out strings.Builder
	letter := func() string { return string("abcdefghknpqrstuwxyz"[r.IntN(20)]) }
	number := func() string { return strconv.Itoa(r.IntN(900) + 2) }
	for i := range r.IntN(3) + 1 {
		if i > 0 {
			op := string("+-="[r.IntN(3)])
			x = p.text(op, x+0.1*em, y, em) + 0.1*em
			out.WriteString(op)
		}
		switch r.IntN(3) {
		case 0:
			s := number()
			x = p.text(s, x, y, em)
			out.WriteString(s)
		case 1:
			a, n := letter(), strconv.Itoa(r.IntN(8)+2)
			x = p.text(a, x, y, em)
			x = p.text(n, x+0.05*em, y-0.42*em, 0.68*em) + 0.05*em
			out.WriteString(a + "^" + n)
		default:
			a, b := number(), letter()
			w := max(p.width(a, em), p.width(b, em)) + 0.2*em
			bar := y - 0.28*em
			p.text(a, x+(w-p.width(a, em))/2, bar-0.25*em, em)
			p.text(b, x+(w-p.width(b, em))/2, bar+0.95*em, em)
			draw.Draw(p.mask, image.Rect(int(x), int(bar), int(x+w), int(bar+max(1.5, em/14))), image.Opaque, image.Point{}, draw.Src)
			x += w + 0.1*em
			out.WriteString(`\frac{` + a + "}{" + b + "}")
		}
	}
	return out.String()
}

// TestReadFormula reads formulas in held-out fonts: MM_FORMULAS of them, by default a
// few.
func TestReadFormula(t *testing.T) {
	set, err := Letters()
	if err != nil {
		t.Fatal(err)
	}
	faces, err := fonts.HeldOut()
	if err != nil {
		t.Fatal(err)
	}
	n := 12
	if s := os.Getenv("MM_FORMULAS"); s != "" {
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(3, 5))
	for _, em := range []float64{16, 28, 48} {
		t.Run(fmt.Sprint(em), func(t *testing.T) {
			right, refused, signs, same := 0, 0, 0, 0
			for i := range n {
				w, h := int(26*em), int(5*em)
				p := &press{chars: faces[i%len(faces)].Glyphs, mask: image.NewAlpha(image.Rect(0, 0, w, h))}
				want := p.formula(r, em)
				pix := make([]byte, 0, 3*w*h)
				for _, a := range p.mask.Pix {
					v := uint8(250 - int(a)*9/10)
					pix = append(pix, v, v, v)
				}
				got, err := ReadFormula(free{}, set, pix, w, h)
				if err != nil {
					refused++
					continue
				}
				got = strings.ReplaceAll(got, " ", "")
				signs += len(want)
				same += len(want) - distance(want, got)
				if got == want {
					right++
				} else if n <= 30 {
					t.Logf("%s: %q, %v; want %q", faces[i%len(faces)].Name, got, err, want)
				}
			}
			t.Logf("em %v: %d of %d formulas right, %d refused, %.1f %% of the other %d characters", em, right, n, refused, 100*float64(same)/float64(signs), signs)
			if wrong := n - right - refused; 10*wrong > n {
				t.Errorf("%d of %d formulas are wrong", wrong, n)
			}
			if refused == n || 100*same < 85*signs {
				t.Errorf("%d of %d characters", same, signs)
			}
		})
	}
}

// distance returns the edit distance of two texts (Levenshtein 1966).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		last := row[0]
		row[0] = i + 1
		for j := range b {
			d := last
			if a[i] != b[j] {
				d++
			}
			last, row[j+1] = row[j+1], min(d, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(b)], len(a))
}
