package figure

import (
	"image"
	"math"
	"slices"
	"strconv"
)

// Limits and thresholds of an image of a chart.
const (
	minSide = 48
	enough  = 256  // pixels of a side; smaller images are enlarged
	written = 0.28 // share of the axis's ink that counts as a letter, whose strokes may be thin
)

// view is an image of a chart and its analysis.
type view struct {
	c      charge
	set    *Set
	w, h   int
	pix    []byte     // [h, w, 3]
	ground [3]float64 // background color
	dark   float64    // distance of the axes' color from the ground
	ink    *Ink       // 1: the distance of the axes

	base, from, to int // the lower axis: row, first column, end
	axis, roof     int // the left axis: first column, top row

	pieces map[image.Rectangle]*Piece // of labels
	// The row of the labels' baseline, and their size in pixels per em.
	baseline, em float64
	halves       map[image.Rectangle][][2]image.Rectangle
}

// bar is a bar: its columns and its top, with subpixel precision.
type bar struct {
	from, to int
	top      float64
}

// ReadChart reads a bar chart [h, w, 3]: bars on a horizontal axis, a vertical axis
// on the left with ticks and numbers from 0, and labels below. Anything else
// is an error.
func ReadChart(c charge, set *Set, pix []byte, w, h int) (Table, error) {
	if w < minSide || h < minSide || len(pix) != 3*w*h {
		return Table{}, faultf("image of %d × %d is too small for a chart", w, h)
	}
	if err := c.Hold(int64(w) * int64(h) * 8); err != nil {
		return Table{}, err
	}
	if err := c.Step(int64(w) * int64(h) * 16); err != nil {
		return Table{}, err
	}
	for n := 0; min(w, h) < enough && n < 2; n++ { // letters of six pixels match better at twelve
		pix, w, h = double(pix, w, h)
		if err := c.Step(int64(w) * int64(h) * 16); err != nil {
			return Table{}, err
		}
	}
	v := &view{c: c, set: set, w: w, h: h, pix: pix, pieces: map[image.Rectangle]*Piece{}, halves: map[image.Rectangle][][2]image.Rectangle{}}
	v.findGround()
	if err := v.findAxes(); err != nil {
		return Table{}, err
	}
	bars, err := v.bars()
	if err != nil {
		return Table{}, err
	}
	ticks := v.ticks()
	if len(ticks) < 2 {
		return Table{}, faultf("no ticks on the left axis")
	}
	step, err := v.scale(ticks)
	if err != nil {
		return Table{}, err
	}
	last := float64(len(ticks) - 1)
	pixels := ticks[0] - ticks[len(ticks)-1] // rows from 0 to the highest tick
	var t Table
	for _, b := range bars {
		value := (ticks[0] - b.top) / pixels * step * last
		t.Values = append(t.Values, roundTo(value, step*last/pixels))
	}
	t.Labels, err = v.labels(bars)
	return t, err
}

// double returns an image of twice the width and height with interpolated
// pixels.
func double(pix []byte, w, h int) ([]byte, int, int) {
	out := make([]byte, 12*w*h)
	for y := range 2 * h {
		near, other := y/2, min(h-1, y/2+1) // weights 3 and 1
		if y%2 == 0 {
			other = max(0, y/2-1)
		}
		for x := range 2 * w {
			a, b := x/2, min(w-1, x/2+1)
			if x%2 == 0 {
				b = max(0, x/2-1)
			}
			for k := range 3 {
				at := func(x, y int) int { return int(pix[3*(y*w+x)+k]) }
				out[3*(y*2*w+x)+k] = uint8((9*at(a, near) + 3*at(b, near) + 3*at(a, other) + at(b, other) + 8) / 16)
			}
		}
	}
	return out, 2 * w, 2 * h
}

// roundTo rounds a value to the precision of a quarter of a pixel.
func roundTo(v, pixel float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(pixel*4)))
	return math.Round(v/unit) * unit
}

func (v *view) at(x, y int) [3]float64 {
	p := v.pix[3*(y*v.w+x):]
	return [3]float64{float64(p[0]), float64(p[1]), float64(p[2])}
}

// far is an approximate perceptual distance of two colors.
func far(a, b [3]float64) float64 {
	r, g, u := a[0]-b[0], a[1]-b[1], a[2]-b[2]
	return math.Sqrt(2*r*r + 4*g*g + 3*u*u)
}

// findGround uses the most frequent color of the edge as the background.
func (v *view) findGround() {
	count := map[[3]uint8]int{}
	sums := map[[3]uint8][3]float64{}
	add := func(x, y int) {
		c := v.at(x, y)
		k := [3]uint8{uint8(c[0] / 24), uint8(c[1] / 24), uint8(c[2] / 24)}
		count[k]++
		s := sums[k]
		for i := range s {
			s[i] += c[i]
		}
		sums[k] = s
	}
	for x := range v.w {
		add(x, 0)
		add(x, v.h-1)
	}
	for y := range v.h {
		add(0, y)
		add(v.w-1, y)
	}
	var best [3]uint8
	for k, n := range count {
		if n > count[best] || n == count[best] && slices.Compare(k[:], best[:]) < 0 {
			best = k
		}
	}
	for i := range v.ground {
		v.ground[i] = sums[best][i] / float64(count[best])
	}
}

// findAxes finds the lowest long line and the vertical line near its left end.
func (v *view) findAxes() error {
	const drawn = 60 // distance
	is := func(x, y int) bool { return far(v.at(x, y), v.ground) >= drawn }
	for y := v.h - 1; y >= v.h/4 && v.from == v.to; y-- {
		for x := 0; x < v.w; x++ {
			left := x
			for x < v.w && is(x, y) {
				x++
			}
			if x-left > v.w/2 {
				v.base, v.from, v.to = y, left, x
				break
			}
		}
	}
	if v.from == v.to {
		return faultf("no horizontal axis")
	}
	tall := func(x int) int {
		n := 0
		for n < v.base && is(x, v.base-n) {
			n++
		}
		return n
	}
	best := 0
	for x := v.from; x < min(v.w, v.from+max(8, v.w/8)); x++ {
		if n := tall(x); n > best {
			v.axis, best = x, n
		}
	}
	if best < v.h/4 {
		return faultf("no vertical axis")
	}
	v.roof = v.base - best
	v.dark = v.darkest(best)
	// The row of the line is its darkest.
	strength := func(y int) (sum float64) {
		for x := v.from; x < v.to; x++ {
			sum += far(v.at(x, y), v.ground)
		}
		return sum
	}
	for y := v.base; y > v.base-4 && y > 0; y-- {
		if strength(y) > strength(v.base)*1.05 {
			v.base = y
		}
	}
	v.ink = &Ink{W: v.w, H: v.h, Pix: make([]float32, v.w*v.h)}
	for y := range v.h {
		for x := range v.w {
			v.ink.Pix[y*v.w+x] = float32(math.Min(1, far(v.at(x, y), v.ground)/v.dark))
		}
	}
	return nil
}

// darkest returns the distance from the ground of the ink of axes and letters
// where a stroke fills a pixel, and moves the axis to its darkest column.
func (v *view) darkest(height int) float64 {
	most, at := 0.0, v.axis
	for x := v.axis; x < min(v.w, v.axis+4); x++ {
		var list []float64
		for y := v.roof + height/4; y < v.base-height/4; y++ {
			list = append(list, far(v.at(x, y), v.ground))
		}
		slices.Sort(list)
		if d := list[len(list)/2]; d > most*1.02 {
			most, at = d, x
		}
	}
	v.axis = at
	var list []float64
	for y := v.roof; y < v.base; y++ {
		for x := range at {
			if d := far(v.at(x, y), v.ground); d > 60 {
				list = append(list, d)
			}
		}
	}
	if len(list) < 16 {
		return most
	}
	slices.Sort(list)
	return max(most, list[len(list)*95/100])
}

// bars returns the bars on the horizontal axis, from the left: each is a 50th of
// the image wide or more. A vertical grid line does not divide a bar.
func (v *view) bars() ([]bar, error) {
	foot := v.base - max(2, (v.base-v.roof)*3/100+1)
	var out []bar
	for x := v.axis + max(2, v.w/64); x < v.to; x++ {
		left := x
		for x < v.to && far(v.at(x, foot), v.ground) >= 60 && (x == left || far(v.at(x, foot), v.at(x-1, foot)) < 150 || v.ruled(x-1) || v.ruled(x)) {
			x++
		}
		if x-left < max(3, v.w/50) {
			continue
		}
		out = append(out, bar{left, x, v.top(left, x, foot)})
	}
	if len(out) == 0 {
		return nil, faultf("no bars on the axis")
	}
	return out, nil
}

// ruled reports whether a column is a vertical grid line: a narrow one that has ink
// up to the roof.
func (v *view) ruled(x int) bool {
	reach := v.line() + 1
	if x-reach <= v.axis || x+reach >= v.to {
		return false
	}
	full, wide := 0, 0
	for y := v.roof + 3; y < v.base; y++ {
		if far(v.at(x, y), v.ground) < 20 {
			continue
		}
		full++
		if far(v.at(x-reach, y), v.ground) >= 20 && far(v.at(x+reach, y), v.ground) >= 20 {
			wide++ // a bar or a horizontal grid line
		}
	}
	height := v.base - v.roof - 3
	return full*20 >= height*19 && wide < full
}

// line returns the greatest width of a grid line.
func (v *view) line() int { return max(3, v.h/120) }

// top returns where a bar ends: the median of its columns.
func (v *view) top(left, right, foot int) float64 {
	inset := (right - left) / 5
	var tops []float64
	for x := left + inset; x < right-inset; x++ {
		y := v.end(x, foot)
		for next := v.stacked(x, y); next > 0; next = v.stacked(x, y) {
			y = v.end(x, next)
		}
		tops = append(tops, v.edge(x, y))
	}
	slices.Sort(tops)
	return tops[len(tops)/2]
}

// end returns the highest row of the color at a row of a column. Horizontal grid
// lines over the color do not end it.
func (v *view) end(x, foot int) int {
	c := v.at(x, foot)
	near := far(c, v.ground) / 2
	y := foot
	for up := y - 1; up > v.roof-3 && up >= 0 && y-up <= v.line()+1; up-- {
		if far(v.at(x, up), c) < near {
			y = up
		}
	}
	return y
}

// edge returns where the color that ends at row y ends, with subpixel precision.
func (v *view) edge(x, y int) float64 {
	c := v.at(x, min(y+1, v.base-1))
	full, part := far(c, v.ground), 0.0
	if y > 0 { // the bar's share of the next pixel
		part = math.Max(0, math.Min(1, 1-far(v.at(x, y-1), c)/full))
	}
	inside := math.Max(0, math.Min(1, far(v.at(x, y), c)/full))
	return float64(y) + inside - part - 0.5
}

// stacked returns a row of the segment above one that ends at row y, or 0: a
// segment has one color over more rows than a grid line or a stroke of a letter.
func (v *view) stacked(x, y int) int {
	low := y - 2
	high := low - max(5, v.h/60)
	if high <= v.roof {
		return 0
	}
	c := v.at(x, low)
	for r := low; r > high; r-- {
		if far(v.at(x, r), v.ground) < 60 || far(v.at(x, r), c) > 40 {
			return 0
		}
	}
	return high + 1
}

// ticks returns the rows of the tick marks left of the axis, the lowest first,
// from the column with the highest contrast.
func (v *view) ticks() []float64 {
	var best []float64
	clearest := 0.0
	for x := v.axis - 1; x > max(0, v.axis-max(4, v.w/32)); x-- {
		if rows, contrast := v.strokes(x); rows != nil && contrast > clearest {
			best, clearest = rows, contrast
		}
	}
	return best
}

// strokes returns the marks of a column, if they are evenly spaced, and their
// contrast.
func (v *view) strokes(x int) (rows []float64, contrast float64) {
	reach := max(2, v.h/64)
	low, high := max(v.roof-reach, 0), min(v.base+reach, v.h-1)
	var inks []float64
	for y := low; y <= high; y++ {
		inks = append(inks, float64(v.ink.At(x, y)))
	}
	sorted := slices.Sorted(slices.Values(inks))
	ground := sorted[len(sorted)/2]
	contrast = sorted[len(sorted)-1] - ground
	if contrast < 0.15 {
		return nil, 0
	}
	for i := len(inks) - 1; i >= 0; i-- {
		if inks[i]-ground <= 0.45*contrast {
			continue
		}
		weight, sum := 0.0, 0.0
		for ; i >= 0 && inks[i]-ground > 0.2*contrast; i-- {
			weight, sum = weight+inks[i]-ground, sum+(inks[i]-ground)*float64(low+i)
		}
		rows = append(rows, sum/weight)
	}
	return evenRows(rows), contrast
}

// evenRows returns rows if they are evenly spaced, otherwise nil.
func evenRows(rows []float64) []float64 {
	n := len(rows)
	if n < 2 || n > 40 {
		return nil
	}
	gap := (rows[0] - rows[n-1]) / float64(n-1)
	for i, y := range rows {
		if math.Abs(rows[0]-gap*float64(i)-y) > 1.5+gap/20 {
			return nil
		}
	}
	return rows
}

// mantissas lists the steps of axes.
var mantissas = []float64{1, 1.5, 2, 2.5, 3, 4, 5, 6, 7.5, 8}

// digits are the characters of numbers.
const digits = "0123456789.-"

// The least score of an axis's numbers, and its least lead over other numbers.
const (
	readable = 0.2
	distinct = 0.01
)

// scale reads the numbers next to the ticks: it returns the step from 0 whose
// multiples match best in one font.
func (v *view) scale(ticks []float64) (float64, error) {
	lines := v.numbers(ticks)
	cache := map[[2]int][]Piece{} // by tick and number of characters
	pieces := func(i, n int) []Piece {
		k := [2]int{i, n}
		if cache[k] == nil {
			cache[k] = v.cut(lines[i], n)
		}
		return cache[k]
	}
	count := 0
	for _, l := range lines {
		if !l.Empty() {
			count++
		}
	}
	if count*2 < len(lines) {
		return 0, faultf("no numbers next to the ticks")
	}
	all := rises(len(ticks))
	best, second, bestStep := math.Inf(-1), math.Inf(-1), 0.0
	for face := range v.set.Faces {
		scores := map[[2]int][]map[rune]float64{}
		for _, r := range all {
			switch score := v.fits(r.texts, lines, face, pieces, scores); {
			case score > best+1e-9:
				if r.step != bestStep {
					second = best
				}
				best, bestStep = score, r.step
			case r.step != bestStep:
				second = max(second, score)
			}
		}
		if err := v.c.Step(int64(len(lines)) * 100_000); err != nil {
			return 0, err
		}
	}
	if best < readable || best-second < distinct {
		return 0, faultf("illegible numbers next to the ticks")
	}
	return bestStep, nil
}

// rise is a step and its first n multiples as text, from 0.
type rise struct {
	step  float64
	texts []string
}

func rises(n int) []rise {
	var out []rise
	for k := -2; k <= 6; k++ {
		for _, m := range mantissas {
			step := m * math.Pow(10, float64(k))
			places := 0
			for p := 0; p <= 2; p++ {
				if places = p; math.Abs(step*math.Pow10(p)-math.Round(step*math.Pow10(p))) < 1e-6 {
					break
				}
			}
			texts := make([]string, n)
			for i := range texts {
				texts[i] = strconv.FormatFloat(step*float64(i), 'f', places, 64)
			}
			out = append(out, rise{step, texts})
		}
	}
	return out
}

// fits returns how well the numbers match texts in a font.
func (v *view) fits(texts []string, lines []image.Rectangle, face int, pieces func(int, int) []Piece, scores map[[2]int][]map[rune]float64) float64 {
	sum, n := 0.0, 0
	for i, line := range lines {
		if line.Empty() {
			continue
		}
		text := texts[i]
		k := [2]int{i, len(text)}
		if scores[k] == nil {
			for _, p := range pieces(i, len(text)) {
				by := map[rune]float64{}
				v.set.Each(&p, face, digits, func(g Guess) { by[g.Char.Rune] = g.Score })
				scores[k] = append(scores[k], by)
			}
		}
		for j, r := range text {
			if scores[k] == nil { // too narrow for this many characters
				sum -= 0.5
			} else {
				sum += scores[k][j][r]
			}
			n++
		}
	}
	return sum / float64(n)
}

// numbers returns the bounds of the numbers next to the ticks.
func (v *view) numbers(ticks []float64) []image.Rectangle {
	gap := (ticks[0] - ticks[len(ticks)-1]) / float64(len(ticks)-1)
	reach := int(math.Min(gap/2, float64(v.h)/14)) + 1
	right := v.gap(ticks)
	out := make([]image.Rectangle, len(ticks))
	for i, y := range ticks {
		box := image.Rect(0, int(y)-reach, right, int(y)+reach+1)
		lines := v.ink.Lines(box, written)
		for _, l := range lines { // the line at the height of the tick
			if float64(l.Min.Y) <= y+1 && float64(l.Max.Y) >= y-1 && l.Dy() >= 3 {
				out[i] = v.rightmost(l)
			}
		}
	}
	return out
}

// gap returns the column between the ticks and the numbers.
func (v *view) gap(ticks []float64) int {
	right, least := v.axis-2, math.Inf(1)
	for x := v.axis - 2; x > max(0, v.axis-v.w/12); x-- {
		sum := 0.0
		for _, y := range ticks {
			sum += float64(v.ink.At(x, int(y+0.5))) / float64(len(ticks))
		}
		if sum < least {
			right, least = x, sum
		}
		if sum > least+0.12 { // the first digit
			break
		}
	}
	return right
}

// rightmost returns the bounds of the connected text at the right of a line.
func (v *view) rightmost(line image.Rectangle) image.Rectangle {
	parts := v.ink.Columns(line, written)
	out := image.Rectangle{}
	for i := len(parts) - 1; i >= 0; i-- {
		if !out.Empty() && out.Min.X-parts[i].Max.X > line.Dy() {
			break
		}
		out = out.Union(parts[i])
	}
	return out
}

// cut splits a number into n characters at gaps, or into equal parts, as
// digits have one width. It returns nil if the number is too narrow.
func (v *view) cut(line image.Rectangle, n int) []Piece {
	parts := v.ink.Columns(line, written)
	if len(parts) != n {
		if len(parts) > n || line.Dx() < 2*n {
			return nil
		}
		parts = nil
		for i := range n {
			part := image.Rect(line.Min.X+line.Dx()*i/n, line.Min.Y, line.Min.X+line.Dx()*(i+1)/n, line.Max.Y)
			if part = v.ink.Bounds(part, written); part.Empty() {
				return nil
			}
			parts = append(parts, part)
		}
	}
	var out []Piece
	for _, p := range parts {
		out = append(out, v.ink.Piece(p))
	}
	return out
}
