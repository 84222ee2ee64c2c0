package part

import (
	"fmt"
	"math"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
)

// latents is the input of a decoder that takes the core's states: the first.
func latents(dec Side) (abi.Port, error) {
	if dec.Manifest == nil || len(dec.Manifest.Inputs) == 0 {
		return abi.Port{}, fmt.Errorf("%s takes nothing", dec.ID)
	}
	p := dec.Manifest.Inputs[0]
	if len(p.Shape) != 2 {
		return p, fmt.Errorf("%s takes %s: the states of a core are [T_dec, d_model]", dec.ID, p)
	}
	return p, nil
}

// size is what a dimension of a port is: by its number, by a figure of the
// manifest under its name, or by the file; 0 is one that is open.
func axisSize(s Side, p abi.Port, axis int) int64 {
	d := p.Shape[axis]
	if d.Name == "" {
		return d.Size
	}
	for _, figures := range []modules.Figures{s.Manifest.Params, s.Manifest.Caps} {
		if n, ok := figures.Int(d.Name); ok && n > 0 {
			return n
		}
	}
	dims := s.Dims[p.Name]
	if at := axis + len(dims) - len(p.Shape); at >= 0 && at < len(dims) {
		return dims[at]
	}
	return 0
}

// Wanted is how many states a decoder takes, T_dec: the last of those that
// there are. 0 is all of them.
func StateCount(dec Side) (int, error) {
	p, err := latents(dec)
	if err != nil {
		return 0, err
	}
	n := axisSize(dec, p, 0)
	if n > math.MaxInt32 {
		return 0, fmt.Errorf("%s takes %s of %d states", dec.ID, p, n)
	}
	return int(n), nil
}

// States is what the first input of a decoder is given of the core's states,
// n × width: the last T_dec of them, behind zeros where there are fewer; all,
// where nothing says T_dec. It is the rule of MM-ABI for decoders.
func States(dec Side, x []float32, width int) (name string, t runtimes.Tensor, err error) {
	p, err := latents(dec)
	if err != nil {
		return "", t, err
	}
	if own := axisSize(dec, p, 1); own != 0 && own != int64(width) {
		return "", t, fmt.Errorf("%s takes %s %d wide, the core's states are %d wide", dec.ID, p, own, width)
	}
	want, err := StateCount(dec)
	if err != nil {
		return "", t, err
	}
	have := len(x) / width
	if want == 0 {
		want = have
	}
	if want < 1 {
		return "", t, fmt.Errorf("%s takes %s, and the core has read nothing", dec.ID, p)
	}
	if have > want {
		x = x[(have-want)*width:]
	} else if have < want {
		x = append(make([]float32, (want-have)*width, want*width), x...)
	}
	for i, v := range x {
		if v != v || math.IsInf(float64(v), 0) {
			return "", t, fmt.Errorf("number %d of the core's states is %v", i, v)
		}
	}
	t, ok := tensorOf(x, []int64{int64(want), int64(width)}, declared(dec.Manifest, p))
	if !ok {
		return "", t, fmt.Errorf("%s takes %s: the core's states are floating point", dec.ID, p)
	}
	t, err = MatchRank(t, dec, p.Name)
	return p.Name, t, err
}

// Batched gives a tensor the leading batch of one that an input of a part's file
// has, or takes it away.
func MatchRank(t runtimes.Tensor, s Side, input string) (runtimes.Tensor, error) {
	dims, known := s.Dims[input]
	if !known || len(dims) == 0 && len(t.Shape) == 0 {
		return t, nil
	}
	out, err := ranked(t, len(dims))
	if len(dims) == 0 && len(t.Shape) == 1 && t.Shape[0] == 1 { // a scalar
		out.Shape, err = []int64{}, nil
	}
	if err != nil {
		return t, fmt.Errorf("%s is given %s for %s: %w", s.ID, describeTensor(t), input, err)
	}
	return out, nil
}

// Given is one output of a part, which is as its port promises. Sizes that the
// manifest leaves open are what they are.
func Output(s Side, port abi.Port, given map[string]runtimes.Tensor) (runtimes.Tensor, error) {
	t, ok := given[port.Name]
	if !ok {
		return t, fmt.Errorf("%s promises %s and did not give it", s.ID, port)
	}
	var sizes abi.Binding
	for _, f := range s.Manifest.Bind(&sizes) {
		return t, fmt.Errorf("%s: %w", s.ID, f)
	}
	if err := fits(t, port, s.ID, &sizes); err != nil {
		return t, fmt.Errorf("%s gave %s for its %s: %w", s.ID, describeTensor(t), port, err)
	}
	return t, t.Check()
}

// Fill makes the tensor of an input that takes numbers: one number throughout,
// or as many as there are.
func Fill(s Side, port abi.Port, count func(n int) []float32) (runtimes.Tensor, error) {
	n := int64(1)
	shape := make([]int64, len(port.Shape))
	for i := range port.Shape {
		d := axisSize(s, port, i)
		if d < 1 || n > maxFill/d {
			return runtimes.Tensor{}, fmt.Errorf("%s takes %s: dimension %d has no size, or too much of it", s.ID, port, i)
		}
		shape[i], n = d, n*d
	}
	t, ok := tensorOf(count(int(n)), shape, declared(s.Manifest, port))
	if !ok {
		return t, fmt.Errorf("%s takes %s: noise is floating point", s.ID, port)
	}
	return MatchRank(t, s, port.Name)
}

// maxFill bounds the numbers that one input is filled with.
const maxFill = 64 << 20
