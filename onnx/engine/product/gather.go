package product

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// gatherSmall computes GatherBlockQuantized on int4 and uint4: elements along one
// axis, with a scale for each block of another.
func gatherSmall(c *kernel.Call) error {
	data, scales, z, size := c.In[0], c.In[2], c.Input(3), c.Int("block_size", 128)
	n := data.Rank()
	gathered, err := kernel.Axis(c.Int("gather_axis", 0), n)
	if err != nil {
		return err
	}
	quantized, err := kernel.Axis(c.Int("quantize_axis", 1), n)
	if err != nil {
		return err
	}
	if size < minBlock || size > maxBlock || size&(size-1) != 0 || scales.Type != onnx.FLOAT || z != nil && z.Type != data.Type {
		return fmt.Errorf("unsupported: blocks of %d with scales of %s", size, scales.Type)
	}
	s := scale{along: data.Shape[quantized], count: (data.Shape[quantized] + size - 1) / size, block: size, n: 1}
	want := slices.Clone(data.Shape)
	want[quantized] = s.count
	if !slices.Equal(scales.Shape, want) || z != nil && !slices.Equal(z.Shape, want) {
		return fmt.Errorf("shape mismatch: scales %v of %v in blocks of %d along axis %d", scales.Shape, data.Shape, size, quantized)
	}
	index, err := c.Integers(1)
	if err != nil {
		return err
	}
	for i, v := range index {
		if index[i], err = kernel.Axis(v, data.Shape[gathered]); err != nil {
			return fmt.Errorf("index: %w", err)
		}
	}
	out, err := c.Result(0, onnx.FLOAT, slices.Concat(data.Shape[:gathered], c.In[1].Shape, data.Shape[gathered+1:])...)
	if err != nil || out.Len() == 0 {
		return err
	}
	if s.by, err = c.Doubles(2); err != nil {
		return err
	}
	if s.zero = make([]float64, len(s.by)); z != nil {
		if s.zero, err = c.Doubles(3); err != nil {
			return err
		}
	}
	wide, err := c.Cast(data, onnx.FLOAT)
	if err != nil {
		return err
	}
	defer c.Arena.Release(wide)
	s.inner = kernel.Product(data.Shape[quantized+1:])
	o, x, inner := kernel.Elements[float32](out), kernel.Elements[float32](wide), kernel.Product(data.Shape[gathered+1:])
	c.Each(len(o), 8, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			r := i / inner
			k := (r/len(index)*data.Shape[gathered]+index[r%len(index)])*inner + i%inner
			by, zero := s.of(k)
			o[i] = (x[k] - float32(zero)) * float32(by)
		}
	})
	return nil
}
