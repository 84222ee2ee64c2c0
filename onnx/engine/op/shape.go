package op

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

func identity(c *kernel.Call) error { return view(c, c.In[0].Shape) }

// view creates output 0 as the first input in another shape of equal size.
func view(c *kernel.Call, shape []int) error {
	if n, err := kernel.Count(shape); err != nil || n != c.In[0].Len() {
		return fmt.Errorf("%v does not have as many elements as %v", shape, c.In[0].Shape)
	}
	c.Out[0] = c.In[0].View(shape)
	return nil
}

func numbers(c *kernel.Call, v ...int) error {
	out, err := c.Result(0, onnx.INT64, len(v))
	if err != nil {
		return err
	}
	for i, n := range v {
		kernel.Elements[int64](out)[i] = int64(n)
	}
	return nil
}

func shapeOf(c *kernel.Call) error {
	rank := c.In[0].Rank()
	bound := func(v int) int {
		if v < 0 {
			v += rank
		}
		return min(max(v, 0), rank)
	}
	lo, hi := bound(c.Int("start", 0)), bound(c.Int("end", rank))
	return numbers(c, c.In[0].Shape[lo:max(lo, hi)]...)
}

func size(c *kernel.Call) error {
	out, err := c.Result(0, onnx.INT64)
	if err == nil {
		kernel.Elements[int64](out)[0] = int64(c.In[0].Len())
	}
	return err
}

func reshape(c *kernel.Call) error {
	want, err := c.Axes("shape", 1, 5)
	if err != nil {
		return err
	}
	shape, free, count := slices.Clone(want), -1, 1
	for i, d := range shape {
		if d == 0 && c.Int("allowzero", 0) == 0 {
			if i >= c.In[0].Rank() {
				return fmt.Errorf("cannot reshape to %v from %v", want, c.In[0].Shape)
			}
			shape[i] = c.In[0].Shape[i]
		}
		if d == -1 && free < 0 {
			free = i
			shape[i] = 1
		}
	}
	if free >= 0 {
		if count, err = kernel.Count(shape); err != nil || count == 0 {
			return fmt.Errorf("cannot reshape to %v from %v", want, c.In[0].Shape)
		}
		shape[free] = c.In[0].Len() / count
	}
	return view(c, shape)
}

func squeeze(c *kernel.Call) error {
	x := c.In[0]
	axes, err := c.Axes("axes", 1, 13)
	if err != nil {
		return err
	}
	if axes == nil {
		for i, d := range x.Shape {
			if d == 1 {
				axes = append(axes, i)
			}
		}
	}
	if axes, err = kernel.AllAxes(axes, x.Rank()); err != nil {
		return err
	}
	var shape []int
	for i, d := range x.Shape {
		if !slices.Contains(axes, i) {
			shape = append(shape, d)
		}
	}
	return view(c, shape)
}

func unsqueeze(c *kernel.Call) error {
	x := c.In[0]
	axes, err := c.Axes("axes", 1, 13)
	if err != nil {
		return err
	}
	rank := x.Rank() + len(axes)
	if axes, err = kernel.AllAxes(axes, rank); err != nil {
		return err
	}
	shape, k := make([]int, rank), 0
	for i := range shape {
		if slices.Contains(axes, i) {
			shape[i] = 1
			continue
		}
		shape[i] = x.Shape[k]
		k++
	}
	return view(c, shape)
}

func flatten(c *kernel.Call) error {
	x := c.In[0]
	at := c.Int("axis", 1)
	if at < 0 {
		at += x.Rank()
	}
	if at < 0 || at > x.Rank() {
		return fmt.Errorf("axis %d out of range for %d dimensions", at, x.Rank())
	}
	return view(c, []int{kernel.Product(x.Shape[:at]), kernel.Product(x.Shape[at:])})
}

// constant returns the value of its attribute.
func constant(c *kernel.Call) error {
	for i := range c.Node.Attributes {
		a := &c.Node.Attributes[i]
		switch a.Name {
		case "value":
			if a.Tensor == nil {
				return fmt.Errorf("value is not a tensor")
			}
			out, err := c.Arena.FromTensor(a.Tensor)
			c.Out[0] = out
			return err
		case "value_float", "value_floats":
			list := a.Floats
			if a.Name == "value_float" {
				list = []float32{a.Float}
			}
			out, err := c.Arena.New(onnx.FLOAT, length(a.Name == "value_floats", len(list))...)
			if err == nil {
				copy(kernel.Elements[float32](out), list)
			}
			c.Out[0] = out
			return err
		case "value_int", "value_ints":
			list := a.Ints
			if a.Name == "value_int" {
				list = []int64{a.Int}
			}
			out, err := c.Arena.New(onnx.INT64, length(a.Name == "value_ints", len(list))...)
			if err == nil {
				copy(kernel.Elements[int64](out), list)
			}
			c.Out[0] = out
			return err
		}
	}
	return fmt.Errorf("missing value")
}

// length returns the shape of a list, or of a single number.
func length(list bool, n int) []int {
	if list {
		return []int{n}
	}
	return nil
}

func constantOfShape(c *kernel.Call) error {
	shape, err := c.Integers(0)
	if err != nil {
		return err
	}
	value, kind := (*kernel.Array)(nil), onnx.FLOAT
	if a := c.Attribute("value"); a != nil && a.Tensor != nil {
		if value, err = c.Arena.FromTensor(a.Tensor); err != nil {
			return err
		}
		defer c.Arena.Release(value)
		if value.Len() != 1 {
			return fmt.Errorf("value: got %d elements, want 1", value.Len())
		}
		kind = value.Type
	}
	if value == nil {
		out, err := c.Arena.Zeros(kind, shape...)
		c.Out[0] = out
		return err
	}
	if _, err := kernel.Count(shape); err != nil {
		return err
	}
	return copied(c, 0, value, shape, 0, make([]int, len(shape)))
}

// ramp computes Range.
func ramp[T kernel.Number](c *kernel.Call) error {
	if err := c.Want(kernel.TypeOf[T](), 1, 2); err != nil {
		return err
	}
	for i := range 3 {
		if c.In[i].Len() != 1 {
			return fmt.Errorf("input %d is not a single number", i)
		}
	}
	start, limit, delta := kernel.Elements[T](c.In[0])[0], kernel.Elements[T](c.In[1])[0], kernel.Elements[T](c.In[2])[0]
	n := math.Ceil((float64(limit) - float64(start)) / float64(delta))
	if !(n < math.MaxInt32) {
		return fmt.Errorf("bad range from %v to %v by %v", start, limit, delta)
	}
	out, err := c.Result(0, kernel.TypeOf[T](), max(0, int(n)))
	if err != nil {
		return err
	}
	for i := range kernel.Elements[T](out) {
		kernel.Elements[T](out)[i] = start + T(i)*delta
	}
	return nil
}

// eye computes EyeLike.
func eye(c *kernel.Call) error {
	x := c.In[0]
	if x.Rank() != 2 {
		return fmt.Errorf("no matrix for a diagonal: %v", x.Shape)
	}
	kind := onnx.DType(c.Int("dtype", int(x.Type)))
	flat, err := c.Arena.Zeros(onnx.UINT8, x.Shape...)
	if err != nil {
		return err
	}
	defer c.Arena.Release(flat)
	for r := range x.Shape[0] {
		if k := c.Int("k", 0); k > -(1<<31) && k < 1<<31 && r+k >= 0 && r+k < x.Shape[1] {
			flat.Bytes()[r*x.Shape[1]+r+k] = 1
		}
	}
	if kernel.Size(kind) == 0 {
		return fmt.Errorf("unsupported type %s", kind)
	}
	c.Out[0], err = c.Cast(flat, kind)
	return err
}

// oneHot writes one of two values by index.
func oneHot(c *kernel.Call) error {
	index, err := c.Cast(c.In[0], onnx.INT64)
	if err != nil {
		return err
	}
	defer c.Arena.Release(index)
	deep, err := c.Cast(c.In[1], onnx.INT64)
	if err != nil {
		return err
	}
	defer c.Arena.Release(deep)
	if deep.Len() != 1 || c.In[2].Len() != 2 {
		return fmt.Errorf("got %d depths and %d values, want 1 and 2", deep.Len(), c.In[2].Len())
	}
	depth := kernel.Elements[int64](deep)[0]
	at, err := kernel.Axis(c.Int("axis", -1), index.Rank()+1)
	if err != nil || depth < 0 || depth > math.MaxInt32 {
		return fmt.Errorf("depth %d: %v", depth, err)
	}
	shape := slices.Insert(slices.Clone(index.Shape), at, int(depth))
	if _, err := kernel.Count(shape); err != nil {
		return err
	}
	inner, list := kernel.Product(shape[at+1:]), kernel.Elements[int64](index)
	return c.Take(c.In[2], shape, func(i int) int {
		v := list[i/inner/int(depth)*inner+i%inner]
		if v < 0 {
			v += depth
		}
		if v == int64(i/inner)%depth {
			return 1
		}
		return 0
	}, nil)
}
