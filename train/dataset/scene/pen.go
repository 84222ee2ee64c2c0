package scene

import (
	"image"
	"image/draw"

	"golang.org/x/image/vector"

	"mm-abi.org/mm/train/dataset/fonts"
)

// unit is one pixel in geometry.
const unit = 256

// point is a position, in 1/256 of a pixel, from the top left.
type point struct{ x, y int }

// pen draws one scene at a time.
type pen struct {
	dice
	held, plain bool
	small       bool         // most texts are small
	size        int          // pixels
	frames      int          // of a video
	fonts       []fonts.Font // of the split
	rgb         []byte       // [size, size, 3]
	fill        vector.Rasterizer
	mask        image.Alpha
	other       []byte // [size, size, 3], for filters
	marks       []Mark // of the drawn signs
}

func newPen(s *Source) *pen {
	return &pen{held: s.opt.Split == Held, plain: s.opt.Plain, small: s.opt.Small && s.opt.Split == Train, size: s.opt.Size, frames: s.opt.Frames, fonts: s.fonts}
}

// px scales a length for an image of 128 pixels, in 1/256 of those.
func (p *pen) px(v int) int { return v * p.size / 128 }

// sines is the first quarter of a wave, times 32768.
var sines = [65]int{
	0, 804, 1608, 2411, 3212, 4011, 4808, 5602, 6393, 7180, 7962, 8740, 9512, 10279, 11039, 11793, 12540, 13279, 14010, 14733, 15447, 16151,
	16846, 17531, 18205, 18868, 19520, 20160, 20788, 21403, 22006, 22595, 23170, 23732, 24279, 24812, 25330, 25833, 26320, 26791, 27246,
	27684, 28106, 28511, 28899, 29269, 29622, 29957, 30274, 30572, 30853, 31114, 31357, 31581, 31786, 31972, 32138, 32286, 32413, 32522,
	32610, 32679, 32729, 32758, 32768,
}

// turn is a full circle in the unit of angles.
const turn = 1024

// sin returns the sine of an angle in 1/1024 of a circle, times 32768.
func sin(a int) int {
	a &= turn - 1
	switch {
	case a >= 512:
		return -sin(a - 512)
	case a > 256:
		return sin(512 - a)
	}
	i, rest := a/4, a%4
	if rest == 0 {
		return sines[i]
	}
	return (sines[i]*(4-rest) + sines[i+1]*rest) / 4
}

func cos(a int) int { return sin(a + 256) }

// rotated rotates a point around the origin, clockwise in the image.
func (q point) rotated(a int) point {
	if a == 0 {
		return q
	}
	s, c, x, y := int64(sin(a)), int64(cos(a)), int64(q.x), int64(q.y)
	return point{int((x*c - y*s) >> 15), int((x*s + y*c) >> 15)}
}

// coverage fills contours and returns the coverage of each pixel, and the
// position of the mask in the image, or nil if they are outside. The mask is
// valid until the next call. The rasterizer receives only lines, below its size
// limit for images, so that it computes in integers.
func (p *pen) coverage(contours [][]point) (image.Rectangle, *image.Alpha) {
	if len(contours) == 0 {
		return image.Rectangle{}, nil
	}
	lo, hi := point{1 << 30, 1 << 30}, point{-1 << 30, -1 << 30}
	for _, c := range contours {
		for _, q := range c {
			lo, hi = point{min(lo.x, q.x), min(lo.y, q.y)}, point{max(hi.x, q.x), max(hi.y, q.y)}
		}
	}
	box := image.Rect(lo.x>>8, lo.y>>8, (hi.x+unit-1)>>8, (hi.y+unit-1)>>8).Intersect(image.Rect(0, 0, p.size, p.size))
	if box.Empty() {
		return box, nil
	}
	w, h := box.Dx(), box.Dy()
	p.fill.Reset(w, h)
	p.fill.DrawOp = draw.Src
	at := func(q point) (x, y float32) {
		return float32(q.x-box.Min.X*unit) / unit, float32(q.y-box.Min.Y*unit) / unit
	}
	for _, c := range contours {
		for i, q := range c {
			if x, y := at(q); i == 0 {
				p.fill.MoveTo(x, y)
			} else {
				p.fill.LineTo(x, y)
			}
		}
		p.fill.ClosePath()
	}
	if cap(p.mask.Pix) < w*h {
		p.mask.Pix = make([]byte, p.size*p.size)
	}
	p.mask.Pix, p.mask.Stride, p.mask.Rect = p.mask.Pix[:w*h], w, image.Rect(0, 0, w, h)
	p.fill.Draw(&p.mask, p.mask.Rect, image.Opaque, image.Point{})
	return box, &p.mask
}

// paint fills contours with a color.
func (p *pen) paint(contours [][]point, c rgb) {
	box, mask := p.coverage(contours)
	if mask == nil {
		return
	}
	w := box.Dx()
	for y := range box.Dy() {
		row := p.rgb[3*((box.Min.Y+y)*p.size+box.Min.X):][:3*w]
		for x, a := range mask.Pix[y*w : y*w+w] {
			if a != 0 {
				blend(row[3*x:3*x+3], c, int(a))
			}
		}
	}
}

// blend blends a/255 of c over a pixel.
func blend(pix []byte, c rgb, a int) {
	for i, v := range c {
		pix[i] = uint8((int(pix[i])*(255-a) + int(v)*a + 127) / 255)
	}
}

// box returns a rectangle's contour.
func box(x0, y0, x1, y1 int) [][]point {
	return [][]point{{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}}
}
