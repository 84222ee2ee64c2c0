package preprocess

import (
	"fmt"
	"math"
)

// Fit resizes an image to a height and a width that are multiples of Multiple and
// depend on its size.
type Fit struct {
	Multiple int `json:"multiple"`
	// Choose is the rule for the size:
	//
	//	area     both sides are rounded to multiples, half to even; an area
	//	         outside of Least to Most pixels is scaled into it (Qwen2-VL)
	//	longest  a side longer than Longest is reduced to it, the other in
	//	         proportion, and both are enlarged to multiples (Pixtral)
	Choose  string `json:"choose"`
	Least   int    `json:"least,omitempty"`
	Most    int    `json:"most,omitempty"`
	Longest int    `json:"longest,omitempty"`
}

// maxAspect limits the aspect ratio of an image that is fitted by its area, as
// transformers does.
const maxAspect = 200

func (f *Fit) check(wrong func(key, format string, args ...any)) {
	if !side(f.Multiple) {
		wrong("fit", "got multiple %d, want 1 to %d", f.Multiple, maxSide)
		return
	}
	switch f.Choose {
	case "area":
		if f.Least < 1 || f.Most < f.Least || f.Most < f.Multiple*f.Multiple || f.Most > MaxPixels || f.Longest != 0 {
			wrong("fit", "got areas of %d to %d pixels, want 1 or more to at most %d, and room for %d × %d", f.Least, f.Most, MaxPixels, f.Multiple, f.Multiple)
		}
	case "longest":
		if up := (f.Longest + f.Multiple - 1) / f.Multiple * f.Multiple; f.Longest < 1 || !side(up) || up*up > MaxPixels || f.Least != 0 || f.Most != 0 {
			wrong("fit", "got longest side %d in multiples of %d, want at least 1 and at most %d pixels", f.Longest, f.Multiple, MaxPixels)
		}
	default:
		wrong("fit", "got choose %q, want area or longest", f.Choose)
	}
}

// Bound returns the largest number of squares of Multiple × Multiple pixels that an
// image becomes.
func (f *Fit) Bound() int {
	if f.Choose == "area" {
		// Enlarging rounds both sides up, possibly beyond Most.
		most := f.Most / (f.Multiple * f.Multiple)
		return max(most, f.Least/(f.Multiple*f.Multiple)*2+maxAspect+2)
	}
	n := (f.Longest + f.Multiple - 1) / f.Multiple
	return n * n
}

// Size returns the size that an image of w × h is resized to.
func (f *Fit) Size(w, h int) (width, height int, err error) {
	if w < 1 || h < 1 {
		return 0, 0, fmt.Errorf("empty image of %d × %d", w, h)
	}
	if f.Choose == "longest" {
		width, height = f.shortened(w, h)
	} else if max(w, h) > maxAspect*min(w, h) {
		return 0, 0, fmt.Errorf("image of %d × %d is more than %d times longer than wide", w, h, maxAspect)
	} else {
		width, height = f.scaled(w, h)
	}
	if err := within(width, height); err != nil {
		return 0, 0, fmt.Errorf("resizing: %w", err)
	}
	return width, height, nil
}

// scaled implements the rule area.
func (f *Fit) scaled(w, h int) (int, int) {
	m, area := float64(f.Multiple), float64(w)*float64(h)
	sides := func(round func(v float64) float64) (int, int) {
		return int(round(float64(w))) * f.Multiple, int(round(float64(h))) * f.Multiple
	}
	width, height := sides(func(v float64) float64 { return math.RoundToEven(v / m) })
	switch n := width * height; {
	case n > f.Most:
		by := math.Sqrt(area / float64(f.Most))
		return sides(func(v float64) float64 { return max(1, math.Floor(v/by/m)) })
	case n < f.Least:
		by := math.Sqrt(float64(f.Least) / area)
		return sides(func(v float64) float64 { return math.Ceil(v * by / m) })
	}
	return width, height
}

// shortened implements the rule longest.
func (f *Fit) shortened(w, h int) (int, int) {
	if by := max(float64(w)/float64(f.Longest), float64(h)/float64(f.Longest)); by > 1 {
		w, h = int(math.Floor(float64(w)/by)), int(math.Floor(float64(h)/by))
	}
	up := func(n int) int { return (max(n, 1) + f.Multiple - 1) / f.Multiple * f.Multiple }
	return up(w), up(h)
}
