package net

import (
	"fmt"
	"math"

	"mm-abi.org/mm/train/nn"
)

// picture sets the height of the image in input 0: the layer's Height, the
// known height, or the square root of the rows.
func (s *Step) picture() error {
	rows := s.Takes[0].Rows
	if s.Height == 0 {
		s.Height = s.Takes[0].Height
	}
	if root := int(math.Sqrt(float64(rows))); s.Height == 0 && root*root == rows {
		s.Height = root
	}
	switch {
	case s.Height == 0:
		return fmt.Errorf("%s has %d rows, not a square: height is required", s.Takes[0].Name, rows)
	case s.Height < 0 || rows%s.Height != 0:
		return fmt.Errorf("%s has %d rows, not a multiple of height %d", s.Takes[0].Name, rows, s.Height)
	}
	return nil
}

// line reports whether the layer works along one axis.
func (s *Step) line() bool {
	return s.Kind == "conv1d" || s.Kind == "conv1d_transpose" || s.Kind == "upsample1d"
}

// Geometry returns the windows of a convolution: over the input or, if
// transposed, over the output.
func (s *Step) Geometry() nn.Geometry {
	g := nn.Geometry{H: 1, W: s.Takes[0].Rows, C: s.Takes[0].Cols}
	if !s.line() {
		g.H, g.W = s.Height, s.Takes[0].Rows/s.Height
	}
	if s.Kind == "conv1d_transpose" || s.Kind == "conv2d_transpose" {
		g.H, g.C = 1, s.Gives.Cols
		if !s.line() {
			g.H = s.Gives.Height
		}
		g.W = s.Gives.Rows / g.H
	}
	g.KH, g.KW = s.Kernel.both(1)
	g.SH, g.SW = s.Stride.both(1)
	g.PH, g.PW = s.Pad.both(0)
	if s.line() {
		g.KH, g.SH, g.PH = 1, 1, 0
	}
	return g
}

// Depthwise reports whether every channel has its own kernel.
func (s *Step) Depthwise() bool {
	return s.Groups > 1 && s.Groups == s.Takes[0].Cols && s.Groups == s.Gives.Cols
}

// windows checks the parameters of windows.
func (s *Step) windows() error {
	if !s.line() {
		if err := s.picture(); err != nil {
			return err
		}
	}
	if err := positive("out", s.Layer.Out); err != nil {
		return err
	}
	for _, p := range []struct {
		name  string
		sizes Sizes
		least int
	}{{"kernel", s.Kernel, 1}, {"stride", s.Stride, 1}, {"pad", s.Pad, 0}} {
		if s.line() && len(p.sizes) > 1 {
			return fmt.Errorf("%s %v has two numbers, want one for one axis", p.name, p.sizes)
		}
		for _, n := range p.sizes {
			if n < p.least || n > 1<<12 {
				return fmt.Errorf("%s out of range: got %v, want %d to %d", p.name, p.sizes, p.least, 1<<12)
			}
		}
	}
	if len(s.Kernel) == 0 {
		return fmt.Errorf("missing kernel")
	}
	if s.Groups == 0 {
		s.Groups = 1
	}
	if s.Groups < 1 || s.Takes[0].Cols%s.Groups != 0 || s.Layer.Out%s.Groups != 0 {
		return fmt.Errorf("%d groups do not divide %d and %d channels", s.Groups, s.Takes[0].Cols, s.Layer.Out)
	}
	return nil
}

func inferConv(b *builder, s *Step) error {
	if err := s.windows(); err != nil {
		return err
	}
	s.Gives.Cols = s.Layer.Out
	g := s.Geometry()
	if g.OH() < 1 || g.OW() < 1 {
		return fmt.Errorf("a window of %d×%d does not fit %d×%d with padding %d and %d", g.KH, g.KW, g.H, g.W, g.PH, g.PW)
	}
	s.Gives = Port{Name: s.Name, Rows: g.OH() * g.OW(), Cols: s.Layer.Out}
	if !s.line() {
		s.Gives.Height = g.OH()
	}
	taps := g.KH * g.KW
	if s.Depthwise() {
		b.vector(s.Name+".weight", start{std: math.Sqrt(2 / float64(taps))}, taps, g.C)
	} else {
		n := taps * g.C / s.Groups
		b.matrix(s.Name, -1, n, s.Layer.Out, start{std: math.Sqrt(2 / float64(n))})
	}
	b.bias(s.Name, s.Layer.Out, s.NoBias)
	return nil
}

func inferTransposed(b *builder, s *Step) error {
	if err := s.windows(); err != nil {
		return err
	}
	kh, kw := s.Kernel.both(1)
	sh, sw := s.Stride.both(1)
	ph, pw := s.Pad.both(0)
	h, w := s.Height, 0
	if s.line() {
		h, kh, sh, ph = 1, 1, 1, 0
	}
	w = s.Takes[0].Rows / h
	H, W := (h-1)*sh+kh-2*ph, (w-1)*sw+kw-2*pw
	if H < 1 || W < 1 || ph >= kh || pw >= kw {
		return fmt.Errorf("padding %d and %d leaves no output", ph, pw)
	}
	s.Gives = Port{Name: s.Name, Rows: H * W, Cols: s.Layer.Out}
	if !s.line() {
		s.Gives.Height = H
	}
	in := s.Takes[0].Cols
	n := kh * kw * s.Layer.Out
	overlap := max(1, kh*kw/(sh*sw))
	b.matrix(s.Name, -1, n, in, start{std: math.Sqrt(2 / float64(in*overlap))})
	b.bias(s.Name, s.Layer.Out, s.NoBias)
	return nil
}

func inferUpsample(b *builder, s *Step) error {
	if err := positive("factor", s.Factor); err != nil {
		return err
	}
	if s.Factor > 1<<10 {
		return fmt.Errorf("factor is %d, want at most 1024", s.Factor)
	}
	in := s.Takes[0]
	if s.line() {
		s.gives(in.Rows*s.Factor, in.Cols)
		return nil
	}
	if err := s.picture(); err != nil {
		return err
	}
	s.gives(in.Rows*s.Factor*s.Factor, in.Cols)
	s.Gives.Height = s.Height * s.Factor
	return nil
}

func inferShuffle(b *builder, s *Step) error {
	if err := positive("factor", s.Factor); err != nil {
		return err
	}
	if err := s.picture(); err != nil {
		return err
	}
	in, n := s.Takes[0], s.Factor*s.Factor
	if s.Factor > 1<<10 || in.Cols%n != 0 {
		return fmt.Errorf("%d channels are not a multiple of %d", in.Cols, n)
	}
	s.gives(in.Rows*n, in.Cols/n)
	s.Gives.Height = s.Height * s.Factor
	return nil
}
