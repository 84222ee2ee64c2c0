package scene

import "fmt"

// MeasuredBar is a bar found in the image of a chart.
type MeasuredBar struct {
	Colour string
	Height int // relative to the highest bar, in 1/1000
}

// HeightOf returns the height of a bar of a value relative to the highest, in
// 1/1000.
func HeightOf(value int, bars []Bar) int {
	highest := 1
	for _, b := range bars {
		highest = max(highest, b.Value)
	}
	return 1000 * value / highest
}

// Near reports whether the bar has the height within a twentieth of the highest
// bar.
func (b MeasuredBar) Near(height int) bool { return max(b.Height-height, height-b.Height) <= 50 }

// MeasureBars finds the bars of a chart [h, w, 3] by its pixels, from the left:
// the figures on the lowest long line that are wider than a line. Without such
// a line it returns nil. It panics if the length of rgb is wrong.
func MeasureBars(rgb []byte, w, h int) []MeasuredBar {
	if w < 1 || h < 1 || len(rgb) != 3*w*h {
		panic(fmt.Sprintf("scene: %d bytes for an image of %d × %d", len(rgb), w, h))
	}
	m := measurer{w: w, h: h, rgb: rgb, smooth: rgb}
	m.ground = m.edge()
	base, from, to := m.line()
	foot := base - max(2, h*4/128) // above the line, below the end of the lowest bar
	if from == to || foot < 0 {
		return nil
	}
	for from < to && m.tall(from, foot) < h/3 { // skip the ticks left of the axis
		from++
	}
	var bars []MeasuredBar
	most := 0
	for x := from + max(2, w/64); x < to; x++ {
		left := x
		for x < to && m.drawn(x, foot) {
			x++
		}
		if x-left < max(3, w/25) { // skip the axis
			continue
		}
		c := m.colour([]int{foot*w + (left+x)/2})
		top := m.top((left+x)/2, foot, c)
		bars = append(bars, MeasuredBar{nearest(c), base - top})
		most = max(most, base-top)
	}
	for i := range bars {
		bars[i].Height = bars[i].Height * 1000 / most
	}
	return bars
}

func (m *measurer) drawn(x, y int) bool {
	return distance(m.pixel(m.rgb, y*m.w+x), m.ground) >= seenFrom
}

// line returns the lowest row with a line over half of the image, and the
// line's ends.
func (m *measurer) line() (row, from, to int) {
	for y := m.h - 1; y >= 0; y-- {
		for x := 0; x < m.w; x++ {
			left := x
			for x < m.w && m.drawn(x, y) {
				x++
			}
			if x-left > m.w/2 {
				return y, left, x
			}
		}
	}
	return 0, 0, 0
}

// tall returns the number of consecutive drawn pixels from a row upwards.
func (m *measurer) tall(x, y int) int {
	n := 0
	for n <= y && m.drawn(x, y-n) {
		n++
	}
	return n
}

// top returns the highest row of a bar's color above its foot.
func (m *measurer) top(x, foot int, c rgb) int {
	far := distance(c, m.ground)
	y := foot
	for y > 0 && 2*distance(m.pixel(m.rgb, (y-1)*m.w+x), c) < far {
		y--
	}
	return y
}
