package op

import (
	"cmp"
	"fmt"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// uniques holds Unique for each type.
var uniques = kernel.Family{unique[float32], unique[float64], unique[int8], unique[int16], unique[int32], unique[int64], unique[uint8], unique[uint16], unique[uint32], unique[uint64]}

// unique computes Unique: the distinct elements of an array, or its distinct
// parts along an axis.
func unique[T kernel.Number](c *kernel.Call) error {
	x, rank := c.In[0], c.In[0].Rank()
	axis, flat := 0, c.Attribute("axis") == nil
	if !flat {
		var err error
		if axis, err = kernel.Axis(c.Int("axis", 0), rank); err != nil {
			return err
		}
	}
	perm := kernel.Sequence(rank)
	if !flat {
		perm = slices.Concat([]int{axis}, perm[:axis], perm[axis+1:])
	}
	first, err := c.Permuted(x, perm...)
	if err != nil {
		return err
	}
	defer c.Arena.Release(first)
	n, size := first.Len(), 1
	if !flat {
		if n = first.Shape[0]; n > 0 {
			size = first.Len() / n
		}
	}
	if n == 0 {
		return fmt.Errorf("distinct elements of %v are not supported", x.Shape)
	}
	data := kernel.Elements[T](first)
	part := func(i int) []T { return data[i*size : (i+1)*size] }
	order := kernel.Sequence(n)
	slices.SortStableFunc(order, func(a, b int) int { return slices.CompareFunc(part(a), part(b), cmp.Compare[T]) })
	var at, counts []int // of the first of each
	inverse := make([]int, n)
	for i, k := range order {
		if i == 0 || slices.CompareFunc(part(k), part(order[i-1]), cmp.Compare[T]) != 0 {
			at, counts = append(at, k), append(counts, 0)
		}
		inverse[k] = len(at) - 1
		counts[len(at)-1]++
	}
	if c.Int("sorted", 1) == 0 {
		asFound(at, counts, inverse)
	}
	shape := slices.Clone(first.Shape)
	if flat {
		shape = []int{0}
	}
	shape[0] = len(at)
	y, err := c.Arena.New(x.Type, shape...)
	if err != nil {
		return err
	}
	defer c.Arena.Release(y)
	for i, k := range at {
		copy(kernel.Elements[T](y)[i*size:(i+1)*size], part(k))
	}
	back := kernel.Sequence(len(shape))
	if !flat {
		back = slices.Concat(kernel.Sequence(rank)[1:axis+1], []int{0}, kernel.Sequence(rank)[axis+1:])
	}
	if c.Out[0], err = c.Permuted(y, back...); err != nil {
		return err
	}
	return longs(c, at, inverse, counts)
}

// asFound orders distinct parts by their first occurrence.
func asFound(at, counts, inverse []int) {
	order := kernel.Sequence(len(at))
	slices.SortFunc(order, func(a, b int) int { return at[a] - at[b] })
	oldAt, oldCounts, place := slices.Clone(at), slices.Clone(counts), make([]int, len(at))
	for i, k := range order {
		at[i], counts[i], place[k] = oldAt[k], oldCounts[k], i
	}
	for i, k := range inverse {
		inverse[i] = place[k]
	}
}

// longs sets the outputs after the first to lists.
func longs(c *kernel.Call, lists ...[]int) error {
	for i, list := range lists {
		if 1+i >= len(c.Out) {
			return nil
		}
		out, err := c.Result(1+i, onnx.INT64, len(list))
		if err != nil {
			return err
		}
		for k, v := range list {
			kernel.Elements[int64](out)[k] = int64(v)
		}
	}
	return nil
}
