package scene

import "strconv"

// axes is the position, in units, and style of a chart's axes.
type axes struct {
	left, right, top, bottom int
	scale                    scale
	ink                      rgb
	line                     int // width
}

// at returns the row of a value.
func (ax axes) at(v int) int { return ax.bottom - (ax.bottom-ax.top)*v/ax.scale.top }

// tick draws the mark and the number of a value left of the axis.
func (p *pen) tick(ax axes, v int, st style) {
	y := ax.at(v)
	p.paint(box(ax.left-p.px(3*unit), y-ax.line/2, ax.left, y+ax.line/2), ax.ink)
	l := p.letter(strconv.Itoa(v), st)
	p.write(l.moved(point{ax.left - p.px(4*unit) - l.hi.x, y - (l.lo.y+l.hi.y)/2}), ax.ink, "", 0)
}

// bar draws bar i from x, with its label below the axis.
func (p *pen) bar(ax axes, i, x, wide int, b Bar, paint rgb, label lettering) {
	y, middle := ax.at(b.Value), x+wide/2
	p.paint(box(x, y, x+wide, ax.bottom), paint)
	p.mark(BarTop, b.Colour, point{middle, y}, (i+1)*Row+barValue)
	p.write(label.moved(point{middle - (label.lo.x+label.hi.x)/2, ax.bottom + p.px(12*unit)}), ax.ink, "", (i+1)*Row)
}

// lines draws the axes.
func (p *pen) lines(ax axes) {
	p.paint(box(ax.left-ax.line/2, ax.top, ax.left+ax.line/2, ax.bottom+ax.line/2), ax.ink)
	p.paint(box(ax.left-ax.line/2, ax.bottom-ax.line/2, ax.right, ax.bottom+ax.line/2), ax.ink)
}
