package layers

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/onnx/engine/kernel"
)

// scan computes Scan: a body with values carried between the elements of
// arrays, and others that are collected.
func scan(c *kernel.Call) error {
	m := c.Int("num_scan_inputs", 0)
	states := len(c.In) - m
	if m < 1 || states < 0 || c.Sub == nil || slices.Contains(c.In, nil) {
		return fmt.Errorf("got %d inputs, want %d to scan, and a body", len(c.In), m)
	}
	k := len(c.Out) - states
	if k < 0 {
		return fmt.Errorf("got %d outputs, want the %d values carried", len(c.Out), states)
	}
	steps, inputs, err := scanned(c, c.In[states:])
	defer func() {
		for _, a := range inputs {
			c.Arena.Release(a)
		}
	}()
	if err != nil {
		return err
	}
	state, lists := make([]*kernel.Array, states), make([][]*kernel.Array, k)
	for i, a := range c.In[:states] {
		state[i] = a.View(a.Shape)
	}
	defer func() {
		for _, list := range append(lists, state) {
			for _, a := range list {
				c.Arena.Release(a)
			}
		}
	}()
	for i := range steps {
		if err := c.Context.Err(); err != nil {
			return err
		}
		if err := scanStep(c, i, steps, inputs, state, lists); err != nil {
			return err
		}
	}
	for i, a := range state {
		c.Out[i] = a.View(a.Shape)
	}
	for i := range lists {
		if err := collected(c, lists[i], i, states); err != nil {
			return err
		}
	}
	return nil
}

// scanned returns the arrays to scan with the axis of the scan first, and its
// length.
func scanned(c *kernel.Call, in []*kernel.Array) (steps int, out []*kernel.Array, err error) {
	axes := c.Ints("scan_input_axes")
	for i, a := range in {
		axis := 0
		if axes != nil {
			if len(axes) != len(in) {
				return 0, out, fmt.Errorf("got %d axes of %d arrays", len(axes), len(in))
			}
			axis = axes[i]
		}
		if axis, err = kernel.Axis(axis, a.Rank()); err != nil {
			return 0, out, err
		}
		perm := kernel.Sequence(a.Rank())
		turned, err := c.Permuted(a, slices.Concat([]int{axis}, perm[:axis], perm[axis+1:])...)
		if err != nil {
			return 0, out, err
		}
		out = append(out, turned)
		if i > 0 && turned.Shape[0] != steps {
			return 0, out, fmt.Errorf("shape mismatch: arrays of %d and %d elements", steps, turned.Shape[0])
		}
		steps = turned.Shape[0]
	}
	if steps > c.Steps {
		return 0, out, fmt.Errorf("%d iterations, limit is %d", steps, c.Steps)
	}
	return steps, out, nil
}

// scanStep runs the body once, and replaces the state.
func scanStep(c *kernel.Call, i, steps int, inputs, state []*kernel.Array, lists [][]*kernel.Array) error {
	in, back := slices.Clone(state), c.Ints("scan_input_directions")
	for k, a := range inputs {
		at := i
		if k < len(back) && back[k] != 0 {
			at = steps - 1 - i
		}
		x, err := c.Arena.New(a.Type, a.Shape[1:]...)
		if err != nil {
			return err
		}
		defer c.Arena.Release(x)
		copy(x.Bytes(), a.Bytes()[at*len(x.Bytes()):])
		in = append(in, x)
	}
	out, err := c.Sub("body", in)
	if err != nil {
		return err
	}
	if len(out) != len(state)+len(lists) {
		for _, a := range out {
			c.Arena.Release(a)
		}
		return fmt.Errorf("body of a scan: got %d results, want %d", len(out), len(state)+len(lists))
	}
	for k := range state {
		c.Arena.Release(state[k])
		state[k] = out[k]
	}
	for k := range lists {
		lists[k] = append(lists[k], out[len(state)+k])
	}
	return nil
}

// collected joins the results of the iterations along the axis of an output.
func collected(c *kernel.Call, list []*kernel.Array, i, states int) error {
	if back := c.Ints("scan_output_directions"); i < len(back) && back[i] != 0 {
		list = slices.Clone(list)
		slices.Reverse(list)
	}
	all, err := stacked(c, list)
	if err != nil {
		return err
	}
	defer c.Arena.Release(all)
	axis := 0
	if axes := c.Ints("scan_output_axes"); i < len(axes) {
		axis = axes[i]
	}
	if axis, err = kernel.Axis(axis, all.Rank()); err != nil {
		return err
	}
	perm := kernel.Sequence(all.Rank())
	c.Out[states+i], err = c.Permuted(all, slices.Concat(perm[1:axis+1], []int{0}, perm[axis+1:])...)
	return err
}
