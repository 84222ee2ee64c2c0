package product

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// single reads a scale and a zero point, one number each, and the type of the
// zero point.
func single(c *kernel.Call, si, zi int) (by float32, zero float64, kind onnx.DType, err error) {
	s, err := scaling(c, si, zi, nil, 0)
	if err != nil {
		return 0, 0, 0, err
	}
	if s.n != 1 || s.kind != onnx.UINT8 && s.kind != onnx.INT8 && s.kind != onnx.UINT16 && s.kind != onnx.INT16 {
		return 0, 0, 0, fmt.Errorf("inputs %d and %d: got %d scales of %s, want one of 8 or 16 bits", si, zi, s.n, s.kind)
	}
	return float32(s.by[0]), s.zero[0], s.kind, nil
}

// Real returns the numbers of a quantized input by the scale and the zero point
// in two other inputs.
func Real(c *kernel.Call, i, si, zi int) (*kernel.Array, error) {
	by, zero, kind, err := single(c, si, zi)
	if err != nil {
		return nil, err
	}
	if c.In[i] == nil || c.In[i].Type != kind {
		return nil, fmt.Errorf("input %d: want %s", i, kind)
	}
	x, err := c.Cast(c.In[i], onnx.FLOAT)
	if err != nil {
		return nil, err
	}
	defer c.Arena.Release(x)
	out, err := c.Arena.New(onnx.FLOAT, x.Shape...)
	if err != nil {
		return nil, err
	}
	o := kernel.Elements[float32](out)
	for k, v := range kernel.Elements[float32](x) {
		o[k] = (v - float32(zero)) * by
	}
	return out, nil
}

// Quantized sets the output to numbers, quantized by the scale and the zero
// point in two inputs. If early is set, the zero point is added before rounding:
// ONNX Runtime's pools do so, and halves round to another even number.
func Quantized(c *kernel.Call, x *kernel.Array, si, zi int, early bool) error {
	by, zero, kind, err := single(c, si, zi)
	if err != nil {
		return err
	}
	out, err := c.Result(0, kind, x.Shape...)
	if err != nil {
		return err
	}
	put := putter(out)
	for i, v := range kernel.Elements[float32](x) {
		if early {
			put(i, math.RoundToEven(float64(v/by+float32(zero))))
		} else {
			put(i, math.RoundToEven(float64(v/by))+zero)
		}
	}
	return nil
}

// qlinearBinary computes QLinearAdd and QLinearMul in ONNX Runtime's order of
// roundings: the zero point is added before the last.
func qlinearBinary(c *kernel.Call) error {
	sa, za, _, err := single(c, 1, 2)
	if err != nil {
		return err
	}
	sb, zb, _, err := single(c, 4, 5)
	if err != nil {
		return err
	}
	sy, zy, kind, err := single(c, 6, 7)
	if err != nil {
		return err
	}
	if c.In[0].Type != kind || c.In[3] == nil || c.In[3].Type != kind {
		return fmt.Errorf("type mismatch: want %s", kind)
	}
	a, err := c.Cast(c.In[0], onnx.FLOAT)
	if err != nil {
		return err
	}
	defer c.Arena.Release(a)
	b, err := c.Cast(c.In[3], onnx.FLOAT)
	if err != nil {
		return err
	}
	defer c.Arena.Release(b)
	shape, err := kernel.Broadcast(a.Shape, b.Shape)
	if err != nil {
		return err
	}
	out, err := c.Result(0, kind, shape...)
	if err != nil {
		return err
	}
	put, p, add := putter(out), kernel.Pair(a.Shape, b.Shape, shape), c.Node.Op == "QLinearAdd"
	xs, ys := kernel.Elements[float32](a), kernel.Elements[float32](b)
	ra, rb := sa/sy, sb/sy
	fixed := float64(float32(zy) - (float32(ra*float32(za)) + float32(rb*float32(zb))))
	c.Each(out.Len(), 8, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			at, bt := p.At(i / p.N)
			x, y := xs[at+i%p.N*p.IA], ys[bt+i%p.N*p.IB]
			v := float32((x-float32(za))*(y-float32(zb))*(sa*sb/sy)) + float32(zy)
			if add { // each product is added without rounding
				v = float32(float64(y)*float64(rb) + fixed)
				v = float32(float64(x)*float64(ra) + float64(v))
			}
			put(i, math.RoundToEven(float64(v)))
		}
	})
	return nil
}

func qlinearUnary(c *kernel.Call) error {
	x, err := Real(c, 0, 1, 2)
	if err != nil {
		return err
	}
	defer c.Arena.Release(x)
	alpha, o := c.Float("alpha", 0.01), kernel.Elements[float32](x)
	for i, v := range o {
		switch {
		case c.Node.Op == "QLinearSigmoid":
			o[i] = float32(1 / (1 + math.Exp(-float64(v))))
		case v < 0:
			o[i] = alpha * v
		}
	}
	return Quantized(c, x, 3, 4, false)
}

// qlinearConcat joins arrays, each each with its scale and zero point,
// along an axis.
func qlinearConcat(c *kernel.Call) error {
	n := (len(c.In) - 2) / 3
	if len(c.In) != 2+3*n || n == 0 || slices.Contains(c.In[2:], nil) {
		return fmt.Errorf("got %d inputs, want two and three for each array", len(c.In))
	}
	first := c.In[2]
	along, err := kernel.Axis(c.Int("axis", 0), first.Rank())
	if err != nil {
		return err
	}
	shape := slices.Clone(first.Shape)
	shape[along] = 0
	for i := range n {
		a := c.In[2+3*i]
		if a.Rank() != len(shape) || !slices.Equal(a.Shape[:along], shape[:along]) || !slices.Equal(a.Shape[along+1:], shape[along+1:]) {
			return fmt.Errorf("shape mismatch: %v and %v along axis %d", first.Shape, a.Shape, along)
		}
		shape[along] += a.Shape[along]
	}
	all, err := c.Arena.New(onnx.FLOAT, shape...)
	if err != nil {
		return err
	}
	defer c.Arena.Release(all)
	inner, at := kernel.Product(shape[along+1:]), 0
	o := kernel.Elements[float32](all)
	for i := range n {
		x, err := Real(c, 2+3*i, 3+3*i, 4+3*i)
		if err != nil {
			return err
		}
		row := x.Shape[along] * inner
		for r := range kernel.Product(shape[:along]) {
			copy(o[r*shape[along]*inner+at:], kernel.Elements[float32](x)[r*row:(r+1)*row])
		}
		at += row
		c.Arena.Release(x)
	}
	return Quantized(c, all, 0, 1, false)
}

// qlinearGlobalPool computes QLinearGlobalAveragePool from integer sums; with
// channels_last the channels are the last dimension.
func qlinearGlobalPool(c *kernel.Call) error {
	sx, zx, kind, err := single(c, 1, 2)
	if err != nil {
		return err
	}
	sy, zy, to, err := single(c, 3, 4)
	if err != nil {
		return err
	}
	a := c.In[0]
	if a.Rank() < 3 || a.Type != kind || to != kind || a.Len() == 0 {
		return fmt.Errorf("got %s %v, want %s of three or more dimensions", a.Type, a.Shape, kind)
	}
	wide, err := c.Cast(a, onnx.INT32)
	if err != nil {
		return err
	}
	defer c.Arena.Release(wide)
	shape, at, x := slices.Clone(a.Shape), 1, kernel.Elements[int32](wide)
	if c.Int("channels_last", 0) != 0 {
		at = a.Rank() - 1
	}
	batch, channels := shape[0], shape[at]
	for i := range shape[1:] {
		shape[1+i] = 1
	}
	shape[at] = channels
	out, err := c.Result(0, kind, shape...)
	if err != nil {
		return err
	}
	put, each := putter(out), a.Len()/(batch*channels)
	by := sx / (sy * float32(each))
	for i := range batch * channels {
		first, step := i*each, 1
		if at > 1 {
			first, step = i/channels*each*channels+i%channels, channels
		}
		sum := -int64(each) * int64(zx)
		for k := range each {
			sum += int64(x[first+k*step])
		}
		put(i, math.RoundToEven(float64(float32(sum)*by))+zy)
	}
	return nil
}
