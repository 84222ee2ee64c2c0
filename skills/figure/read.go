package figure

import (
	"image"
	"math"
	"strings"
)

// alphabet holds the supported characters.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+=-/!%?,.:"

// minPrint is the least side of an image of print.
const minPrint = 8

// The certainty of a formula: the least score of its signs, agreement times the share
// of fonts that read the same, and the least lead of a sign over the next one, at most
// leadCap. Of 450 formulas of other seeds than those of the tests, on which the numbers
// were chosen, 195 are certain and right, 10 certain and wrong.
const (
	printAgreement = 0.3
	leadCap        = 0.2
	printCertain   = 0.78
)

// holeCost is subtracted from the score of a sign with another number of holes than
// the ink.
const holeCost = 0.1

// inked is the level of ink around a hole.
const inked = 0.5

// reader reads in one font.
type reader struct {
	set    *Set
	ink    *Ink
	face   int
	pieces map[image.Rectangle]*Piece
	sum    float64 // of the scores of signs
	n      int
	least  float64 // of the scores
	lead   float64 // the least one of a score over the next
}

// ReadFormula reads an image [h, w, 3]. Lines of print are separated by \\.
func ReadFormula(c charge, set *Set, pix []byte, w, h int) (string, error) {
	if w < minPrint || h < minPrint || len(pix) != 3*w*h {
		return "", faultf("image of %d × %d is too small for print", w, h)
	}
	if err := c.Hold(int64(w) * int64(h) * 24); err != nil {
		return "", err
	}
	if err := c.Step(int64(w) * int64(h) * 8); err != nil {
		return "", err
	}
	ink, err := inkOf(pix, w, h)
	if err != nil {
		return "", err
	}
	all, err := parts(c, ink)
	if err != nil {
		return "", err
	}
	var lines [][]item
	if fraction(all) >= 0 {
		lines = [][]item{line(all)}
	} else {
		lines = rows(all)
	}
	best, sure, text := math.Inf(-1), 0.0, ""
	votes := map[string]int{} // faces by the text that they read
	pieces := map[image.Rectangle]*Piece{}
	for face := range set.Faces {
		r := &reader{set: set, ink: ink, face: face, pieces: pieces, least: math.Inf(1), lead: leadCap}
		var out []string
		for _, l := range lines {
			out = append(out, r.line(l))
		}
		read := strings.Join(out, ` \\ `)
		votes[read]++
		if r.n > 0 && r.sum/float64(r.n) > best {
			best, sure, text = r.sum/float64(r.n), r.least+r.lead, read
		}
		if err := c.Step(int64(len(all)) * 20_000); err != nil {
			return "", err
		}
	}
	share := float64(votes[text]) / float64(len(set.Faces))
	if best < 0.4 || sure+printAgreement*share < printCertain {
		return "", faultf("illegible print")
	}
	return text, nil
}

// rows groups parts into lines of print by overlapping heights.
func rows(all []part) [][]item {
	var out [][]part
	var spans []image.Rectangle
	tall := 0
	for _, p := range all {
		tall = max(tall, p.Dy())
	}
	for _, p := range all {
		at := -1
		for i, s := range spans {
			if p.Min.Y < s.Max.Y+tall/3 && s.Min.Y < p.Max.Y+tall/3 {
				at = i
				break
			}
		}
		if at < 0 {
			at, out, spans = len(out), append(out, nil), append(spans, p.Rectangle)
		}
		out[at], spans[at] = append(out[at], p), spans[at].Union(p.Rectangle)
	}
	lines := make([][]item, len(out))
	for i := range out {
		k := i
		for j := range out { // from the top
			if j != i && spans[j].Min.Y < spans[i].Min.Y && j > i {
				k++
			} else if j != i && spans[j].Min.Y >= spans[i].Min.Y && j < i {
				k--
			}
		}
		lines[k] = line(out[i])
	}
	return lines
}

// line formats the items of a line.
func (r *reader) line(items []item) string { return r.sized(items, 0) }

// sized formats the items of a line whose capitals have at least a height.
func (r *reader) sized(items []item, least float64) string {
	if len(items) == 0 {
		return ""
	}
	base, tall := measure(items)
	tall = max(tall, least)
	var b strings.Builder
	last := image.Rectangle{}
	for i := 0; i < len(items); {
		it := items[i]
		if gap := it.box.Min.X - last.Max.X; i > 0 && float64(gap) > 0.45*tall {
			b.WriteString(" ")
		}
		last = it.box
		where := place(it, base, tall)
		if where == 0 || i == 0 {
			b.WriteString(r.item(it, base, tall))
			i++
			continue
		}
		j := i
		for j < len(items) && place(items[j], base, tall) == where {
			last = items[j].box
			j++
		}
		inner := r.line(items[i:j])
		if len(inner) > 1 {
			inner = "{" + inner + "}"
		}
		b.WriteString(map[int]string{1: "^", -1: "_"}[where] + inner)
		i = j
	}
	return b.String()
}

// capitals returns the height of the capitals of a line, 0 if it is empty.
func capitals(items []item) float64 {
	if len(items) == 0 {
		return 0
	}
	_, tall := measure(items)
	return tall
}

// measure returns the baseline of a line and the height of its capitals. The
// baseline is the most frequent one of tall items, of several the lowest.
func measure(items []item) (base, tall float64) {
	for _, it := range items {
		if it.over == nil && it.sign == "" {
			tall = max(tall, float64(it.box.Dy()))
		}
	}
	if tall == 0 { // only signs and fractions
		for _, it := range items {
			tall = max(tall, float64(it.box.Dx()))
		}
	}
	most := 0
	for _, it := range items { // the most frequent baseline, of several the lowest
		if it.over != nil || it.sign != "" || float64(it.box.Dy()) <= 0.6*tall {
			continue
		}
		n, sum := 0, 0.0
		for _, o := range items {
			if y := float64(o.box.Max.Y); o.over == nil && o.sign == "" && float64(o.box.Dy()) > 0.6*tall && math.Abs(y-float64(it.box.Max.Y)) < 0.12*tall {
				n, sum = n+1, sum+y
			}
		}
		if mean := sum / float64(n); n > most || n == most && mean > base {
			most, base = n, mean
		}
	}
	if most == 0 {
		return float64(items[0].box.Max.Y), tall
	}
	return base, tall
}

// place returns 1 for small high items, -1 for small low ones, otherwise 0.
func place(it item, base, tall float64) int {
	if it.over != nil || it.sign != "" && float64(it.box.Dx()) > 0.45*tall {
		return 0
	}
	top, bottom := base-float64(it.box.Min.Y), base-float64(it.box.Max.Y)
	switch {
	case float64(it.box.Dy()) > 0.85*tall:
		return 0
	case it.sign == "-" && top > 0.8*tall:
		return 1
	case it.sign == "" && bottom > 0.3*tall && top > 0.75*tall && float64(it.box.Dy()) > 0.25*tall:
		return 1
	case it.sign == "" && bottom < -0.1*tall && top < 0.6*tall && float64(it.box.Dy()) > 0.35*tall:
		return -1
	}
	return 0
}

// item formats a sign or a fraction.
func (r *reader) item(it item, base, tall float64) string {
	if it.over != nil || it.low != nil {
		both := max(capitals(it.over), capitals(it.low)) // one size
		return `\frac{` + r.sized(it.over, both) + "}{" + r.sized(it.low, both) + "}"
	}
	if it.sign != "" {
		return it.sign
	}
	p := r.pieces[it.box]
	if p == nil {
		piece := r.ink.Piece(it.box)
		p = &piece
		r.pieces[it.box] = p
	}
	// The height over the baseline distinguishes o from O and a comma from a
	// slash: capitals have about 0.7 em.
	em := tall / 0.72
	top, bottom := (base-float64(it.box.Min.Y))/em, (base-float64(it.box.Max.Y))/em
	holes := r.ink.Holes(it.box, inked)
	best, next, sign := math.Inf(-1), math.Inf(-1), ""
	r.set.Each(p, r.face, alphabet, func(g Guess) {
		score := g.Score - 0.6*math.Abs(top-g.Char.Top) - 0.6*math.Abs(bottom-g.Char.Bottom)
		if least, most := Holes(g.Char.Rune); holes < least || holes > most {
			score -= holeCost
		}
		if score > best {
			best, next, sign = score, best, string(g.Char.Rune)
		} else {
			next = max(next, score)
		}
	})
	r.lead = min(r.lead, best-next)
	r.sum, r.n, r.least = r.sum+best, r.n+1, min(r.least, best)
	if sign == "%" {
		return `\%`
	}
	return sign
}
