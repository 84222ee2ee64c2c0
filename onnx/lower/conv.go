package lower

import (
	"fmt"
	"slices"
)

// ones returns n ones, or the list if it is not empty.
func ones(list []int, n int) []int {
	if len(list) > 0 {
		return list
	}
	return slices.Repeat([]int{1}, n)
}

// window reads the attributes of a sliding window over n dimensions. Pads that the
// model leaves to the operator are computed from the shapes.
func (c *call) window(n *Node, kernel []int) error {
	k := len(kernel)
	n.Kernel, n.Strides, n.Dilations = kernel, ones(c.list("strides"), k), ones(c.list("dilations"), k)
	n.Before, n.After = make([]int, k), make([]int, k)
	if len(n.Strides) != k || len(n.Dilations) != k || rank(c.in[0]) != k+2 {
		return fmt.Errorf("strides %v and dilations %v for a window of %d dimensions", n.Strides, n.Dilations, k)
	}
	switch auto := c.text("auto_pad", "NOTSET"); auto {
	case "NOTSET":
		if pads := c.list("pads"); len(pads) == 2*k {
			copy(n.Before, pads[:k])
			copy(n.After, pads[k:])
		} else if len(pads) > 0 {
			return fmt.Errorf("got %d pads, want %d", len(pads), 2*k)
		}
	case "VALID":
	case "SAME_UPPER", "SAME_LOWER":
		for i := range k {
			size, out := c.in[0].Shape[2+i], c.out.Shape[2+i]
			total := max(0, (out-1)*n.Strides[i]+(kernel[i]-1)*n.Dilations[i]+1-size)
			n.Before[i] = total / 2
			if auto == "SAME_LOWER" {
				n.Before[i] = total - total/2
			}
			n.After[i] = total - n.Before[i]
		}
	default:
		return fmt.Errorf("unsupported auto_pad %q", auto)
	}
	return nil
}

func (c *call) conv() error {
	n := &Node{Op: Conv, Groups: c.int("group", 1)}
	if err := c.window(n, c.in[1].Shape[2:]); err != nil {
		return err
	}
	if len(n.Kernel) > 2 {
		return fmt.Errorf("convolution over %d dimensions, want 1 or 2", len(n.Kernel))
	}
	if n.In = c.in[:2]; c.at(2) != nil {
		n.In = c.in[:3]
	}
	c.emit(n)
	return nil
}

func (c *call) convTranspose() error {
	n := &Node{Op: ConvTranspose, Groups: c.int("group", 1)}
	if auto := c.text("auto_pad", "NOTSET"); auto != "NOTSET" || c.list("output_shape") != nil {
		return fmt.Errorf("auto_pad %s or output_shape of a transposed convolution", auto)
	}
	if err := c.window(n, c.in[1].Shape[2:]); err != nil {
		return err
	}
	if len(n.Kernel) > 2 {
		return fmt.Errorf("convolution over %d dimensions, want 1 or 2", len(n.Kernel))
	}
	for i, p := range c.list("output_padding") {
		n.After[i] -= p
	}
	if n.In = c.in[:2]; c.at(2) != nil {
		n.In = c.in[:3]
	}
	c.emit(n)
	return nil
}

// pool lowers MaxPool and AveragePool. A window that starts in the pads only, as
// ceil_mode allows, is refused.
func (c *call) pool() error {
	if err := c.single(); err != nil {
		return err
	}
	n := &Node{Op: MaxPool, In: c.in[:1]}
	if c.n.Op == "AveragePool" {
		n.Op, n.Counted = AvgPool, c.int("count_include_pad", 0) != 0
	}
	kernel := c.list("kernel_shape")
	if err := c.window(n, kernel); err != nil {
		return err
	}
	if len(kernel) > 2 {
		return fmt.Errorf("pool over %d dimensions, want 1 or 2", len(kernel))
	}
	for i, k := range kernel {
		reach := (c.out.Shape[2+i]-1)*n.Strides[i] + (k-1)*n.Dilations[i] + 1
		if over := reach - c.in[0].Shape[2+i] - n.Before[i] - n.After[i]; over > 0 {
			if n.Op == AvgPool {
				return fmt.Errorf("average over a window beyond the pads (ceil_mode)")
			}
			n.After[i] += over
		}
	}
	c.emit(n)
	return nil
}

// global reduces all positions of each channel.
func (c *call) global(op Op) error {
	var axes []int
	for i := 2; i < rank(c.in[0]); i++ {
		axes = append(axes, i)
	}
	c.emit(&Node{Op: op, Axes: axes, Keep: true})
	return nil
}
