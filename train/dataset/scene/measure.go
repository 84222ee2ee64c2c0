package scene

import (
	"fmt"
	"image"
	"slices"
)

// Found is the result of Measure.
type Found struct {
	Shapes []Measured // in reading order of their places, then from the left
}

// Measured is a shape found in an image.
type Measured struct {
	Shape
	// Fit is the intersection over union of the figure and the outline of the
	// shape, in 1/1000: at least 960 for plain images of a Source, 700 under
	// heavy noise or blur, below 500 for other figures.
	Fit int
}

// seenFrom is the minimum distance of drawn pixels from the ground.
const seenFrom = minContrast / 2

// Measure finds the shapes in an image [h, w, 3] of a single ground by its
// pixels. Pixels that differ from the image's edge form connected figures. Each
// figure is named after the outline with the best fit, the shade nearest to its
// color, and the part of the image with its center of mass. Figures below a
// shape's area are noise. It panics if the length of rgb is wrong.
func Measure(rgb []byte, w, h int) Found {
	if w < 1 || h < 1 || len(rgb) != 3*w*h {
		panic(fmt.Sprintf("scene: %d bytes for an image of %d × %d", len(rgb), w, h))
	}
	m := measurer{w: w, h: h, rgb: rgb, pen: pen{size: max(w, h)}}
	m.ground = m.edge()
	m.smooth = blurred(nil, rgb, w, h)
	m.owner = make([]int32, w*h)
	side := min(w, h)
	least := max(side*side/400, 4) // the smallest star covers 1/230 of the image
	var found Found
	for at := range m.owner {
		if figure := m.flood(at); len(figure) >= least {
			if s, ok := m.name(figure); ok {
				found.Shapes = append(found.Shapes, s)
			}
		}
	}
	slices.SortStableFunc(found.Shapes, func(a, b Measured) int {
		if d := place(a.X, a.Y, w, h) - place(b.X, b.Y, w, h); d != 0 {
			return d
		}
		return a.X - b.X
	})
	return found
}

type measurer struct {
	w, h   int
	rgb    []byte
	smooth []byte // blurred rgb: noise forms no figures in it
	ground rgb
	owner  []int32 // figure of each pixel, from 1; 0: none yet
	last   int32
	pen    pen
}

func (m *measurer) pixel(pix []byte, at int) rgb { return rgb(pix[3*at : 3*at+3]) }

// edge returns the median color of the image's border, two pixels wide.
func (m *measurer) edge() rgb {
	var counts [3][256]int
	n := 0
	for y := range m.h {
		for x := range m.w {
			if x > 1 && x < m.w-2 && y > 1 && y < m.h-2 {
				continue
			}
			for c, v := range m.pixel(m.rgb, y*m.w+x) {
				counts[c][v]++
			}
			n++
		}
	}
	var median rgb
	for c := range median {
		for seen, v := 0, 0; v < 256; v++ {
			if seen += counts[c][v]; 2*seen >= n {
				median[c] = uint8(v)
				break
			}
		}
	}
	return median
}

// flood returns the pixels of the figure of a pixel, nil if it is ground or
// already found.
func (m *measurer) flood(at int) []int {
	drawn := func(at int) bool {
		return m.owner[at] == 0 && distance(m.pixel(m.smooth, at), m.ground) >= seenFrom
	}
	if !drawn(at) {
		return nil
	}
	m.last++
	m.owner[at] = m.last
	figure := []int{at}
	for i := 0; i < len(figure); i++ {
		x, y := figure[i]%m.w, figure[i]/m.w
		for ny := max(y-1, 0); ny <= min(y+1, m.h-1); ny++ {
			for nx := max(x-1, 0); nx <= min(x+1, m.w-1); nx++ {
				if to := ny*m.w + nx; drawn(to) {
					m.owner[to] = m.last
					figure = append(figure, to)
				}
			}
		}
	}
	return figure
}

// colour returns the mean of the figure's pixels that differ most from the
// ground: those at its rim are mixed with it.
func (m *measurer) colour(figure []int) rgb {
	most := 0
	for _, at := range figure {
		most = max(most, distance(m.pixel(m.smooth, at), m.ground))
	}
	var sum [3]int
	n := 0
	for _, at := range figure {
		if c := m.pixel(m.smooth, at); distance(c, m.ground)*10 >= most*9 {
			sum[0], sum[1], sum[2], n = sum[0]+int(c[0]), sum[1]+int(c[1]), sum[2]+int(c[2]), n+1
		}
	}
	return rgb{uint8(sum[0] / n), uint8(sum[1] / n), uint8(sum[2] / n)}
}

// name classifies a figure.
func (m *measurer) name(figure []int) (Measured, bool) {
	c := m.colour(figure)
	var to [3]int // from ground to color
	length := 0
	for i := range to {
		to[i] = int(c[i]) - int(m.ground[i])
		length += to[i] * to[i]
	}
	// Coverage of each pixel by the figure, of 255, including one pixel around
	// it.
	box := image.Rectangle{}
	for _, at := range figure {
		box = box.Union(image.Rect(at%m.w-1, at/m.w-1, at%m.w+2, at/m.w+2))
	}
	box = box.Intersect(image.Rect(0, 0, m.w, m.h))
	cover := make([]uint8, box.Dx()*box.Dy())
	var area, mx, my int64
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			if o := m.owner[y*m.w+x]; o != 0 && o != m.owner[figure[0]] || !m.near(x, y, m.owner[figure[0]]) {
				continue
			}
			along := 0
			for i, v := range m.pixel(m.rgb, y*m.w+x) {
				along += (int(v) - int(m.ground[i])) * to[i]
			}
			a := int64(min(max(along*255/length, 0), 255))
			if a < 40 { // texture and noise of the ground
				continue
			}
			cover[(y-box.Min.Y)*box.Dx()+x-box.Min.X] = uint8(a)
			area, mx, my = area+a, mx+a*int64(2*x+1), my+a*int64(2*y+1)
		}
	}
	if area == 0 {
		return Measured{}, false
	}
	centre := point{int(mx * unit / 2 / area), int(my * unit / 2 / area)}
	best := Measured{}
	best.Colour, best.X, best.Y = nearest(c), centre.x>>8, centre.y>>8
	best.Place = places[place(best.X, best.Y, m.w, m.h)]
	for _, o := range outlines {
		r := int(sqrt(area * unit * unit / 255 * full * full / o.area()))
		for angle := -30; angle <= 30; angle += 15 {
			if fit := m.fit(o.placed(centre, r, angle), cover, box); fit > best.Fit {
				best.Fit, best.Shape.Shape, best.R = fit, o.name, r>>8
			}
		}
	}
	best.Size = "small"
	if best.R*128 > (small+big)/2/unit*min(m.w, m.h) {
		best.Size = "big"
	}
	return best, best.Fit > 0
}

// near reports whether a pixel or one of its neighbors is in the figure.
func (m *measurer) near(x, y int, figure int32) bool {
	for ny := max(y-1, 0); ny <= min(y+1, m.h-1); ny++ {
		if slices.Contains(m.owner[ny*m.w+max(x-1, 0):ny*m.w+min(x+1, m.w-1)+1], figure) {
			return true
		}
	}
	return false
}

// fit returns the intersection over union of contours and the coverage of a box
// by a figure, in 1/1000.
func (m *measurer) fit(contours [][]point, cover []uint8, in image.Rectangle) int {
	drawn, mask := m.pen.coverage(contours)
	both, any := 0, 0
	for y := in.Min.Y; y < in.Max.Y; y++ {
		for x := in.Min.X; x < in.Max.X; x++ {
			a, b := cover[(y-in.Min.Y)*in.Dx()+x-in.Min.X], uint8(0)
			if image.Pt(x, y).In(drawn) {
				b = mask.Pix[(y-drawn.Min.Y)*drawn.Dx()+x-drawn.Min.X]
			}
			both, any = both+int(min(a, b)), any+int(max(a, b))
		}
	}
	if mask != nil { // outside of the box there is only the outline
		for y := drawn.Min.Y; y < drawn.Max.Y; y++ {
			for x := drawn.Min.X; x < drawn.Max.X; x++ {
				if !image.Pt(x, y).In(in) {
					any += int(mask.Pix[(y-drawn.Min.Y)*drawn.Dx()+x-drawn.Min.X])
				}
			}
		}
	}
	if any == 0 {
		return 0
	}
	return both * 1000 / any
}

// area returns the area of the outline in squared units. Holes have the
// opposite orientation and are subtracted.
func (o outline) area() int64 {
	var sum int64
	for _, c := range o.contours {
		for i, a := range c {
			b := c[(i+1)%len(c)]
			sum += int64(a.x)*int64(b.y) - int64(b.x)*int64(a.y)
		}
	}
	return max(sum, -sum) / 2
}

// nearest returns the name of the color with the nearest shade.
func nearest(c rgb) string {
	name, least := "", 1<<30
	for _, n := range colours {
		for _, list := range [][]rgb{n.train, n.held} {
			for _, s := range list {
				if d := distance(s, c); d < least {
					name, least = n.name, d
				}
			}
		}
	}
	return name
}
