package figure

import (
	"image"
	"math"
	"slices"
)

// Limits of an image of print.
const (
	maxParts = 400
	level    = 0.4 // of the darkest ink
)

// inkOf returns the distance of each pixel of [h, w, 3] from the background,
// which is the median of the edge; 1 is the distance of the print.
func inkOf(pix []byte, w, h int) (*Ink, error) {
	gray := func(x, y int) float64 {
		p := pix[3*(y*w+x):]
		return 0.299*float64(p[0]) + 0.587*float64(p[1]) + 0.114*float64(p[2])
	}
	var edge []float64
	for x := range w {
		edge = append(edge, gray(x, 0), gray(x, h-1))
	}
	for y := range h {
		edge = append(edge, gray(0, y), gray(w-1, y))
	}
	slices.Sort(edge)
	ground := edge[len(edge)/2]
	k := &Ink{W: w, H: h, Pix: make([]float32, w*h)}
	var far []float32
	for y := range h {
		for x := range w {
			d := float32(math.Abs(gray(x, y) - ground))
			if k.Pix[y*w+x] = d; d > 40 {
				far = append(far, d)
			}
		}
	}
	if len(far) < 8 {
		return nil, faultf("image has no print")
	}
	slices.Sort(far)
	dark := far[len(far)*9/10]
	for i := range k.Pix {
		k.Pix[i] = min(1, k.Pix[i]/dark)
	}
	return k, nil
}

// part is the bounds of connected ink.
type part struct{ image.Rectangle }

// parts returns the components of ink from the left, without specks.
func parts(c charge, k *Ink) ([]part, error) {
	seen := make([]bool, len(k.Pix))
	var out []part
	var stack []int
	for start := range k.Pix {
		if seen[start] || k.Pix[start] <= level {
			continue
		}
		box := image.Rectangle{}
		n := 0
		stack = append(stack[:0], start)
		seen[start] = true
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			x, y := at%k.W, at/k.W
			box = box.Union(image.Rect(x, y, x+1, y+1))
			n++
			for dy := -1; dy <= 1; dy++ {
				for dx := -1; dx <= 1; dx++ {
					if next := (y+dy)*k.W + x + dx; k.At(x+dx, y+dy) > level && !seen[next] {
						seen[next] = true
						stack = append(stack, next)
					}
				}
			}
		}
		if n < 3 {
			continue
		}
		if out = append(out, part{box}); len(out) > maxParts {
			return nil, faultf("more than %d signs", maxParts)
		}
	}
	slices.SortStableFunc(out, func(a, b part) int { return a.Min.X - b.Min.X })
	return out, c.Step(int64(len(k.Pix)) * 4)
}
