package part

import (
	"fmt"
	"math"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
)

// latents returns the first input of a decoder, which takes the core's states.
func latents(dec Side) (abi.Port, error) {
	if dec.Manifest == nil || len(dec.Manifest.Inputs) == 0 {
		return abi.Port{}, fmt.Errorf("%s: no inputs", dec.ID)
	}
	p := dec.Manifest.Inputs[0]
	if len(p.Shape) != 2 {
		return p, fmt.Errorf("%s: input %s, want [T_dec, d_model]", dec.ID, p)
	}
	return p, nil
}

// axisSize returns the size of a dimension of a port: its number, a figure of that
// name in the manifest, or the size in the file; 0 if it is open.
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

// StateCount returns T_dec, how many of the last states a decoder takes; 0 is all.
func StateCount(dec Side) (int, error) {
	p, err := latents(dec)
	if err != nil {
		return 0, err
	}
	n := axisSize(dec, p, 0)
	if n > math.MaxInt32 {
		return 0, fmt.Errorf("%s: input %s of %d states", dec.ID, p, n)
	}
	return int(n), nil
}

// States returns the first input of a decoder from the core's states, n × width:
// the last T_dec of them, preceded by zeros if there are fewer, or all if T_dec is
// open. This is the rule of MM-ABI for decoders.
func States(dec Side, x []float32, width int) (name string, t runtimes.Tensor, err error) {
	p, err := latents(dec)
	if err != nil {
		return "", t, err
	}
	if n64 := axisSize(dec, p, 1); n64 != 0 && n64 != int64(width) {
		return "", t, fmt.Errorf("%s: input %s has width %d, the core's states have width %d", dec.ID, p, n64, width)
	}
	want, err := StateCount(dec)
	if err != nil {
		return "", t, err
	}
	count := len(x) / width
	if want == 0 {
		want = count
	}
	if want < 1 {
		return "", t, fmt.Errorf("%s: input %s, but the core has no states", dec.ID, p)
	}
	if count > want {
		x = x[(count-want)*width:]
	} else if count < want {
		x = append(make([]float32, (want-count)*width, want*width), x...)
	}
	for i, v := range x {
		if v != v || math.IsInf(float64(v), 0) {
			return "", t, fmt.Errorf("element %d of the core's states is %v", i, v)
		}
	}
	t, ok := tensorOf(x, []int64{int64(want), int64(width)}, declared(dec.Manifest, p))
	if !ok {
		return "", t, fmt.Errorf("%s: input %s, want a floating point type", dec.ID, p)
	}
	t, err = MatchRank(t, dec, p.Name)
	return p.Name, t, err
}

// MatchRank adds or removes the leading batch dimension of one to match an input of
// a part's file.
func MatchRank(t runtimes.Tensor, s Side, input string) (runtimes.Tensor, error) {
	dims, ok := s.Dims[input]
	if !ok || len(dims) == 0 && len(t.Shape) == 0 {
		return t, nil
	}
	out, err := ranked(t, len(dims))
	if len(dims) == 0 && len(t.Shape) == 1 && t.Shape[0] == 1 { // a scalar
		out.Shape, err = []int64{}, nil
	}
	if err != nil {
		return t, fmt.Errorf("%s: got %s for input %s: %w", s.ID, describeTensor(t), input, err)
	}
	return out, nil
}

// Output returns an output of a part and checks it against its port. Sizes that
// the manifest leaves open may have any value.
func Output(s Side, port abi.Port, outputs map[string]runtimes.Tensor) (runtimes.Tensor, error) {
	t, ok := outputs[port.Name]
	if !ok {
		return t, fmt.Errorf("%s: missing output %s", s.ID, port)
	}
	var sizes abi.Binding
	for _, f := range s.Manifest.Bind(&sizes) {
		return t, fmt.Errorf("%s: %w", s.ID, f)
	}
	if err := fits(t, port, s.ID, &sizes); err != nil {
		return t, fmt.Errorf("%s: got %s for output %s: %w", s.ID, describeTensor(t), port, err)
	}
	return t, t.Check()
}

// Fill returns the tensor of an input that takes generated numbers; count returns
// n of them.
func Fill(s Side, port abi.Port, count func(n int) []float32) (runtimes.Tensor, error) {
	shape, n, err := fillShape(s, port)
	if err != nil {
		return runtimes.Tensor{}, err
	}
	t, ok := tensorOf(count(n), shape, declared(s.Manifest, port))
	if !ok {
		return t, fmt.Errorf("%s: input %s, want a floating point type", s.ID, port)
	}
	return MatchRank(t, s, port.Name)
}

// maxFill bounds the generated numbers of one input.
const maxFill = 64 << 20

// fillShape returns the shape of an input and the number of its elements.
func fillShape(s Side, port abi.Port) (shape []int64, n int, err error) {
	n = 1
	for i := range port.Shape {
		d := axisSize(s, port, i)
		if d < 1 || d > maxFill/int64(n) {
			return nil, 0, fmt.Errorf("%s: input %s: dimension %d is open, or more than %d numbers", s.ID, port, i, maxFill)
		}
		shape, n = append(shape, d), n*int(d)
	}
	return shape, n, nil
}
