package preprocess

import (
	"context"
	"fmt"
)

// FromImage prepares an image in a format of [DecodeImage]. A cancellation of
// ctx stops the decoding.
func (s *Spec) FromImage(ctx context.Context, data []byte) (*Tensor, error) {
	r, err := decode(ctx, data, func(int, int, int) error { return nil })
	if err != nil {
		return nil, err
	}
	return s.FromRaster(ctx, r)
}

// FromRaster prepares an image of red, green and blue.
func (s *Spec) FromRaster(ctx context.Context, r *Raster) (*Tensor, error) {
	if s.Color == "gray" {
		r = r.gray()
	}
	w, h, err := s.size(r.W, r.H)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	if r, err = r.ResizeTo(w, h, s.Resample); err != nil {
		return nil, err
	}
	if s.Crop != nil {
		r = r.cropTo(s.Crop[1], s.Crop[0], s.CropRound == "down")
	}
	w, h = s.padded(max(r.W, s.MinWidth)), s.padded(r.H)
	if err = within(w, h); err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return s.lay(r, w, h), nil
}

// size returns the resized size of an image of w × h.
func (s *Spec) size(w, h int) (int, int, error) {
	switch {
	case s.Resize != nil:
		return s.Resize[1], s.Resize[0], nil
	case s.Fit != nil:
		return s.Fit.Size(w, h)
	case s.ShortestEdge != 0: // the longer side rounded down, as in torchvision
		if w <= h {
			h, w = int(int64(s.ShortestEdge)*int64(h)/int64(w)), s.ShortestEdge
		} else {
			w, h = int(int64(s.ShortestEdge)*int64(w)/int64(h)), s.ShortestEdge
		}
	case s.Height != 0: // the width rounded up, as in PP-OCR
		w, h = int((int64(s.Height)*int64(w)+int64(h)-1)/int64(h)), s.Height
		if s.MaxWidth != 0 {
			w = min(w, s.MaxWidth)
		}
	}
	if err := within(w, h); err != nil {
		return 0, 0, fmt.Errorf("resizing: %w", err)
	}
	return w, h, nil
}

// lay normalizes an image and lays it out, padded on the right and below.
func (s *Spec) lay(r *Raster, w, h int) *Tensor {
	out := newWriter(s.Element(), w*h*r.C)
	value := make([][256]float32, r.C)
	pad := make([]float32, r.C)
	for c := range r.C {
		for v := range 256 {
			value[c][v] = s.element(float64(v), c)
		}
		pad[c] = s.element(s.Pad, c)
	}
	shape := make([]int, 0, 4)
	var strideC, strideX int
	switch layout := s.layout(); layout {
	case "NHWC", "HWC":
		shape = append(shape, h, w, r.C)
		strideC, strideX = 1, r.C
	default:
		shape = append(shape, r.C, h, w)
		strideC, strideX = w*h, 1
	}
	if s.layout()[0] == 'N' {
		shape = append([]int{1}, shape...)
	}
	for y := range h {
		for x := range w {
			at := (y*w + x) * strideX
			for c := range r.C {
				v := pad[c]
				if x < r.W && y < r.H {
					from := c
					if s.Color == "bgr" {
						from = r.C - 1 - c
					}
					v = value[c][r.Pix[(y*r.W+x)*r.C+from]]
				}
				out.put(at+c*strideC, v)
			}
		}
	}
	return &Tensor{DType: s.Element(), Shape: shape, Data: out.data}
}

// element normalizes a value of a channel or band.
func (s *Spec) element(v float64, c int) float32 {
	if s.Scale != 0 {
		v *= s.Scale
	}
	return float32((v - at(s.Mean, c, 0)) / at(s.Std, c, 1))
}

// at returns the number of channel c in a list of none, one or one for each.
func at(list []float64, c int, none float64) float64 {
	switch len(list) {
	case 0:
		return none
	case 1:
		return list[0]
	}
	return list[c]
}
