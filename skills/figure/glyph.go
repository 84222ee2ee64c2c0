package figure

import (
	"image"
	"image/draw"
	"maps"
	"math"
	"slices"
	"strings"

	"golang.org/x/image/vector"

	"mm-abi.org/mm/train/dataset/fonts"
)

// Columns and Rows are the size of the grid in which characters are compared.
const (
	Columns = 12
	Rows    = 16
)

// Grid is the ink of a character in Rows rows, normalized to mean 0 and length 1.
type Grid [Columns * Rows]float32

// Char is a character of a font.
type Char struct {
	Rune   rune
	Face   int
	Grid   Grid
	Aspect float64 // the natural logarithm of width over height of its ink
	Top    float64 // top of its ink above the baseline, in ems
	Bottom float64 // bottom of its ink above the baseline, in ems; negative for a descender
}

// Set holds the characters to compare with.
type Set struct {
	Faces []string
	chars [][]Char // of each face
}

// emPixels is the size at which characters are drawn, in pixels per em.
const emPixels = 26

// Letters draws the training fonts, upright and slanted, except small caps.
func Letters() (*Set, error) {
	training, err := fonts.Training()
	if err != nil {
		return nil, err
	}
	s := &Set{}
	fill := vector.NewRasterizer(2*emPixels, 2*emPixels)
	for _, f := range training {
		if strings.Contains(f.Name, "Smallcaps") {
			continue
		}
		var chars []Char
		for _, c := range slices.Sorted(maps.Keys(f.Glyphs)) {
			if g := f.Glyphs[c]; len(g.Contours) > 0 {
				chars = append(chars, newChar(fill, c, g, len(s.Faces)))
			}
		}
		s.Faces, s.chars = append(s.Faces, f.Name), append(s.chars, chars)
	}
	return s, nil
}

// newChar draws a character to the bounds of its ink.
func newChar(fill *vector.Rasterizer, char rune, o fonts.Glyph, face int) Char {
	lo, hi := [2]int{math.MaxInt, math.MaxInt}, [2]int{math.MinInt, math.MinInt}
	for _, c := range o.Contours {
		for _, p := range c {
			for k := range 2 {
				lo[k], hi[k] = min(lo[k], p[k]), max(hi[k], p[k])
			}
		}
	}
	w, h := max(hi[0]-lo[0], 1), max(hi[1]-lo[1], 1)
	pw, ph := (w*emPixels+fonts.Em-1)/fonts.Em+1, (h*emPixels+fonts.Em-1)/fonts.Em+1
	fill.Reset(pw, ph)
	fill.DrawOp = draw.Src
	at := func(p [2]int) (x, y float32) {
		return float32(p[0]-lo[0]) * float32(pw) / float32(w), float32(p[1]-lo[1]) * float32(ph) / float32(h)
	}
	for _, c := range o.Contours {
		for i, p := range c {
			if x, y := at(p); i == 0 {
				fill.MoveTo(x, y)
			} else {
				fill.LineTo(x, y)
			}
		}
		fill.ClosePath()
	}
	mask := image.NewAlpha(image.Rect(0, 0, pw, ph))
	fill.Draw(mask, mask.Rect, image.Opaque, image.Point{})
	ink := &Ink{W: pw, H: ph, Pix: make([]float32, pw*ph)}
	for i, a := range mask.Pix {
		ink.Pix[i] = float32(a) / 255
	}
	return Char{
		Rune: char, Face: face, Grid: ink.Grid(image.Rect(0, 0, pw, ph)), Aspect: math.Log(float64(w) / float64(h)),
		Top: float64(-lo[1]) / fonts.Em, Bottom: float64(-hi[1]) / fonts.Em,
	}
}

// Ink holds the coverage of each pixel, 0 to 1.
type Ink struct {
	W, H int
	Pix  []float32
}

// At returns the ink of a pixel, 0 outside the image.
func (k *Ink) At(x, y int) float32 {
	if x < 0 || y < 0 || x >= k.W || y >= k.H {
		return 0
	}
	return k.Pix[y*k.W+x]
}

// Bounds returns the smallest rectangle within r that holds all ink above level.
// It is empty if there is no such ink.
func (k *Ink) Bounds(r image.Rectangle, level float32) image.Rectangle {
	r = r.Intersect(image.Rect(0, 0, k.W, k.H))
	out := image.Rectangle{Min: r.Max, Max: r.Min}
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			if k.Pix[y*k.W+x] > level {
				out.Min.X, out.Max.X = min(out.Min.X, x), max(out.Max.X, x+1)
				out.Min.Y, out.Max.Y = min(out.Min.Y, y), max(out.Max.Y, y+1)
			}
		}
	}
	if out.Min.X >= out.Max.X {
		return image.Rectangle{}
	}
	return out
}

// Grid samples a rectangle: each cell is the mean of the ink it covers.
func (k *Ink) Grid(r image.Rectangle) (g Grid) {
	cw, ch := float64(r.Dx())/Columns, float64(r.Dy())/Rows
	for j := range Rows {
		y0, y1 := float64(r.Min.Y)+float64(j)*ch, float64(r.Min.Y)+float64(j+1)*ch
		for i := range Columns {
			x0, x1 := float64(r.Min.X)+float64(i)*cw, float64(r.Min.X)+float64(i+1)*cw
			g[j*Columns+i] = k.mean(x0, y0, x1, y1)
		}
	}
	g.sharpen()
	g.normalize()
	return g
}

// sharpen restores blurred strokes: cells far below the maximum become 0, cells
// near it 1.
func (g *Grid) sharpen() {
	peak := slices.Max(g[:])
	for i, v := range g {
		g[i] = min(1, max(0, (v/(peak+1e-6)-0.3)/0.5))
	}
}

// mean returns the mean ink of a rectangle whose bounds may lie within pixels.
func (k *Ink) mean(x0, y0, x1, y1 float64) float32 {
	total, area := 0.0, 0.0
	for y := int(y0); float64(y) < y1; y++ {
		h := math.Min(y1, float64(y+1)) - math.Max(y0, float64(y))
		for x := int(x0); float64(x) < x1; x++ {
			a := h * (math.Min(x1, float64(x+1)) - math.Max(x0, float64(x)))
			total += a * float64(k.At(x, y))
			area += a
		}
	}
	if area <= 0 {
		return 0
	}
	return float32(total / area)
}

// normalize sets the mean to 0 and the length to 1.
func (g *Grid) normalize() {
	mean := float32(0)
	for _, v := range g {
		mean += v
	}
	mean /= float32(len(g))
	length := float64(0)
	for i := range g {
		g[i] -= mean
		length += float64(g[i]) * float64(g[i])
	}
	if length < 1e-9 { // all ink: a period or a bar
		for i := range g {
			g[i] = 0
		}
		return
	}
	for i := range g {
		g[i] /= float32(math.Sqrt(length))
	}
}

// Similarity returns the correlation of two grids, -1 to 1.
func (g *Grid) Similarity(o *Grid) float64 {
	var sum float32
	for i := range g {
		sum += g[i] * o[i]
	}
	return float64(sum)
}

// Piece is a rectangle of ink taken as one character.
type Piece struct {
	Box    image.Rectangle
	grid   Grid
	aspect float64
	solid  bool
}

// Piece prepares a rectangle of ink for comparison.
func (k *Ink) Piece(r image.Rectangle) Piece {
	p := Piece{Box: r, grid: k.Grid(r), aspect: math.Log(float64(max(r.Dx(), 1)) / float64(max(r.Dy(), 1)))}
	p.solid = p.grid == Grid{}
	return p
}

// Guess is a candidate character for a piece.
type Guess struct {
	Char  *Char
	Score float64 // 1: identical shape; below 0.5: unlikely
}

// stretchCost is subtracted from a score per unit of difference in log aspect.
const stretchCost = 0.35

// Each calls f with every character of an alphabet in one font and its score.
func (s *Set) Each(p *Piece, face int, alphabet string, f func(Guess)) {
	for i := range s.chars[face] {
		if c := &s.chars[face][i]; strings.ContainsRune(alphabet, c.Rune) {
			f(Guess{c, s.score(p, c)})
		}
	}
}

func (s *Set) score(p *Piece, c *Char) float64 {
	similarity := p.grid.Similarity(&c.Grid)
	if solid := c.Grid == (Grid{}); solid || p.solid {
		similarity = 0
		if solid && p.solid {
			similarity = 1
		}
	}
	return similarity - stretchCost*math.Abs(p.aspect-c.Aspect)
}

// Holes returns the number of areas without ink that ink encloses within a rectangle,
// except single pixels.
func (k *Ink) Holes(r image.Rectangle, level float32) int {
	w, h := r.Dx()+2, r.Dy()+2 // with a margin
	seen := make([]bool, w*h)
	fill := func(start int) (size int) {
		stack := []int{start}
		seen[start] = true
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			stack, size = stack[:len(stack)-1], size+1
			for _, d := range [4]image.Point{{X: 1}, {X: -1}, {Y: 1}, {Y: -1}} {
				x, y := at%w+d.X, at/w+d.Y
				if x < 0 || y < 0 || x >= w || y >= h || seen[y*w+x] || k.inside(r, x-1, y-1) > level {
					continue
				}
				seen[y*w+x] = true
				stack = append(stack, y*w+x)
			}
		}
		return size
	}
	fill(0)
	n := 0
	for i, is := range seen {
		if !is && k.inside(r, i%w-1, i/w-1) <= level && fill(i) > 1 {
			n++
		}
	}
	return n
}

// inside returns the ink at a place of a rectangle, 0 outside of it.
func (k *Ink) inside(r image.Rectangle, x, y int) float32 {
	if x < 0 || y < 0 || x >= r.Dx() || y >= r.Dy() {
		return 0
	}
	return k.At(r.Min.X+x, r.Min.Y+y)
}

// Holes returns the least and the greatest number of holes of a letter or digit in
// the usual fonts.
func Holes(c rune) (least, most int) {
	switch {
	case strings.ContainsRune("8B%", c):
		return 2, 2
	case c == '4':
		return 0, 1
	case c == 'g':
		return 1, 2
	case strings.ContainsRune("069ADOPQRabdeopq", c):
		return 1, 1
	}
	return 0, 0
}

// Columns cuts a line of ink at its empty columns, from the left.
func (k *Ink) Columns(r image.Rectangle, level float32) []image.Rectangle {
	var out []image.Rectangle
	for _, run := range runs(r.Min.X, r.Max.X, func(x int) bool { return k.inked(image.Rect(x, r.Min.Y, x+1, r.Max.Y), level) }) {
		out = append(out, k.Bounds(image.Rect(run[0], r.Min.Y, run[1], r.Max.Y), level))
	}
	return out
}

// Lines cuts ink at its empty rows, from the top.
func (k *Ink) Lines(r image.Rectangle, level float32) []image.Rectangle {
	var out []image.Rectangle
	for _, run := range runs(r.Min.Y, r.Max.Y, func(y int) bool { return k.inked(image.Rect(r.Min.X, y, r.Max.X, y+1), level) }) {
		out = append(out, k.Bounds(image.Rect(r.Min.X, run[0], r.Max.X, run[1]), level))
	}
	return out
}

// inked reports whether r holds ink above level.
func (k *Ink) inked(r image.Rectangle, level float32) bool {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			if k.At(x, y) > level {
				return true
			}
		}
	}
	return false
}

// runs returns the maximal intervals [from, to) of [lo, hi) with ink throughout.
func runs(lo, hi int, ink func(int) bool) (out [][2]int) {
	start := -1
	for i := lo; i <= hi; i++ {
		switch has := i < hi && ink(i); {
		case has && start < 0:
			start = i
		case !has && start >= 0:
			out = append(out, [2]int{start, i})
			start = -1
		}
	}
	return out
}
