package lower

import (
	"fmt"
	"slices"
)

func (c *call) matMul() error {
	c.emit(&Node{Op: MatMul})
	return nil
}

// gemm writes α·A·B + β·C; A is transposed by an operator, B by the product.
func (c *call) gemm() error {
	a := c.in[0]
	if c.int("transA", 0) != 0 {
		a = c.then(&Node{Op: Transpose, In: []*Value{a}, Perm: []int{1, 0}}, []int{a.Shape[1], a.Shape[0]})
	}
	alpha, beta := c.float("alpha", 1), c.float("beta", 1)
	product := &Node{Op: MatMul, In: []*Value{a, c.in[1]}, TransposeB: c.int("transB", 0) != 0}
	bias := c.at(2)
	if bias == nil && alpha == 1 {
		c.emit(product)
		return nil
	}
	y := c.then(product, c.out.Shape)
	if alpha != 1 {
		scaled := &Node{Op: Mul, In: []*Value{y, c.floats([]int{1}, alpha)}}
		if bias == nil {
			c.emit(scaled)
			return nil
		}
		y = c.then(scaled, c.out.Shape)
	}
	if beta != 1 {
		bias = c.then(&Node{Op: Mul, In: []*Value{bias, c.floats([]int{1}, beta)}}, bias.Shape)
	}
	c.emit(&Node{Op: Add, In: []*Value{y, bias}})
	return nil
}

func (c *call) reduce(op Op) error {
	axes, err := c.constants(1, "axes")
	if err != nil {
		return err
	}
	r := rank(c.in[0])
	for i := range axes {
		axes[i] = axis(axes[i], r)
	}
	if len(axes) == 0 {
		if c.int("noop_with_empty_axes", 0) != 0 {
			return c.reshape()
		}
		for i := range r {
			axes = append(axes, i)
		}
	}
	slices.Sort(axes)
	c.emit(&Node{Op: op, In: c.in[:1], Axes: axes, Keep: c.int("keepdims", 1) != 0})
	return nil
}

func (c *call) transpose() error {
	perm := c.list("perm")
	if perm == nil {
		for i := rank(c.in[0]) - 1; i >= 0; i-- {
			perm = append(perm, i)
		}
	}
	c.emit(&Node{Op: Transpose, Perm: perm})
	return nil
}

func (c *call) concat() error {
	a := axis(c.int("axis", 0), rank(c.out))
	in := slices.DeleteFunc(slices.Clone(c.in), func(v *Value) bool { return v.Size() == 0 })
	if len(in) == 1 {
		c.emit(&Node{Op: Reshape, In: in})
		return nil
	}
	c.emit(&Node{Op: Concat, In: in, Axis: a})
	return nil
}

// slice lowers Slice, whose bounds must be constant.
func (c *call) slice() error {
	var lists [4][]int
	for i, name := range []string{"starts", "ends", "axes", "steps"} {
		var err error
		if lists[i], err = c.constants(i+1, name); err != nil {
			return err
		}
	}
	starts, axes, steps := lists[0], lists[2], lists[3]
	r := rank(c.in[0])
	n := &Node{Op: Slice, In: c.in[:1], Starts: make([]int, r), Steps: ones(nil, r)}
	for i, from := range starts {
		a, step := i, 1
		if axes != nil {
			a = axis(axes[i], r)
		}
		if steps != nil {
			step = steps[i]
		}
		size := c.in[0].Shape[a]
		if from < 0 {
			from += size
		}
		if step > 0 {
			from = max(0, min(from, size))
		} else {
			from = max(0, min(from, size-1))
		}
		n.Starts[a], n.Steps[a] = from, step
	}
	c.emit(n)
	return nil
}

// split writes a slice for each result.
func (c *call) split() error {
	x := c.in[0]
	a, at := axis(c.int("axis", 0), rank(x)), 0
	for _, name := range c.n.Outputs {
		if name == "" {
			return fmt.Errorf("an omitted result")
		}
		out, err := c.value(name)
		if err != nil {
			return err
		}
		starts := make([]int, rank(x))
		starts[a] = at
		c.emit(&Node{Op: Slice, In: c.in[:1], Out: out, Starts: starts, Steps: ones(nil, rank(x))})
		at += out.Shape[a]
	}
	return nil
}

func (c *call) gather() error {
	c.emit(&Node{Op: Gather, Axis: axis(c.int("axis", 0), rank(c.in[0]))})
	return nil
}

func (c *call) pad() error {
	pads, err := c.constants(1, "pads")
	if err != nil {
		return err
	}
	r := rank(c.in[0])
	axes, err := c.constants(3, "")
	if err != nil {
		return err
	}
	if axes == nil {
		for i := range r {
			axes = append(axes, i)
		}
	}
	n := &Node{Op: Pad, In: c.in[:1], Mode: c.text("mode", "constant"), Low: c.float("value", 0), Before: make([]int, r), After: make([]int, r)}
	if v := c.at(2); v != nil {
		if v.Const == nil || len(v.Const.Floats) != 1 {
			return fmt.Errorf("value %s of pads is not a constant number", v.Name)
		}
		n.Low = v.Const.Floats[0]
	}
	if len(pads) != 2*len(axes) {
		return fmt.Errorf("got %d pads, want %d", len(pads), 2*len(axes))
	}
	for i, a := range axes {
		a = axis(a, r)
		n.Before[a], n.After[a] = pads[i], pads[len(axes)+i]
	}
	if n.Mode == "wrap" {
		return fmt.Errorf("unsupported mode %q", n.Mode)
	}
	c.emit(n)
	return nil
}

// expand repeats dimensions of 1 by Tile.
func (c *call) expand() error {
	x := c.in[0]
	if rank(x) < rank(c.out) {
		shape := append(slices.Repeat([]int{1}, rank(c.out)-rank(x)), x.Shape...)
		x = c.then(&Node{Op: Reshape, In: []*Value{x}}, shape)
	}
	op := Tile
	if slices.Equal(x.Shape, c.out.Shape) {
		op = Reshape
	}
	c.emit(&Node{Op: op, In: []*Value{x}})
	return nil
}

func (c *call) tile() error {
	c.emit(&Node{Op: Tile, In: c.in[:1]})
	return nil
}

// resize lowers Resize of rows and columns.
func (c *call) resize() error {
	x, n := c.in[0], &Node{Op: Resize, In: c.in[:1], Mode: c.text("mode", "nearest"), Corner: c.text("coordinate_transformation_mode", "half_pixel")}
	if rank(x) != 4 || x.Shape[0] != c.out.Shape[0] || x.Shape[1] != c.out.Shape[1] {
		return fmt.Errorf("resize from %v to %v, want images of N×C×H×W", x.Shape, c.out.Shape)
	}
	if n.Mode == "nearest" {
		n.Corner += " " + c.text("nearest_mode", "round_prefer_floor")
	}
	if c.int("antialias", 0) != 0 || c.int("exclude_outside", 0) != 0 || n.Mode == "cubic" {
		return fmt.Errorf("unsupported mode %s, antialias or exclude_outside", n.Mode)
	}
	c.emit(n)
	return nil
}

// depthToSpace writes reshapes around a transposition.
func (c *call) depthToSpace() error {
	b, s := c.int("blocksize", 1), c.in[0].Shape
	if len(s) != 4 || b < 1 || s[1]%(b*b) != 0 {
		return fmt.Errorf("blocks of %d in shape %v", b, s)
	}
	first, perm := []int{s[0], b, b, s[1] / b / b, s[2], s[3]}, []int{0, 3, 4, 1, 5, 2}
	if c.text("mode", "DCR") == "CRD" {
		first, perm = []int{s[0], s[1] / b / b, b, b, s[2], s[3]}, []int{0, 1, 4, 2, 5, 3}
	}
	x := c.then(&Node{Op: Reshape, In: c.in[:1]}, first)
	shape := make([]int, 6)
	for i, p := range perm {
		shape[i] = first[p]
	}
	x = c.then(&Node{Op: Transpose, In: []*Value{x}, Perm: perm}, shape)
	c.emit(&Node{Op: Reshape, In: []*Value{x}})
	return nil
}
