package scene

import (
	"fmt"
	"slices"
	"strings"
)

// full is the distance of an outline's farthest point from its center.
const full = 4096

// outline is a shape around its center of mass.
type outline struct {
	name     string
	contours [][]point
}

// outlines are the drawn and measured shapes.
var outlines = []outline{
	centred("circle", round(full, 1)),
	centred("square", []point{{full, full}, {-full, full}, {-full, -full}, {full, -full}}),
	centred("triangle", corners(3, full, full/2)),
	centred("star", corners(5, full, full*2/5)),
	centred("ring", round(full, 1), round(full*11/20, -1)),
	centred("cross", cross(full/3, full)),
	centred("heart", heart()),
	centred("diamond", []point{{0, full}, {-full * 5 / 8, 0}, {0, -full}, {full * 5 / 8, 0}}),
}

// round returns a circle of 64 corners, clockwise or, if way is -1,
// counterclockwise.
func round(r, way int) []point {
	var c []point
	for i := range 64 {
		c = append(c, point{r * cos(way*i*turn/64) >> 15, r * sin(way*i*turn/64) >> 15})
	}
	return c
}

// corners returns a star of n rays, the first one upwards; it is a polygon if
// the inner radius is that of its sides.
func corners(n, outer, inner int) []point {
	var c []point
	for i := range 2 * n {
		r, a := outer, i*turn/(2*n)-turn/4
		if i%2 == 1 {
			r = inner
		}
		c = append(c, point{r * cos(a) >> 15, r * sin(a) >> 15})
	}
	return c
}

// cross returns a cross with arms of length l and width 2w.
func cross(w, l int) []point {
	return []point{{w, l}, {-w, l}, {-w, w}, {-l, w}, {-l, -w}, {-w, -w}, {-w, -l}, {w, -l}, {w, -w}, {l, -w}, {l, w}, {w, w}}
}

// heart returns x = 16 sin³ t, y = -(13 cos t - 5 cos 2t - 2 cos 3t - cos 4t).
func heart() []point {
	var c []point
	for i := range 64 {
		t := i * turn / 64
		s := sin(t)
		c = append(c, point{2 * (s * s >> 15 * s >> 15), -(13*cos(t) - 5*cos(2*t) - 2*cos(3*t) - cos(4*t)) / 8})
	}
	return c
}

// centred moves the center of mass of contours to the origin and scales the
// farthest point to full.
func centred(name string, contours ...[]point) outline {
	var area, mx, my int64 // of the outer contour: holes are concentric
	for i, a := range contours[0] {
		b := contours[0][(i+1)%len(contours[0])]
		cross := int64(a.x)*int64(b.y) - int64(b.x)*int64(a.y)
		area, mx, my = area+cross, mx+int64(a.x+b.x)*cross, my+int64(a.y+b.y)*cross
	}
	cx, cy, far := mx/(3*area), my/(3*area), int64(0)
	for _, q := range contours[0] {
		dx, dy := int64(q.x)-cx, int64(q.y)-cy
		far = max(far, sqrt(dx*dx+dy*dy))
	}
	o := outline{name: name}
	for _, c := range contours {
		out := make([]point, len(c))
		for i, q := range c {
			out[i] = point{int((int64(q.x) - cx) * full / far), int((int64(q.y) - cy) * full / far)}
		}
		o.contours = append(o.contours, out)
	}
	return o
}

// placed returns the outline around a point, with the farthest point at
// distance r, rotated; all in 1/256 of a pixel.
func (o outline) placed(centre point, r, angle int) [][]point {
	out := make([][]point, len(o.contours))
	for i, c := range o.contours {
		out[i] = make([]point, len(c))
		for k, q := range c {
			q = q.rotated(angle)
			out[i][k] = point{centre.x + q.x*r/full, centre.y + q.y*r/full}
		}
	}
	return out
}

// ShapeNames lists the shapes.
func ShapeNames() []string {
	names := make([]string, len(outlines))
	for i, o := range outlines {
		names[i] = o.name
	}
	return names
}

// places are the nine parts of an image, in reading order.
var places = [9]string{"top left", "top", "top right", "left", "middle", "right", "bottom left", "bottom", "bottom right"}

// place returns the part of an image of w × h with a point.
func place(x, y, w, h int) int {
	return min(max(3*y/h, 0), 2)*3 + min(max(3*x/w, 0), 2)
}

// Radii of small and big shapes for 128 pixels, in 1/256 of a pixel.
const (
	smallest, small = 9 * unit, 12 * unit
	big, biggest    = 16 * unit, 19 * unit
)

// shapes draws one to three shapes.
func (p *pen) shapes() Scene {
	ground := p.ground(true)
	seen := against(ground)
	var t Truth
	used := map[[2]string]bool{}
	cells := []int{0, 1, 2, 3, 4, 5, 6, 7, 8}
	shuffle(&p.dice, cells)
	for _, cell := range cells[:p.span(1, 3)] {
		o, colour := pick(&p.dice, outlines), pick(&p.dice, seen)
		for used[[2]string{o.name, colour}] {
			o, colour = pick(&p.dice, outlines), pick(&p.dice, seen)
		}
		used[[2]string{o.name, colour}] = true
		s := Shape{Shape: o.name, Colour: colour, Place: places[cell], Size: "small"}
		r := p.span(smallest, small)
		if p.one(2) {
			s.Size, r = "big", p.span(big, biggest)
		}
		r = p.px(r)
		c := p.inside(cell, r)
		angle := 0
		if !p.plain {
			angle = p.span(-30, 30)
		}
		p.paint(o.placed(c, r, angle), p.shade(colour))
		p.mark(o.name, colour, c, 0)
		s.X, s.Y, s.R = c.x>>8, c.y>>8, r>>8
		t.Shapes = append(t.Shapes, s)
	}
	slices.SortFunc(t.Shapes, func(a, b Shape) int {
		return slices.Index(places[:], a.Place) - slices.Index(places[:], b.Place)
	})
	for i := range p.marks {
		m := &p.marks[i]
		m.Slot = (slices.IndexFunc(t.Shapes, func(s Shape) bool { return s.X == m.X && s.Y == m.Y })+1)*Row + shapeName
	}
	p.finish()
	sc := Scene{Truth: t, Caption: caption(t.Shapes)}
	sc.Questions = p.aboutShapes(t.Shapes)
	if p.plain {
		sc.Draw = p.askShapes(t.Shapes)
	}
	return sc
}

// inside returns a point of a cell, clearly within the cell and far enough from
// its border that a shape of radius r is clear of the image's edge and of
// shapes in other cells.
func (p *pen) inside(cell, r int) point {
	third := p.size * unit / 3
	// Two big shapes in adjacent cells need a distance of 2r.
	free := max(min(third/2-r-unit, third/6), p.px(unit/2))
	if p.plain {
		free /= 4
	}
	x, y := third/2+cell%3*third, third/2+cell/3*third
	return point{x + p.span(-free, free), y + p.span(-free, free)}
}

// caption describes shapes in reading order.
func caption(shapes []Shape) string {
	parts := make([]string, len(shapes))
	for i, s := range shapes {
		parts[i] = article(s.Colour) + " " + s.Shape
	}
	return listed(parts)
}

// listed joins parts with commas and "and".
func listed(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}

// article prefixes a word with "a" or "an".
func article(word string) string {
	if strings.ContainsRune("aeiou", rune(word[0])) {
		return "an " + word
	}
	return "a " + word
}

// askShapes returns a prompt for these shapes.
func (p *pen) askShapes(shapes []Shape) string {
	parts := make([]string, len(shapes))
	for i, s := range shapes {
		parts[i] = fmt.Sprintf("%s %s %s at the %s", article(s.Size), s.Colour, s.Shape, s.Place)
	}
	return pick(&p.dice, []string{"draw ", "please draw ", "make a picture of ", "paint "}) + listed(parts)
}
