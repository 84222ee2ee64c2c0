package arith

import (
	"fmt"
	"math"
	"math/cmplx"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// scalar returns the integer in an input; absent if it is omitted.
func scalar(c *kernel.Call, i, absent int) (int, error) {
	list, err := c.Integers(i)
	switch {
	case err != nil:
		return 0, err
	case c.Input(i) == nil:
		return absent, nil
	case len(list) != 1:
		return 0, fmt.Errorf("input %d: got %d numbers, want one", i, len(list))
	}
	return list[0], nil
}

// spectral creates output 0 of the type of the signal and a function that
// writes its numbers.
func spectral(c *kernel.Call, shape []int) (func(i int, v float64), *kernel.Array, error) {
	out, err := c.Result(0, c.In[0].Type, shape...)
	if err != nil {
		return nil, nil, err
	}
	if out.Type == onnx.DOUBLE {
		o := kernel.Elements[float64](out)
		return func(i int, v float64) { o[i] = v }, out, nil
	}
	o := kernel.Elements[float32](out)
	return func(i int, v float64) { o[i] = float32(v) }, out, nil
}

// signal returns the numbers of the first input, whose last dimension has real
// numbers (1) or pairs of real and imaginary parts (2).
func signal(c *kernel.Call) (x []float64, parts int, err error) {
	a := c.In[0]
	if a.Type != onnx.FLOAT && a.Type != onnx.DOUBLE || a.Rank() < 2 || a.Dim(-1) != 1 && a.Dim(-1) != 2 {
		return nil, 0, fmt.Errorf("got a signal of %s %v, want floats with a last dimension of 1 or 2", a.Type, a.Shape)
	}
	x, err = c.Doubles(0)
	return x, a.Dim(-1), err
}

// dft computes DFT: the transform along one axis.
func dft(c *kernel.Call) error {
	x, parts, err := signal(c)
	if err != nil {
		return err
	}
	axis := c.Int("axis", 1)
	if c.Opset >= 20 {
		if axis, err = scalar(c, 2, -2); err != nil {
			return err
		}
	}
	rank := c.In[0].Rank()
	if axis, err = kernel.Axis(axis, rank); err != nil || axis == rank-1 {
		return fmt.Errorf("axis %d of %v: %v", axis, c.In[0].Shape, err)
	}
	inverse, onesided, have := c.Int("inverse", 0) != 0, c.Int("onesided", 0) != 0, c.In[0].Shape[axis]
	absent := have
	if inverse && onesided {
		absent = 2 * (have - 1)
	}
	n, err := scalar(c, 1, absent)
	if err != nil {
		return err
	}
	shape, room := append([]int(nil), c.In[0].Shape...), n
	shape[axis], shape[rank-1] = n, 2
	switch {
	case inverse && onesided:
		shape[rank-1], room = 1, n/2+1
	case onesided:
		shape[axis] = n/2 + 1
	}
	if n < 1 || onesided && !inverse && parts == 2 {
		return fmt.Errorf("cannot transform %v to a length of %d", c.In[0].Shape, n)
	}
	put, out, err := spectral(c, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	inner, results := kernel.Product(shape[axis+1:rank-1]), shape[axis]
	f, from, to := newFourier(n), make([]complex128, n), make([]complex128, n)
	for r := range out.Len() / results / shape[rank-1] {
		if c.Ended() {
			return c.Context.Err()
		}
		at := func(k, length int) int { return (r/inner*length+k)*inner + r%inner }
		clear(from)
		for k := range min(have, room) {
			i := at(k, have) * parts
			from[k] = complex(x[i], 0)
			if parts == 2 {
				from[k] = complex(x[i], x[i+1])
			}
			if inverse && onesided && k > 0 {
				from[n-k] = cmplx.Conj(from[k])
			}
		}
		if inverse {
			f.inverse(to, from)
		} else {
			f.forward(to, from)
		}
		for k := range results {
			i := at(k, results) * shape[rank-1]
			put(i, real(to[k]))
			if shape[rank-1] == 2 {
				put(i+1, imag(to[k]))
			}
		}
	}
	return nil
}

// framed returns the signal of STFT, [batch, length, parts], or [batch, length] of
// real numbers, which ONNX Runtime accepts and exporters write.
func framed(c *kernel.Call) (x []float64, parts int, err error) {
	a := c.In[0]
	switch float := a.Type == onnx.FLOAT || a.Type == onnx.DOUBLE; {
	case a.Rank() == 2 && float:
		x, err = c.Doubles(0)
		return x, 1, err
	case a.Rank() != 3:
		return nil, 0, fmt.Errorf("got a signal of %s %v, want floats of two or three dimensions", a.Type, a.Shape)
	}
	return signal(c)
}

// stft computes STFT: transforms of overlapping frames of a signal.
func stft(c *kernel.Call) error {
	x, parts, err := framed(c)
	if err != nil {
		return err
	}
	batch, length := c.In[0].Shape[0], c.In[0].Shape[1]
	step, err := scalar(c, 1, 0)
	if err != nil {
		return err
	}
	window, n := []float64(nil), length
	if c.Input(2) != nil {
		if window, err = c.Doubles(2); err != nil {
			return err
		}
		n = len(window)
	}
	if n, err = scalar(c, 3, n); err != nil {
		return err
	}
	if step < 1 || n < 1 || n > length || window != nil && len(window) != n {
		return fmt.Errorf("cannot divide %d samples into frames of %d by steps of %d with a window of %d", length, n, step, len(window))
	}
	bins, frames := n, 1+(length-n)/step
	if c.Int("onesided", 1) != 0 {
		bins = n/2 + 1
	}
	put, _, err := spectral(c, []int{batch, frames, bins, 2})
	if err != nil {
		return err
	}
	f, from, to := newFourier(n), make([]complex128, n), make([]complex128, n)
	for r := range batch * frames {
		if c.Ended() {
			return c.Context.Err()
		}
		at := r/frames*length + r%frames*step
		for k := range from {
			i := (at + k) * parts
			from[k] = complex(x[i], 0)
			if parts == 2 {
				from[k] = complex(x[i], x[i+1])
			}
			if window != nil {
				from[k] *= complex(window[k], 0)
			}
		}
		f.forward(to, from)
		for k, v := range to[:bins] {
			put(2*(r*bins+k), real(v))
			put(2*(r*bins+k)+1, imag(v))
		}
	}
	return nil
}

// window computes HannWindow, HammingWindow and BlackmanWindow.
func window(c *kernel.Call) error {
	n, err := scalar(c, 0, 0)
	if err != nil || n < 0 {
		return fmt.Errorf("bad size %d: %v", n, err)
	}
	wide, err := c.Arena.New(onnx.DOUBLE, n)
	if err != nil {
		return err
	}
	defer c.Arena.Release(wide)
	round := 2 * math.Pi / float64(n)
	if c.Int("periodic", 1) == 0 {
		round = 2 * math.Pi / float64(n-1)
	}
	a := map[string][3]float64{"HannWindow": {0.5, 0.5, 0}, "HammingWindow": {25. / 46, 21. / 46, 0}, "BlackmanWindow": {0.42, 0.5, 0.08}}[c.Node.Op]
	for i := range kernel.Elements[float64](wide) {
		at := round * float64(i)
		kernel.Elements[float64](wide)[i] = a[0] - a[1]*math.Cos(at) + a[2]*math.Cos(2*at)
	}
	c.Out[0], err = c.Cast(wide, onnx.DType(c.Int("output_datatype", int(onnx.FLOAT))))
	return err
}

// melWeights computes MelWeightMatrix: triangles of frequencies, from bins of a
// spectrum to mel bins.
func melWeights(c *kernel.Call) error {
	var in [5]float64
	for i := range in {
		v, err := c.Doubles(i)
		if err != nil || len(v) != 1 {
			return fmt.Errorf("input %d: got %d numbers, want one: %v", i, len(v), err)
		}
		in[i] = v[0]
	}
	mels, length, rate := int(in[0]), int(in[1]), in[2]
	if !(in[0] >= 1 && in[0] <= math.MaxInt32 && in[1] >= 1 && in[1] <= math.MaxInt32 && rate > 0 && in[3] >= 0 && in[4] >= in[3] && in[4] <= rate/2) {
		return fmt.Errorf("out of range: %v", in)
	}
	bins := length/2 + 1
	wide, err := c.Arena.Zeros(onnx.DOUBLE, bins, mels)
	if err != nil {
		return err
	}
	defer c.Arena.Release(wide)
	o, toMel := kernel.Elements[float64](wide), func(hz float64) float64 { return 2595 * math.Log10(1+hz/700) }
	lo, step := toMel(in[3]), (toMel(in[4])-toMel(in[3]))/float64(mels+2)
	at := func(i int) int {
		hz := 700 * (math.Pow(10, (lo+step*float64(i))/2595) - 1)
		return min(int(math.Floor(float64(length+1)*hz/rate)), bins-1)
	}
	for i := range mels {
		left, center, right := at(i), at(i+1), at(i+2)
		for j := left; j <= center; j++ {
			o[j*mels+i] = 1
			if center > left {
				o[j*mels+i] = float64(j-left) / float64(center-left)
			}
		}
		for j := center; j < right; j++ {
			o[j*mels+i] = float64(right-j) / float64(right-center)
		}
	}
	c.Out[0], err = c.Cast(wide, onnx.DType(c.Int("output_datatype", int(onnx.FLOAT))))
	return err
}
