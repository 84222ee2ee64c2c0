package figure

import (
	"image"
	"slices"
)

// item is an element of a line: a sign or a fraction.
type item struct {
	box       image.Rectangle
	sign      string // "=" or "-", identified by its parts
	over, low []item // numerator and denominator of a fraction
}

// line groups parts into items: fractions first, from the widest bar, then
// signs of several parts.
func line(list []part) []item {
	if bar := fraction(list); bar >= 0 {
		b := list[bar].Rectangle
		var over, under, rest []part
		for i, p := range list {
			middle := (p.Min.X + p.Max.X) / 2
			switch {
			case i == bar:
			case middle < b.Min.X || middle >= b.Max.X:
				rest = append(rest, p)
			case p.Max.Y <= b.Min.Y+1:
				over = append(over, p)
			case p.Min.Y >= b.Max.Y-1:
				under = append(under, p)
			default:
				rest = append(rest, p)
			}
		}
		f := item{box: b, over: line(over), low: line(under)}
		for _, it := range append(slices.Clone(f.over), f.low...) {
			f.box = f.box.Union(it.box)
		}
		return sortByX(append(line(rest), f))
	}
	return signs(list)
}

func sortByX(list []item) []item {
	slices.SortStableFunc(list, func(a, b item) int { return a.box.Min.X - b.box.Min.X })
	return list
}

// flat reports whether a part is a bar.
func (p part) flat() bool { return p.Dx() >= 3*p.Dy() }

// fraction returns the widest bar with parts above and below it, or -1.
func fraction(list []part) int {
	best := -1
	for i, b := range list {
		if !b.flat() || best >= 0 && b.Dx() <= list[best].Dx() {
			continue
		}
		above, below, twin := false, false, false
		for j, p := range list {
			middle := (p.Min.X + p.Max.X) / 2
			if j == i || middle < b.Min.X || middle >= b.Max.X {
				continue
			}
			near := b.Dx() + 4*b.Dy()
			switch {
			case p.flat() && p.Dx()*4 > b.Dx()*3 && p.Dx()*3 < b.Dx()*4 && abs(p.Min.Y-b.Min.Y) < b.Dx():
				twin = true // an equals sign
			case p.Max.Y <= b.Min.Y+1 && b.Min.Y-p.Max.Y < near:
				above = true
			case p.Min.Y >= b.Max.Y-1 && p.Min.Y-b.Max.Y < near:
				below = true
			}
		}
		if above && below && !twin {
			best = i
		}
	}
	return best
}

// signs combines parts above each other, such as the dot of an i or the bars
// of an equals sign.
func signs(list []part) []item {
	used := make([]bool, len(list))
	var out []item
	for i, p := range list {
		if used[i] {
			continue
		}
		it := item{box: p.Rectangle}
		for j := i + 1; j < len(list); j++ {
			q := list[j]
			overlap := min(it.box.Max.X, q.Max.X) - max(it.box.Min.X, q.Min.X)
			if used[j] || overlap*3 < min(it.box.Dx(), q.Dx()) {
				continue
			}
			gap := max(q.Min.Y-it.box.Max.Y, it.box.Min.Y-q.Max.Y)
			small := min(it.box.Dx(), q.Dx())
			if gap > max(it.box.Dy(), q.Dy(), small) { // an exponent above a sign is not a dot
				continue
			}
			both := part{it.box}.flat() && q.flat()
			dot := max(q.Dx(), q.Dy()) <= max(it.box.Dx(), it.box.Dy())/2+1 || max(it.box.Dx(), it.box.Dy()) <= max(q.Dx(), q.Dy())/2+1
			if gap > 0 && !both && !(dot && gap <= max(q.Dy(), it.box.Dy())/2+1) {
				continue
			}
			if both {
				it.sign = "="
			}
			it.box, used[j] = it.box.Union(q.Rectangle), true
		}
		if it.sign == "" && (part{it.box}).flat() {
			it.sign = "-"
		}
		out = append(out, it)
	}
	return sortByX(out)
}

func abs(n int) int { return max(n, -n) }
