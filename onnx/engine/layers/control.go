package layers

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// branch computes If.
func branch(c *kernel.Call) error {
	if c.In[0].Type != onnx.BOOL || c.In[0].Len() != 1 || c.Sub == nil {
		return fmt.Errorf("condition is %s %v, want a single bool", c.In[0].Type, c.In[0].Shape)
	}
	name := "else_branch"
	if kernel.Elements[bool](c.In[0])[0] {
		name = "then_branch"
	}
	out, err := c.Sub(name, nil)
	if err == nil && len(out) != len(c.Out) {
		err = fmt.Errorf("%s: got %d results, want %d", name, len(out), len(c.Out))
	}
	if err != nil {
		return err
	}
	copy(c.Out, out)
	return nil
}

// loop computes Loop: a body with values carried between iterations, and others
// that are collected.
func loop(c *kernel.Call) error {
	if c.Sub == nil {
		return fmt.Errorf("missing body")
	}
	rounds := c.Steps
	if a := c.In[0]; a != nil {
		list, err := c.Integers(0)
		if err != nil || len(list) != 1 {
			return fmt.Errorf("trip count is not a single number: %v", err)
		}
		rounds = min(rounds, max(list[0], 0))
		if list[0] > c.Steps {
			return fmt.Errorf("%d iterations, limit is %d", list[0], c.Steps)
		}
	}
	goOn := true
	if len(c.In) > 1 && c.In[1] != nil {
		if c.In[1].Type != onnx.BOOL || c.In[1].Len() != 1 {
			return fmt.Errorf("condition is %s %v, want a single bool", c.In[1].Type, c.In[1].Shape)
		}
		goOn = kernel.Elements[bool](c.In[1])[0]
	}
	var state []*kernel.Array
	for _, a := range c.In[min(2, len(c.In)):] {
		if a == nil {
			return fmt.Errorf("missing value")
		}
		state = append(state, a.View(a.Shape))
	}
	scans := make([][]*kernel.Array, max(0, len(c.Out)-len(state)))
	defer func() {
		for _, list := range append(scans, state) {
			for _, a := range list {
				c.Arena.Release(a)
			}
		}
	}()
	for i := 0; i < rounds && goOn; i++ {
		if err := c.Context.Err(); err != nil {
			return err
		}
		var err error
		if goOn, err = round(c, i, state, scans); err != nil {
			return err
		}
	}
	if c.In[0] == nil && goOn && rounds == c.Steps {
		return fmt.Errorf("more than %d iterations", c.Steps)
	}
	for i, a := range state {
		if i < len(c.Out) {
			c.Out[i] = a.View(a.Shape)
		}
	}
	for i, list := range scans {
		a, err := stacked(c, list)
		if err != nil {
			return err
		}
		c.Out[len(state)+i] = a
	}
	return nil
}

// round runs the body once, and replaces the state.
func round(c *kernel.Call, i int, state []*kernel.Array, scans [][]*kernel.Array) (bool, error) {
	n, err := c.Arena.New(onnx.INT64)
	if err != nil {
		return false, err
	}
	defer c.Arena.Release(n)
	kernel.Elements[int64](n)[0] = int64(i)
	cond, err := c.Arena.New(onnx.BOOL)
	if err != nil {
		return false, err
	}
	defer c.Arena.Release(cond)
	kernel.Elements[bool](cond)[0] = true
	out, err := c.Sub("body", append([]*kernel.Array{n, cond}, state...))
	if err != nil {
		return false, err
	}
	if len(out) != 1+len(state)+len(scans) || out[0].Type != onnx.BOOL || out[0].Len() != 1 {
		for _, a := range out {
			c.Arena.Release(a)
		}
		return false, fmt.Errorf("loop body: got %d results, want %d, the first a single bool", len(out), 1+len(state)+len(scans))
	}
	goOn := kernel.Elements[bool](out[0])[0]
	c.Arena.Release(out[0])
	for k := range state {
		c.Arena.Release(state[k])
		state[k] = out[1+k]
	}
	for k := range scans {
		scans[k] = append(scans[k], out[1+len(state)+k])
	}
	return goOn, nil
}

// stacked joins arrays of one shape along a new first dimension.
func stacked(c *kernel.Call, list []*kernel.Array) (*kernel.Array, error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("results of a loop without iterations are not supported")
	}
	first := list[0]
	out, err := c.Arena.New(first.Type, append([]int{len(list)}, first.Shape...)...)
	if err != nil {
		return nil, err
	}
	for i, a := range list {
		if a.Type != first.Type || !slices.Equal(a.Shape, first.Shape) {
			c.Arena.Release(out)
			return nil, fmt.Errorf("shape mismatch: results %v and %v", first.Shape, a.Shape)
		}
		copy(out.Bytes()[i*len(a.Bytes()):], a.Bytes())
	}
	return out, nil
}
