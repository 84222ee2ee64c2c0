package op

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// centerCropPad computes CenterCropPad: the middle of an array, or an array in
// the middle of zeros.
func centerCropPad(c *kernel.Call) error {
	x := c.In[0]
	want, err := c.Integers(1)
	if err != nil {
		return err
	}
	axes := c.Ints("axes")
	if axes == nil {
		axes = kernel.Sequence(x.Rank())
	}
	if _, err := kernel.AllAxes(axes, x.Rank()); err != nil || len(axes) != len(want) {
		return fmt.Errorf("got %d sizes of %d axes: %v", len(want), len(axes), err)
	}
	shape, offset := slices.Clone(x.Shape), make([]int, x.Rank())
	for i, k := range axes {
		k, _ = kernel.Axis(k, x.Rank())
		if want[i] < 0 {
			return fmt.Errorf("negative size in %v", want)
		}
		shape[k] = want[i]
		if offset[k] = (x.Shape[k] - want[i]) / 2; want[i] > x.Shape[k] {
			offset[k] = -((want[i] - x.Shape[k]) / 2)
		}
	}
	strides := kernel.Strides(x.Shape)
	return c.Take(x, shape, func(i int) int {
		from := 0
		for k := len(shape) - 1; k >= 0; k-- {
			p := i%shape[k] + offset[k]
			i /= shape[k]
			if p < 0 || p >= x.Shape[k] {
				return -1
			}
			from += p * strides[k]
		}
		return from
	}, nil)
}

// tensorScatter computes TensorScatter: a cache in which the positions of each
// batch from an index on are replaced.
func tensorScatter(c *kernel.Call) error {
	past, update := c.In[0], c.In[1]
	axis, err := kernel.Axis(c.Int("axis", -2), past.Rank())
	if err != nil || axis == 0 || past.Type != update.Type || past.Rank() != update.Rank() {
		return fmt.Errorf("axis %d of %s %v and %s %v: %v", axis, past.Type, past.Shape, update.Type, update.Shape, err)
	}
	for i, d := range update.Shape {
		if d != past.Shape[i] && (i != axis || d > past.Shape[i]) {
			return fmt.Errorf("shape mismatch: %v replaced in %v", update.Shape, past.Shape)
		}
	}
	batch, n, room := past.Shape[0], update.Shape[axis], past.Shape[axis]
	at, err := c.Integers(2)
	if err != nil || at != nil && len(at) != batch {
		return fmt.Errorf("got %d indices of %d batches: %v", len(at), batch, err)
	}
	circular := c.Text("mode", "linear") == "circular"
	for _, v := range at {
		if v < 0 || !circular && v > room-n {
			return fmt.Errorf("index %d out of range for %d of %d positions", v, n, room)
		}
	}
	out, err := c.Result(0, past.Type, past.Shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	copy(out.Bytes(), past.Bytes())
	outer, inner := kernel.Product(past.Shape[1:axis]), kernel.Product(past.Shape[axis+1:])*kernel.Size(past.Type)
	for r := range batch * outer {
		first := 0
		if at != nil {
			first = at[r/outer]
		}
		for k := range n {
			copy(out.Bytes()[(r*room+(first+k)%room)*inner:][:inner], update.Bytes()[(r*n+k)*inner:])
		}
	}
	return nil
}

// bitCast computes BitCast: the bits of elements as another type.
func bitCast(c *kernel.Call) error {
	to := onnx.DType(c.Int("to", 0))
	if size := kernel.Size(to); size == 0 || size != kernel.Size(c.In[0].Type) {
		return fmt.Errorf("the bits of %s are not those of %s", c.In[0].Type, to)
	}
	out, err := c.Result(0, to, c.In[0].Shape...)
	if err != nil {
		return err
	}
	copy(out.Bytes(), c.In[0].Bytes())
	if to == onnx.BOOL {
		for i, v := range out.Bytes() {
			out.Bytes()[i] = min(v, 1)
		}
	}
	return nil
}
