package preprocess

import (
	"image"
	"image/color"
)

// chroma interpolates the colors of a subsampled image to its full width, a row
// at a time, as libjpeg and libwebp do. Repeating the samples would differ from
// what models were trained on by a hundred levels at edges.
type chroma struct {
	m    *image.YCbCr
	webp bool
	cb   []uint8
	cr   []uint8
}

func newChroma(m *image.YCbCr, webp bool) *chroma {
	return &chroma{m: m, webp: webp, cb: make([]uint8, m.Rect.Dx()+1), cr: make([]uint8, m.Rect.Dx()+1)}
}

// row returns a function for the colors of row y.
func (c *chroma) row(y int) func(x int) (r, g, b uint8) {
	m := c.m
	luma := m.Y[m.YOffset(m.Rect.Min.X, m.Rect.Min.Y+y):]
	if !c.spread(y) {
		return func(x int) (uint8, uint8, uint8) {
			v := m.YCbCrAt(m.Rect.Min.X+x, m.Rect.Min.Y+y)
			return color.YCbCrToRGB(v.Y, v.Cb, v.Cr)
		}
	}
	if c.webp {
		return func(x int) (uint8, uint8, uint8) { return studio(luma[x], c.cb[x], c.cr[x]) }
	}
	return func(x int) (uint8, uint8, uint8) { return color.YCbCrToRGB(luma[x], c.cb[x], c.cr[x]) }
}

// spread fills cb and cr for row y. It reports false if the samples of this
// subsampling are repeated.
func (c *chroma) spread(y int) bool {
	w, h := c.m.Rect.Dx(), c.m.Rect.Dy()
	half := (w + 1) / 2
	switch ratio := c.m.SubsampleRatio; {
	case ratio == image.YCbCrSubsampleRatio420 && c.webp:
		c.each(half, y, h, false, func(out, near, far []uint8) { diamond(out[:w], near, far) })
	case ratio == image.YCbCrSubsampleRatio420 && half > 2:
		c.each(half, y, h, false, func(out, near, far []uint8) { triangles(out[:w], near, far) })
	case ratio == image.YCbCrSubsampleRatio422 && half > 2:
		c.each(half, y, h, true, func(out, near, _ []uint8) { triangle(out[:w], near) })
	case ratio == image.YCbCrSubsampleRatio440:
		bias := 1 + y&1
		c.each(w, y, h, false, func(out, near, far []uint8) {
			for x := range near {
				out[x] = uint8((3*int(near[x]) + int(far[x]) + bias) >> 2)
			}
		})
	default:
		return false
	}
	return true
}

// each calls do for both planes with the row of samples that covers row y and
// its neighbor on the other side of y; full planes have a row of samples for
// each row.
func (c *chroma) each(width, y, h int, full bool, do func(out, near, far []uint8)) {
	near, far := y, y
	if !full {
		near = y / 2
		far = max(min(near-1+2*(y&1), (h+1)/2-1), 0)
	}
	do(c.cb, c.m.Cb[near*c.m.CStride:][:width], c.m.Cb[far*c.m.CStride:][:width])
	do(c.cr, c.m.Cr[near*c.m.CStride:][:width], c.m.Cr[far*c.m.CStride:][:width])
}

// triangle is libjpeg's h2v1_fancy_upsample.
func triangle(out, in []uint8) {
	for x := range out {
		i := x / 2
		next := max(min(i-1+2*(x&1), len(in)-1), 0)
		out[x] = uint8((3*int(in[i]) + int(in[next]) + 1 + x&1) >> 2)
	}
}

// triangles is libjpeg's h2v2_fancy_upsample.
func triangles(out, near, far []uint8) {
	column := func(i int) int { return 3*int(near[i]) + int(far[i]) }
	for x := range out {
		i := x / 2
		next := max(min(i-1+2*(x&1), len(near)-1), 0)
		out[x] = uint8((3*column(i) + column(next) + 8 - x&1) >> 4)
	}
}

// diamond is libwebp's UpsampleLinePair, of one row.
func diamond(out, near, far []uint8) {
	for x := range out {
		i := x / 2
		next := i - 1 + 2*(x&1)
		if next < 0 || next >= len(near) {
			out[x] = uint8((3*int(near[i]) + int(far[i]) + 2) >> 2)
			continue
		}
		n, s, f, d := int(near[i]), int(near[next]), int(far[i]), int(far[next])
		out[x] = uint8(((n+s+f+d+8+2*(s+f))>>3 + n) >> 1)
	}
}

// studio converts luma of 16 to 235 and chroma of 16 to 240, the range of WebP,
// with libwebp's constants.
func studio(y, cb, cr uint8) (r, g, b uint8) {
	high := func(v uint8, by int) int { return int(v) * by >> 8 }
	clip := func(v int) uint8 { return uint8(max(min(v>>6, 255), 0)) }
	l := high(y, 19077)
	return clip(l + high(cr, 26149) - 14234), clip(l - high(cb, 6419) - high(cr, 13320) + 8708), clip(l + high(cb, 33050) - 17685)
}
