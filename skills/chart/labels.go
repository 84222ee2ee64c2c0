package chart

import (
	"image"
	"math"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/skills/glyph"
)

// Characters of labels.
const (
	upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lower = "abcdefghijklmnopqrstuvwxyz"
)

// labels reads the text below each bar, in the font and the case in which it
// matches best on average. A bar without text is named "bar 2".
func (v *view) labels(bars []bar) ([]string, error) {
	lines := make([]image.Rectangle, len(bars))
	tall := 0
	for i, b := range bars {
		lines[i] = v.below(bars, i)
		tall = max(tall, lines[i].Dy())
		if err := v.c.Step(int64(b.to-b.from) * int64(v.h)); err != nil {
			return nil, err
		}
	}
	best, out := -1.0, make([]string, len(bars))
	for face := range v.set.Faces {
		for _, alphabet := range []string{upper, lower, "0123456789"} {
			sum, n := 0.0, 0
			texts := make([]string, len(bars))
			for i, line := range lines {
				text, score, count := v.text(line, tall, face, alphabet)
				texts[i], sum, n = text, sum+score, n+count
			}
			if n > 0 && sum/float64(n) > best {
				best, out = sum/float64(n), texts
			}
		}
		if err := v.c.Step(int64(len(bars)) * 40_000); err != nil {
			return nil, err
		}
	}
	for i := range out {
		if out[i] == "" {
			out[i] = "bar " + strconv.Itoa(i+1)
		}
	}
	return out, nil
}

// below returns the bounds of the first line of text below a bar.
func (v *view) below(bars []bar, i int) image.Rectangle {
	middle := (bars[i].from + bars[i].to) / 2
	left, right := v.axis, v.w
	if i > 0 {
		left = (bars[i-1].from + bars[i-1].to + 2*middle) / 4
	}
	if i+1 < len(bars) {
		right = (bars[i+1].from + bars[i+1].to + 2*middle) / 4
	} else {
		right = min(right, 2*middle-left+2)
	}
	if i == 0 && len(bars) > 1 {
		left = max(0, 2*middle-right-2)
	}
	top := v.base + 1
	for top < v.h && v.row(top, left, right) > (right-left)/2 { // the axis
		top++
	}
	lines := v.ink.Lines(image.Rect(left, top, right, v.h), written)
	out := image.Rectangle{}
	for _, l := range lines {
		switch {
		case out.Empty() && l.Dy() >= max(3, v.h/60):
			out = l
		case out.Empty(): // the dot of an i, or a tick
			if l.Dy() >= 1 && l.Min.Y > v.base+v.h/40 {
				out = l
			}
		case l.Min.Y-out.Max.Y <= max(1, v.h/60) && l.Max.Y-out.Min.Y < v.h/8:
			out = out.Union(l)
		}
	}
	return out
}

func (v *view) row(y, left, right int) int {
	n := 0
	for x := left; x < right; x++ {
		if v.ink.At(x, y) > written {
			n++
		}
	}
	return n
}

// text reads a line in one font and returns the sum of its characters' scores.
func (v *view) text(line image.Rectangle, tall, face int, alphabet string) (text string, score float64, n int) {
	if line.Empty() {
		return "", 0, 0
	}
	var b strings.Builder
	for _, r := range v.ink.Columns(line, written) {
		for _, g := range v.letters(r, face, alphabet) {
			b.WriteRune(g.Char.Rune)
			score += g.Score
			n++
		}
	}
	return b.String(), score, n
}

// letters reads connected ink as one letter, or as two if that matches better.
func (v *view) letters(r image.Rectangle, face int, alphabet string) []glyph.Guess {
	one := v.letter(r, face, alphabet)
	if r.Dx() < r.Dy()*3/4 || one.Score > 0.85 {
		return []glyph.Guess{one}
	}
	best, least := []glyph.Guess{one}, one.Score+0.06
	for _, h := range v.cuts(r) {
		a, b := v.letter(h[0], face, alphabet), v.letter(h[1], face, alphabet)
		if mean := (a.Score + b.Score) / 2; mean > least {
			best, least = []glyph.Guess{a, b}, mean
		}
	}
	return best
}

// cuts returns the ways to split ink into two letters: at the columns with the
// least of it.
func (v *view) cuts(r image.Rectangle) [][2]image.Rectangle {
	if out, ok := v.halves[r]; ok {
		return out
	}
	weight := func(x int) (sum float32) {
		for y := r.Min.Y; y < r.Max.Y; y++ {
			sum += v.ink.At(x, y)
		}
		return sum
	}
	var columns []int
	for x := r.Min.X + r.Dx()/4; x <= r.Max.X-r.Dx()/4; x++ {
		columns = append(columns, x)
	}
	slices.SortStableFunc(columns, func(a, b int) int {
		if d := weight(a) - weight(b); d != 0 {
			return int(math.Copysign(1, float64(d)))
		}
		return 0
	})
	out := [][2]image.Rectangle{}
	for _, x := range columns[:min(3, len(columns))] {
		left := v.ink.Bounds(image.Rect(r.Min.X, r.Min.Y, x, r.Max.Y), written)
		right := v.ink.Bounds(image.Rect(x, r.Min.Y, r.Max.X, r.Max.Y), written)
		if left.Dx() >= 2 && right.Dx() >= 2 {
			out = append(out, [2]image.Rectangle{left, right})
		}
	}
	v.halves[r] = out
	return out
}

func (v *view) letter(r image.Rectangle, face int, alphabet string) glyph.Guess {
	p := v.pieces[r]
	if p == nil {
		piece := v.ink.Piece(r)
		p = &piece
		v.pieces[r] = p
	}
	return v.set.Match(p, face, alphabet)
}
