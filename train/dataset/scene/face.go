package scene

import (
	"fmt"

	"mm-abi.org/mm/train/dataset/fonts"
)

// style is the style of a text.
type style struct {
	font  fonts.Font
	em    int // font size, in 1/256 of a pixel
	wide  int // width of the letters, of 256
	space int // letter spacing, in 1/1024 em
	angle int // in 1/1024 of a circle
}

// lettering is a text's outline.
type lettering struct {
	contours [][]point
	lo, hi   point // bounds of the ink
	signs    []sign
}

// sign is a letter and the center of its ink.
type sign struct {
	char rune
	at   point
}

// letter sets a text from the origin.
func (p *pen) letter(text string, st style) lettering {
	l := lettering{lo: point{1 << 30, 1 << 30}, hi: point{-1 << 30, -1 << 30}}
	x := 0
	for _, c := range text {
		g, ok := st.font.Glyphs[c]
		if !ok {
			panic(fmt.Sprintf("scene: %s has no %q", st.font.Name, c))
		}
		lo, hi := point{1 << 30, 1 << 30}, point{-1 << 30, -1 << 30}
		for _, contour := range g.Contours {
			out := make([]point, len(contour))
			for i, c := range contour {
				q := point{(x + c[0]) * st.em / fonts.Em * st.wide / 256, c[1] * st.em / fonts.Em}.rotated(st.angle)
				out[i] = q
				lo, hi = point{min(lo.x, q.x), min(lo.y, q.y)}, point{max(hi.x, q.x), max(hi.y, q.y)}
			}
			l.contours = append(l.contours, out)
		}
		l.signs = append(l.signs, sign{c, point{(lo.x + hi.x) / 2, (lo.y + hi.y) / 2}})
		l.lo, l.hi = point{min(l.lo.x, lo.x), min(l.lo.y, lo.y)}, point{max(l.hi.x, hi.x), max(l.hi.y, hi.y)}
		x += g.Advance + st.space
	}
	return l
}

func (l lettering) width() int  { return l.hi.x - l.lo.x }
func (l lettering) height() int { return l.hi.y - l.lo.y }

// moved moves each point of the lettering and returns it.
func (l lettering) moved(by point) lettering {
	for _, c := range l.contours {
		for i := range c {
			c[i] = point{c[i].x + by.x, c[i].y + by.y}
		}
	}
	for i := range l.signs {
		l.signs[i].at = point{l.signs[i].at.x + by.x, l.signs[i].at.y + by.y}
	}
	l.lo, l.hi = point{l.lo.x + by.x, l.lo.y + by.y}, point{l.hi.x + by.x, l.hi.y + by.y}
	return l
}
