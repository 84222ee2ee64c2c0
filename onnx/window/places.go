package window

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/quant"
)

// The inputs of a step that depend on positions alone. Layers with a sliding
// window use the local ones, where they differ.
const (
	Cos        = "cos"        // [n, R/2], the rotation of each position
	Sin        = "sin"        // [n, R/2]
	Masks      = "mask"       // [n, W+n], 0 for a visible position
	LocalCos   = "cos_local"  // [n, R/2]
	LocalSin   = "sin_local"  // [n, R/2]
	LocalMasks = "mask_local" // [n, W+n]
)

// Side is an input of a step that depends on positions alone.
type Side struct {
	Name string
	Dims []int
}

// Sides lists the side inputs of a span of layers, in a fixed order.
func Sides(s arch.Shape, span Span, window, n int) (out []Side) {
	used := map[string]bool{}
	for i := span.First; i < span.End(); i++ {
		cos, sin, mask := sidesOf(s, i, window+n)
		used[cos], used[sin], used[mask] = true, true, true
	}
	for _, side := range []Side{
		{Cos, []int{n, s.Rope.Dims / 2}}, {Sin, []int{n, s.Rope.Dims / 2}}, {Masks, []int{n, window + n}},
		{LocalCos, []int{n, s.Rope.Dims / 2}}, {LocalSin, []int{n, s.Rope.Dims / 2}}, {LocalMasks, []int{n, window + n}},
	} {
		if used[side.Name] {
			out = append(out, side)
		}
	}
	return out
}

// sidesOf returns the names of the side inputs of layer i if so many positions
// are visible at most; without rotation, cos and sin are empty.
func sidesOf(s arch.Shape, i, positions int) (cos, sin, mask string) {
	cos, sin, mask = Cos, Sin, Masks
	width := s.WindowOf(i)
	if width > 0 && s.Local != nil {
		cos, sin = LocalCos, LocalSin
	}
	if !s.Rotated(i) {
		cos, sin = "", ""
	}
	if width > 0 && width < positions {
		mask = LocalMasks
	}
	return cos, sin, mask
}

// turn is a rotation: an angle for each pair and position, and a factor.
type turn struct {
	theta []float64
	scale float64
}

// Places computes the side inputs of a model.
type Places struct {
	shape       arch.Shape
	turn, local turn
}

// NewPlaces returns the side inputs of a model whose texts have so many
// positions at most.
func NewPlaces(f *gguf.File, positions int) (*Places, error) {
	s, err := arch.Read(f)
	if err != nil {
		return nil, err
	}
	p := &Places{shape: s}
	if s.Style().Learned {
		return p, nil
	}
	divisors, err := divisors(f, s, positions)
	if err != nil {
		return nil, err
	}
	p.turn.theta, p.turn.scale = s.Rope.Frequencies(divisors)
	if s.Local != nil {
		p.local.theta, p.local.scale = s.Local.Frequencies(nil)
	}
	return p, nil
}

// divisors reads the divisors of frequencies; nil without such a tensor.
func divisors(f *gguf.File, s arch.Shape, positions int) ([]float32, error) {
	name := arch.RopeFreqs
	if s.Rope.Scaling == arch.LongRope {
		if name = arch.RopeShort; positions > s.Rope.OriginalContext {
			name = arch.RopeLong
		}
	}
	t, ok := f.Tensor(name)
	if !ok {
		return nil, nil
	}
	if t.Elements() != s.Rope.Dims/2 || !quant.CanDequantize(t.Type) {
		return nil, fmt.Errorf("tensor %s: got %v of %v, want %d numbers", name, t.Dims, t.Type, s.Rope.Dims/2)
	}
	out := make([]float32, t.Elements())
	quant.Dequantize(out, t.Data, t.Type)
	for i, v := range out {
		if !(v > 0) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("tensor %s: got divisor %v at %d, want a positive number", name, v, i)
		}
	}
	return out, nil
}

// Inputs returns the side inputs of all layers for n positions after from
// earlier ones, of which a cache holds window at most.
func (p *Places) Inputs(window, from, n int) map[string][]float32 {
	out := map[string][]float32{}
	for _, side := range Sides(p.shape, Span{Count: p.shape.Layers}, window, n) {
		out[side.Name] = p.side(side.Name, window, from, n)
	}
	return out
}

func (p *Places) side(name string, window, from, n int) []float32 {
	switch name {
	case Cos, LocalCos:
		return p.of(name == LocalCos).table(from, n, math.Cos)
	case Sin, LocalSin:
		return p.of(name == LocalSin).table(from, n, math.Sin)
	case LocalMasks:
		return mask(window, n, from, p.shape.Window)
	}
	return mask(window, n, from, 0)
}

// Rotation returns the angles of position 1 and the factor of their cosines and
// sines, those of layers with a sliding window if local is set.
func (p *Places) Rotation(local bool) (theta []float64, scale float64) {
	r := p.of(local)
	return r.theta, r.scale
}

func (p *Places) of(local bool) turn {
	if local {
		return p.local
	}
	return p.turn
}

// table returns a function of the angles of n positions from one on.
func (r turn) table(from, n int, of func(float64) float64) []float32 {
	out := make([]float32, 0, n*len(r.theta))
	for t := range n {
		for _, theta := range r.theta {
			out = append(out, float32(of(float64(from+t)*theta)*r.scale))
		}
	}
	return out
}

// mask returns the score offsets of n positions for window earlier positions,
// of which the first held are used, and for themselves: n × (window+n) numbers.
// If width is not 0, each sees that many positions at most.
func mask(window, n, held, width int) []float32 {
	out := make([]float32, n*(window+n))
	for t := range n {
		row := out[t*(window+n):][:window+n]
		for u := range row {
			at, there := u, u < held // the position of column u
			if u >= window {
				at, there = held+u-window, u-window <= t
			}
			if !there || width > 0 && at <= held+t-width {
				row[u] = Masked
			}
		}
	}
	return out
}
