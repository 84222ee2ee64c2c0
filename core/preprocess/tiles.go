package preprocess

import (
	"context"
	"fmt"
	"math"
)

// Tiles divides an image into squares of one size, each an input of the model.
type Tiles struct {
	Size int `json:"size"` // height and width of a tile
	// Choose is the rule for the grid:
	//
	//	longest  the longer side becomes Longest, and both are enlarged to
	//	         multiples of Size (Idefics3, SmolVLM)
	//	aspect   the grid of at most Most tiles whose shape is closest to the
	//	         image's (InternVL)
	//	pinpoints  the one of Pinpoints that keeps the most pixels of the image
	//	         and, of several, has the least padding: the image is resized in
	//	         proportion and padded on all sides (LLaVA-NeXT, LLaVA-OneVision)
	Choose    string   `json:"choose"`
	Longest   int      `json:"longest,omitempty"`
	Most      int      `json:"most,omitempty"`
	Pinpoints [][2]int `json:"pinpoints,omitempty"` // heights and widths
}

// maxTiles limits the tiles of an image, without the overview.
const maxTiles = 256

// maxLongest is the limit of Idefics3 for a resized image.
const maxLongest = 4096

func (t *Tiles) check(wrong func(key, format string, args ...any)) {
	if !side(t.Size) || t.Size > maxLongest {
		wrong("tiles", "bad size %d of a tile, want 1 to %d", t.Size, maxLongest)
		return
	}
	if t.Choose != "pinpoints" && t.Pinpoints != nil {
		wrong("tiles", "pinpoints require choose: pinpoints")
	}
	switch t.Choose {
	case "pinpoints":
		t.checkPinpoints(wrong)
	case "longest":
		across := (min(t.Longest, maxLongest) + t.Size - 1) / t.Size
		if t.Longest < t.Size || t.Longest > maxSide || across*across > maxTiles || t.Most != 0 {
			wrong("tiles", "bad longest side %d for tiles of %d, want %d to %d and at most %d tiles", t.Longest, t.Size, t.Size, maxSide, maxTiles)
		}
	case "aspect":
		if t.Most < 1 || t.Most > maxTiles || t.Longest != 0 {
			wrong("tiles", "bad number of tiles %d, want 1 to %d", t.Most, maxTiles)
		}
	default:
		wrong("tiles", "got choose %q, want longest, aspect or pinpoints", t.Choose)
	}
}

func (t *Tiles) checkPinpoints(wrong func(key, format string, args ...any)) {
	if len(t.Pinpoints) == 0 || len(t.Pinpoints) > maxTiles || t.Longest != 0 || t.Most != 0 {
		wrong("tiles", "got %d pinpoints, want 1 to %d, without longest and most", len(t.Pinpoints), maxTiles)
	}
	for _, p := range t.Pinpoints {
		if p[0]%t.Size != 0 || p[1]%t.Size != 0 || p[0] < 1 || p[1] < 1 || max(p[0], p[1]) > maxSide || p[0]/t.Size*(p[1]/t.Size) > maxTiles {
			wrong("tiles", "bad pinpoint %v, want multiples of %d and at most %d tiles", p, t.Size, maxTiles)
		}
	}
}

// Bound returns the largest number of inputs that an image becomes, including
// the overview.
func (t *Tiles) Bound() int {
	if t.Choose == "aspect" {
		if t.Most > 1 {
			return t.Most + 1
		}
		return 1
	}
	if t.Choose == "pinpoints" {
		most := 0
		for _, p := range t.Pinpoints {
			most = max(most, p[0]/t.Size*(p[1]/t.Size))
		}
		return most + 1
	}
	across := (min(t.Longest, maxLongest) + t.Size - 1) / t.Size
	return across*across + 1
}

// Grid is the arrangement of an image's tiles. Without rows the only input is the
// whole image.
type Grid struct{ Rows, Columns int }

// FromTiles prepares an image as tiles, row by row, and the overview, which is the
// whole image in the size of a tile, after them. A single tile has no overview,
// except of pinpoints.
func (s *Spec) FromTiles(ctx context.Context, r *Raster) ([]*Tensor, Grid, error) {
	if s.Color == "gray" {
		r = r.gray()
	}
	t := s.Tiles
	fit, full, bigger := t.sizes(r.W, r.H)
	if err := within(full.w, full.h); err != nil {
		return nil, Grid{}, fmt.Errorf("resizing: %w", err)
	}
	big, err := r.ResizeTo(fit.w, fit.h, s.Resample)
	if err == nil && t.Choose == "pinpoints" {
		big = big.framed(full.w, full.h)
	} else if err == nil && fit != full {
		big, err = big.ResizeTo(full.w, full.h, s.Resample)
	}
	if err != nil {
		return nil, Grid{}, err
	}
	overview := r
	if bigger {
		overview = big
	}
	g := Grid{full.h / t.Size, full.w / t.Size}
	if g.Rows*g.Columns == 1 && t.Choose != "pinpoints" {
		return []*Tensor{s.lay(big, t.Size, t.Size)}, Grid{}, ctx.Err()
	}
	var out []*Tensor
	for row := range g.Rows {
		for column := range g.Columns {
			if err := ctx.Err(); err != nil {
				return nil, Grid{}, err
			}
			out = append(out, s.lay(big.part(column*t.Size, row*t.Size, t.Size), t.Size, t.Size))
		}
	}
	small, err := overview.ResizeTo(t.Size, t.Size, s.Resample)
	if err != nil {
		return nil, Grid{}, err
	}
	return append(out, s.lay(small, t.Size, t.Size)), g, ctx.Err()
}

// Grid returns the arrangement of the tiles of an image of w × h.
func (t *Tiles) Grid(w, h int) Grid {
	_, full, _ := t.sizes(w, h)
	if full.w*full.h == t.Size*t.Size && t.Choose != "pinpoints" {
		return Grid{}
	}
	return Grid{full.h / t.Size, full.w / t.Size}
}

type size struct{ w, h int }

// sizes returns the size that an image of w × h is resized to first, the size that
// is divided into tiles, and whether the overview is made of the latter.
func (t *Tiles) sizes(w, h int) (fit, full size, bigger bool) {
	switch t.Choose {
	case "pinpoints":
		full = t.best(w, h)
		return inside(w, h, full), full, false
	case "aspect":
		columns, rows := t.closest(w, h)
		full = size{columns * t.Size, rows * t.Size}
		return full, full, false
	}
	fit.w, fit.h = t.enlarged(w, h)
	full.w, full.h = multiples(fit.w, fit.h, t.Size)
	return fit, full, true
}

// best returns the pinpoint for an image of w × h.
func (t *Tiles) best(w, h int) (best size) {
	kept, lost := 0, 0
	for _, p := range t.Pinpoints {
		by := min(float64(p[1])/float64(w), float64(p[0])/float64(h))
		keep := min(int(float64(w)*by)*int(float64(h)*by), w*h)
		lose := p[0]*p[1] - keep
		if best == (size{}) || keep > kept || keep == kept && lose < lost {
			best, kept, lost = size{p[1], p[0]}, keep, lose
		}
	}
	return best
}

// inside returns the size of an image of w × h that fits into a rectangle, in
// proportion.
func inside(w, h int, in size) size {
	across, down := float64(in.w)/float64(w), float64(in.h)/float64(h)
	if across < down {
		return size{in.w, min(int(math.Ceil(float64(h)*across)), in.h)}
	}
	return size{min(int(math.Ceil(float64(w)*down)), in.w), in.h}
}

// framed returns the image in the middle of a black one of w × h.
func (r *Raster) framed(w, h int) *Raster {
	out := &Raster{W: w, H: h, C: r.C, Pix: make([]byte, w*h*r.C)}
	left, top := (w-r.W)/2, (h-r.H)/2
	for y := range r.H {
		copy(out.Pix[((y+top)*w+left)*r.C:], r.Pix[y*r.W*r.C:(y+1)*r.W*r.C])
	}
	return out
}

// enlarged returns the size whose longer side is Longest; the other is rounded
// down and made even.
func (t *Tiles) enlarged(w, h int) (int, int) {
	ratio := float64(w) / float64(h)
	if w >= h {
		w = t.Longest
		h = int(float64(w) / ratio)
		h += h % 2
	} else {
		h = t.Longest
		w = int(float64(h) * ratio)
		w += w % 2
	}
	w, h = max(w, 1), max(h, 1)
	ratio = float64(w) / float64(h)
	switch {
	case w >= h && w > maxLongest:
		w, h = maxLongest, int(maxLongest/ratio)
	case h > w && h > maxLongest:
		w, h = int(maxLongest*ratio), maxLongest
	}
	return max(w, 1), max(h, 1)
}

// multiples enlarges both sides to multiples of n, the shorter one after it
// follows the longer one.
func multiples(w, h, n int) (int, int) {
	up := func(x int) int { return (x + n - 1) / n * n }
	ratio := float64(w) / float64(h)
	if w >= h {
		w = up(w)
		return w, up(max(int(float64(w)/ratio), 1))
	}
	h = up(h)
	return up(max(int(float64(h)*ratio), 1)), h
}

// closest returns the columns and rows of the grid whose aspect ratio is closest to
// the image's; of two, the larger if the image has more than half of its pixels.
func (t *Tiles) closest(w, h int) (columns, rows int) {
	ratio, area := float64(w)/float64(h), float64(w)*float64(h)
	best := math.Inf(1)
	columns, rows = 1, 1
	for n := 1; n <= t.Most; n++ {
		for c := 1; c <= n; c++ {
			if n%c != 0 {
				continue
			}
			d := math.Abs(ratio - float64(c)/float64(n/c))
			if d < best || d == best && area > 0.5*float64(t.Size)*float64(t.Size)*float64(n) {
				best, columns, rows = d, c, n/c
			}
		}
	}
	return columns, rows
}

// part cuts a square of n pixels a side at x and y.
func (r *Raster) part(x, y, n int) *Raster {
	out := &Raster{W: n, H: n, C: r.C, Pix: make([]byte, n*n*r.C)}
	for row := range n {
		copy(out.Pix[row*n*r.C:(row+1)*n*r.C], r.Pix[((y+row)*r.W+x)*r.C:])
	}
	return out
}
