package op

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/core/graph/array"
	"mm-abi.org/mm/core/onnx"
)

// branch is If.
func branch(c *Call) error {
	if c.In[0].Type != onnx.BOOL || c.In[0].Len() != 1 || c.Sub == nil {
		return fmt.Errorf("a condition of %s %v", c.In[0].Type, c.In[0].Shape)
	}
	name := "else_branch"
	if array.Of[bool](c.In[0])[0] {
		name = "then_branch"
	}
	out, err := c.Sub(name, nil)
	if err == nil && len(out) != len(c.Out) {
		err = fmt.Errorf("%s gives %d results, wanted are %d", name, len(out), len(c.Out))
	}
	if err != nil {
		return err
	}
	copy(c.Out, out)
	return nil
}

// loop is Loop: a body with values that it carries from round to round, and
// others that are collected.
func loop(c *Call) error {
	if c.Sub == nil {
		return fmt.Errorf("no body")
	}
	rounds := c.Steps
	if a := c.In[0]; a != nil {
		list, err := c.integers(0)
		if err != nil || len(list) != 1 {
			return fmt.Errorf("the trip count is no single number: %v", err)
		}
		rounds = min(rounds, max(list[0], 0))
		if list[0] > c.Steps {
			return fmt.Errorf("%d rounds, the limit is %d", list[0], c.Steps)
		}
	}
	goOn := true
	if len(c.In) > 1 && c.In[1] != nil {
		if c.In[1].Type != onnx.BOOL || c.In[1].Len() != 1 {
			return fmt.Errorf("a condition of %s %v", c.In[1].Type, c.In[1].Shape)
		}
		goOn = array.Of[bool](c.In[1])[0]
	}
	var state []*Array
	for _, a := range c.In[min(2, len(c.In)):] {
		if a == nil {
			return fmt.Errorf("a value is left out")
		}
		state = append(state, a.View(a.Shape))
	}
	scans := make([][]*Array, max(0, len(c.Out)-len(state)))
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
		if goOn, err = c.round(i, state, scans); err != nil {
			return err
		}
	}
	if c.In[0] == nil && goOn && rounds == c.Steps {
		return fmt.Errorf("more than %d rounds", c.Steps)
	}
	for i, a := range state {
		if i < len(c.Out) {
			c.Out[i] = a.View(a.Shape)
		}
	}
	for i, list := range scans {
		a, err := c.stacked(list)
		if err != nil {
			return err
		}
		c.Out[len(state)+i] = a
	}
	return nil
}

// round runs the body once, and replaces the state.
func (c *Call) round(i int, state []*Array, scans [][]*Array) (bool, error) {
	n, err := c.Arena.New(onnx.INT64)
	if err != nil {
		return false, err
	}
	defer c.Arena.Release(n)
	array.Of[int64](n)[0] = int64(i)
	cond, err := c.Arena.New(onnx.BOOL)
	if err != nil {
		return false, err
	}
	defer c.Arena.Release(cond)
	array.Of[bool](cond)[0] = true
	out, err := c.Sub("body", append([]*Array{n, cond}, state...))
	if err != nil {
		return false, err
	}
	if len(out) != 1+len(state)+len(scans) || out[0].Type != onnx.BOOL || out[0].Len() != 1 {
		for _, a := range out {
			c.Arena.Release(a)
		}
		return false, fmt.Errorf("the body gives %d results, wanted are %d, the first a single bool", len(out), 1+len(state)+len(scans))
	}
	goOn := array.Of[bool](out[0])[0]
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
func (c *Call) stacked(list []*Array) (*Array, error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("a result of a loop that never went round is not supported")
	}
	first := list[0]
	out, err := c.Arena.New(first.Type, append([]int{len(list)}, first.Shape...)...)
	if err != nil {
		return nil, err
	}
	for i, a := range list {
		if a.Type != first.Type || !slices.Equal(a.Shape, first.Shape) {
			c.Arena.Release(out)
			return nil, fmt.Errorf("results of %v and %v", first.Shape, a.Shape)
		}
		copy(out.Bytes()[i*len(a.Bytes()):], a.Bytes())
	}
	return out, nil
}

// suppress is NonMaxSuppression: boxes in the order of their scores, less
// those that overlap one taken before.
func suppress(c *Call) error {
	in, err := c.floats(0, 1)
	if err != nil {
		return err
	}
	boxes, scores := c.In[0], c.In[1]
	if boxes.Rank() != 3 || boxes.Shape[2] != 4 || scores.Rank() != 3 || scores.Shape[0] != boxes.Shape[0] || scores.Shape[2] != boxes.Shape[1] {
		return fmt.Errorf("boxes %v and scores %v", boxes.Shape, scores.Shape)
	}
	most, overlap, least := 0, float32(0), float32(0)
	if list, err := c.integers(2); err != nil {
		return err
	} else if len(list) > 0 {
		most = list[0]
	}
	limits, err := c.floats(3, 4)
	if err != nil {
		return err
	}
	if len(limits[0]) > 0 {
		overlap = limits[0][0]
	}
	if len(limits[1]) > 0 {
		least = limits[1][0]
	}
	n, centred := boxes.Shape[1], c.int("center_point_box", 0) != 0
	var found []int64
	for i := range scores.Shape[0] * scores.Shape[1] {
		b, row := i/scores.Shape[1], in[1][i*n:(i+1)*n]
		var order, kept []int
		for k, s := range row {
			if len(limits[1]) == 0 || s > least {
				order = append(order, k)
			}
		}
		slices.SortStableFunc(order, func(p, q int) int {
			switch {
			case row[p] > row[q]:
				return -1
			case row[p] < row[q]:
				return 1
			}
			return 0
		})
		for _, k := range order {
			if len(kept) >= most {
				break
			}
			box := in[0][(b*n+k)*4:]
			if !slices.ContainsFunc(kept, func(o int) bool { return common(box, in[0][(b*n+o)*4:], centred) > overlap }) {
				kept = append(kept, k)
				found = append(found, int64(b), int64(i%scores.Shape[1]), int64(k))
			}
		}
	}
	out, err := c.result(0, onnx.INT64, len(found)/3, 3)
	if err == nil {
		copy(array.Of[int64](out), found)
	}
	return err
}

// common is the area that two boxes share over that which they cover.
func common(a, b []float32, centred bool) float32 {
	edges := func(v []float32) (y0, x0, y1, x1 float32) {
		if centred {
			return v[1] - v[3]/2, v[0] - v[2]/2, v[1] + v[3]/2, v[0] + v[2]/2
		}
		return min(v[0], v[2]), min(v[1], v[3]), max(v[0], v[2]), max(v[1], v[3])
	}
	ay0, ax0, ay1, ax1 := edges(a)
	by0, bx0, by1, bx1 := edges(b)
	shared := max(0, min(ay1, by1)-max(ay0, by0)) * max(0, min(ax1, bx1)-max(ax0, bx0))
	all := (ay1-ay0)*(ax1-ax0) + (by1-by0)*(bx1-bx0) - shared
	if all <= 0 {
		return 0
	}
	return shared / all
}

// dropout passes its input on, all of it.
func dropout(c *Call) error {
	if train := c.input(2); train != nil {
		ratio, err := []float64{0.5}, error(nil)
		if c.input(1) != nil {
			ratio, err = c.doubles(1)
		}
		if err != nil || train.Type != onnx.BOOL || train.Len() != 1 || array.Of[bool](train)[0] && (len(ratio) != 1 || ratio[0] != 0) {
			return fmt.Errorf("training mode is not supported")
		}
	}
	c.Out[0] = c.In[0].View(c.In[0].Shape)
	if len(c.Out) < 2 {
		return nil
	}
	mask := onnx.BOOL
	if c.Opset < 10 {
		mask = c.In[0].Type
	}
	flat, err := c.Arena.New(onnx.BOOL, c.In[0].Shape...)
	if err != nil {
		return err
	}
	defer c.Arena.Release(flat)
	for i := range flat.Bytes() {
		flat.Bytes()[i] = 1
	}
	c.Out[1], err = c.cast(flat, mask)
	return err
}
