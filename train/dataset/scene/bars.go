package scene

import "fmt"

// MeasuredBar is a bar that was found in a picture of a chart.
type MeasuredBar struct {
	Colour string
	Height int // of the highest bar's, in 1/1000
}

// HeightOf is how high a bar of a value is beside the highest, in 1/1000.
func HeightOf(value int, bars []Bar) int {
	highest := 1
	for _, b := range bars {
		highest = max(highest, b.Value)
	}
	return 1000 * value / highest
}

// Near says whether the bar is as high as wanted, within a twentieth of the
// highest bar.
func (b MeasuredBar) Near(height int) bool { return max(b.Height-height, height-b.Height) <= 50 }

// MeasureBars finds the bars of a chart [h, w, 3] by its pixels alone, from the
// left: what stands on the lowest long line and is wider than one. Nothing
// where there is no such line. It panics where rgb has another length.
func MeasureBars(rgb []byte, w, h int) []MeasuredBar {
	if w < 1 || h < 1 || len(rgb) != 3*w*h {
		panic(fmt.Sprintf("scene: %d bytes of a picture of %d × %d", len(rgb), w, h))
	}
	m := measurer{w: w, h: h, rgb: rgb, smooth: rgb}
	m.ground = m.edge()
	base, from, to := m.line()
	foot := base - max(2, h*4/128) // above the line, below the least bar's end
	if from == to || foot < 0 {
		return nil
	}
	for from < to && m.tall(from, foot) < h/3 { // the ticks, left of the axis
		from++
	}
	var bars []MeasuredBar
	most := 0
	for x := from + max(2, w/64); x < to; x++ {
		left := x
		for x < to && m.drawn(x, foot) {
			x++
		}
		if x-left < max(3, w/25) { // the axis
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

// line is the lowest row with a line over half of the picture, and the line's
// ends.
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

// tall is how many pixels are drawn on end from a row upwards.
func (m *measurer) tall(x, y int) int {
	n := 0
	for n <= y && m.drawn(x, y-n) {
		n++
	}
	return n
}

// top is the highest row of a bar's colour above its foot.
func (m *measurer) top(x, foot int, c rgb) int {
	far := distance(c, m.ground)
	y := foot
	for y > 0 && 2*distance(m.pixel(m.rgb, (y-1)*m.w+x), c) < far {
		y--
	}
	return y
}
