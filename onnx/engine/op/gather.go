package op

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// positions returns indices into d elements; negative ones count from the end.
func positions(c *kernel.Call, i, d int) ([]int, error) {
	list, err := c.Integers(i)
	for k, v := range list {
		if v < -d || v >= d {
			return nil, fmt.Errorf("index %d out of range for %d elements", v, d)
		}
		if v < 0 {
			list[k] = v + d
		}
	}
	return list, err
}

func gather(c *kernel.Call) error {
	x := c.In[0]
	along, err := kernel.Axis(c.Int("axis", 0), x.Rank())
	if err != nil {
		return err
	}
	index, err := positions(c, 1, x.Shape[along])
	if err != nil {
		return err
	}
	out, err := c.Result(0, x.Type, slices.Concat(x.Shape[:along], c.In[1].Shape, x.Shape[along+1:])...)
	if err != nil || out.Len() == 0 {
		return err
	}
	n := kernel.Product(x.Shape[along+1:]) * kernel.Size(x.Type)
	from, to := x.Bytes(), out.Bytes()
	for r := range kernel.Product(x.Shape[:along]) {
		for i, k := range index {
			copy(to[(r*len(index)+i)*n:][:n], from[(r*x.Shape[along]+k)*n:])
		}
	}
	return nil
}

// elementwise checks the indices of GatherElements and ScatterElements and
// returns the offset of each in an array of the given shape.
func elementwise(c *kernel.Call, shape []int) (func(i int) int, error) {
	index := c.In[1]
	along, err := kernel.Axis(c.Int("axis", 0), len(shape))
	if err != nil {
		return nil, err
	}
	if index.Rank() != len(shape) {
		return nil, fmt.Errorf("indices %v do not match shape %v", index.Shape, shape)
	}
	for k, d := range index.Shape {
		if k != along && d > shape[k] {
			return nil, fmt.Errorf("indices %v do not match shape %v", index.Shape, shape)
		}
	}
	list, err := positions(c, 1, shape[along])
	if err != nil {
		return nil, err
	}
	strides := kernel.Strides(shape)
	return func(i int) int {
		at := list[i] * strides[along]
		for k := len(shape) - 1; k >= 0; k-- {
			if k != along {
				at += i % index.Shape[k] * strides[k]
			}
			i /= index.Shape[k]
		}
		return at
	}, nil
}

func gatherElements(c *kernel.Call) error {
	at, err := elementwise(c, c.In[0].Shape)
	if err != nil {
		return err
	}
	return c.Take(c.In[0], c.In[1].Shape, at, nil)
}

// tuples checks indices whose last dimension indexes shape and returns the
// offset of each and the number of elements it selects.
func tuples(c *kernel.Call, shape []int) (offsets []int, n int, err error) {
	index := c.In[1]
	if index.Rank() == 0 || index.Dim(-1) > len(shape) {
		return nil, 0, fmt.Errorf("indices %v do not match shape %v", index.Shape, shape)
	}
	list, err := c.Integers(1)
	if err != nil {
		return nil, 0, err
	}
	k, strides := index.Dim(-1), kernel.Strides(shape)
	offsets = make([]int, kernel.Product(index.Shape[:index.Rank()-1]))
	for i := range offsets {
		for j := range k {
			v := list[i*k+j]
			if v < -shape[j] || v >= shape[j] {
				return nil, 0, fmt.Errorf("index %d out of range for %d elements", v, shape[j])
			}
			if v < 0 {
				v += shape[j]
			}
			offsets[i] += v * strides[j]
		}
	}
	return offsets, kernel.Product(shape[k:]), nil
}

func gatherND(c *kernel.Call) error {
	x, index, b := c.In[0], c.In[1], c.Int("batch_dims", 0)
	if b < 0 || b >= x.Rank() || b >= index.Rank() || !slices.Equal(x.Shape[:b], index.Shape[:b]) {
		return fmt.Errorf("%d batch dimensions do not match %v and %v", b, x.Shape, index.Shape)
	}
	offsets, n, err := tuples(c, x.Shape[b:])
	if err != nil {
		return err
	}
	k := b + index.Dim(-1)
	out, err := c.Result(0, x.Type, slices.Concat(index.Shape[:index.Rank()-1], x.Shape[k:])...)
	if err != nil || out.Len() == 0 {
		return err
	}
	size := kernel.Size(x.Type)
	batch, each := kernel.Product(x.Shape[b:]), len(offsets)/max(1, kernel.Product(x.Shape[:b]))
	for i, at := range offsets {
		copy(out.Bytes()[i*n*size:][:n*size], x.Bytes()[(i/each*batch+at)*size:])
	}
	return nil
}

// updated creates output 0 as a copy of the first input.
func updated(c *kernel.Call) (*kernel.Array, error) {
	out, err := c.Result(0, c.In[0].Type, c.In[0].Shape...)
	if err == nil {
		copy(out.Bytes(), c.In[0].Bytes())
	}
	return out, err
}

func scatterElements(c *kernel.Call) error {
	x, updates := c.In[0], c.In[2]
	at, err := elementwise(c, x.Shape)
	if err != nil {
		return err
	}
	if updates.Type != x.Type || !slices.Equal(updates.Shape, c.In[1].Shape) {
		return fmt.Errorf("updates %s %v do not match", updates.Type, updates.Shape)
	}
	out, err := updated(c)
	if err != nil {
		return err
	}
	return blend(c, out, updates, updates.Len(), 1, at)
}

func scatterND(c *kernel.Call) error {
	x, updates := c.In[0], c.In[2]
	offsets, n, err := tuples(c, x.Shape)
	if err != nil {
		return err
	}
	if updates.Type != x.Type || updates.Len() != len(offsets)*n {
		return fmt.Errorf("updates %s %v do not match", updates.Type, updates.Shape)
	}
	out, err := updated(c)
	if err != nil {
		return err
	}
	return blend(c, out, updates, len(offsets), n, func(i int) int { return offsets[i] })
}

// blend writes pieces of n elements, or combines them by the attribute
// reduction.
func blend(c *kernel.Call, out, updates *kernel.Array, pieces, n int, at func(i int) int) error {
	how, size := c.Text("reduction", "none"), kernel.Size(out.Type)
	if how == "none" {
		for i := range pieces {
			copy(out.Bytes()[at(i)*size:][:n*size], updates.Bytes()[i*n*size:])
		}
		return nil
	}
	switch out.Type {
	case onnx.FLOAT:
		return reduceInto[float32](out, updates, pieces, n, at, how)
	case onnx.DOUBLE:
		return reduceInto[float64](out, updates, pieces, n, at, how)
	case onnx.INT32:
		return reduceInto[int32](out, updates, pieces, n, at, how)
	case onnx.INT64:
		return reduceInto[int64](out, updates, pieces, n, at, how)
	}
	return fmt.Errorf("reduction %s of %s is not supported", how, out.Type)
}

func reduceInto[T kernel.Number](out, updates *kernel.Array, pieces, n int, at func(i int) int, how string) error {
	f := map[string]func(a, b T) T{
		"add": func(a, b T) T { return a + b }, "mul": func(a, b T) T { return a * b },
		"min": func(a, b T) T { return min(a, b) }, "max": func(a, b T) T { return max(a, b) },
	}[how]
	if f == nil {
		return fmt.Errorf("reduction %s is not supported", how)
	}
	o, u := kernel.Elements[T](out), kernel.Elements[T](updates)
	for i := range pieces {
		for k := range n {
			p := &o[at(i)+k]
			*p = f(*p, u[i*n+k])
		}
	}
	return nil
}

// nonZero returns the coordinates of elements that are not 0.
func nonZero(c *kernel.Call) error {
	x := c.In[0]
	truth, err := c.Cast(x, onnx.BOOL)
	if err != nil {
		return err
	}
	defer c.Arena.Release(truth)
	var list []int
	for i, v := range kernel.Elements[bool](truth) {
		if v {
			list = append(list, i)
		}
	}
	out, err := c.Result(0, onnx.INT64, x.Rank(), len(list))
	if err != nil {
		return err
	}
	strides, o := kernel.Strides(x.Shape), kernel.Elements[int64](out)
	for k, d := range x.Shape {
		for i, v := range list {
			o[k*len(list)+i] = int64(v / strides[k] % d)
		}
	}
	return nil
}

// compress selects elements by a condition, along an axis or of the flat array.
func compress(c *kernel.Call) error {
	x, cond := c.In[0], c.In[1]
	if err := c.Want(onnx.BOOL, 1); err != nil {
		return err
	}
	before, d, inner := 1, x.Len(), 1
	shape, along := []int{0}, 0
	if a := c.Attribute("axis"); a != nil {
		var err error
		if along, err = kernel.Axis(int(a.Int), x.Rank()); err != nil {
			return err
		}
		shape = slices.Clone(x.Shape)
		before, d, inner = kernel.Product(x.Shape[:along]), x.Shape[along], kernel.Product(x.Shape[along+1:])
	}
	var keep []int
	for i, v := range kernel.Elements[bool](cond) {
		if v && i >= d {
			return fmt.Errorf("condition of %d for %d elements", cond.Len(), d)
		}
		if v {
			keep = append(keep, i)
		}
	}
	shape[along] = len(keep)
	_ = before
	return c.Take(x, shape, func(i int) int {
		return (i/inner/len(keep)*d+keep[i/inner%len(keep)])*inner + i%inner
	}, nil)
}
