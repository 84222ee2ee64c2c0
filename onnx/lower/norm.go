package lower

import (
	"fmt"
	"math"
)

// layerNorm lowers LayerNormalization; further results are not supported.
func (c *call) layerNorm() error {
	if err := c.single(); err != nil {
		return err
	}
	in := c.in[:2]
	if b := c.at(2); b != nil {
		in = c.in[:3]
	}
	c.emit(&Node{Op: LayerNorm, In: in, Axis: axis(c.int("axis", -1), rank(c.in[0])), Epsilon: c.float("epsilon", 1e-5)})
	return nil
}

// single refuses nodes with more than one result that is used.
func (c *call) single() error {
	for _, o := range c.n.Outputs[1:] {
		if o != "" && c.used(o) {
			return fmt.Errorf("result %q is not supported", o)
		}
	}
	return nil
}

// used reports whether a node or an output of the graph reads a value.
func (l *lowering) used(name string) bool {
	for i := range l.model.Graph.Nodes {
		for _, in := range l.model.Graph.Nodes[i].Inputs {
			if in == name {
				return true
			}
		}
	}
	for _, o := range l.model.Graph.Outputs {
		if o.Name == name {
			return true
		}
	}
	return false
}

// skipNorm lowers com.microsoft's SkipLayerNormalization: input + skip (+ bias),
// normalized.
func (c *call) skipNorm() error {
	x, skip, gain := c.in[0], c.in[1], c.in[2]
	sum := c.temp(Float32, x.Shape)
	if len(c.n.Outputs) > 3 && c.n.Outputs[3] != "" {
		v, err := c.value(c.n.Outputs[3])
		if err != nil {
			return err
		}
		sum = v
	}
	if bias := c.at(4); bias != nil {
		x = c.then(&Node{Op: Add, In: []*Value{x, bias}}, x.Shape)
	}
	c.emit(&Node{Op: Add, In: []*Value{x, skip}, Out: sum})
	in := []*Value{sum, gain}
	if beta := c.at(3); beta != nil {
		in = append(in, beta)
	}
	c.emit(&Node{Op: LayerNorm, In: in, Axis: rank(sum) - 1, Epsilon: c.float("epsilon", 1e-5)})
	return nil
}

func (c *call) rmsNorm() error {
	if err := c.single(); err != nil {
		return err
	}
	r := rank(c.in[0])
	if a := axis(c.int("axis", -1), r); a != r-1 {
		return fmt.Errorf("axis %d of %d dimensions", a, r)
	}
	c.emit(&Node{Op: RMSNorm, In: c.in[:2], Axis: r - 1, Epsilon: c.float("epsilon", 1e-5)})
	return nil
}

// batchNorm folds inference-time normalization into the convolution before it, or
// writes x·scale + shift with C×1×… constants.
func (c *call) batchNorm() error {
	if err := c.single(); err != nil {
		return err
	}
	if c.int("training_mode", 0) != 0 {
		return fmt.Errorf("training mode is not supported")
	}
	for i := 1; i < 5; i++ {
		if v := c.at(i); v == nil || v.Const == nil {
			return fmt.Errorf("input %d is not constant", i)
		}
	}
	gain, bias, mean, variance := c.in[1].Const.Floats, c.in[2].Const.Floats, c.in[3].Const.Floats, c.in[4].Const.Floats
	scale, shift := make([]float32, len(gain)), make([]float32, len(gain))
	for i := range gain {
		s := float64(gain[i]) / math.Sqrt(float64(variance[i])+float64(c.float("epsilon", 1e-5)))
		scale[i], shift[i] = float32(s), float32(float64(bias[i])-float64(mean[i])*s)
	}
	if c.intoConv(scale, shift) {
		return nil
	}
	shape := make([]int, rank(c.in[0])-1)
	for i := range shape {
		shape[i] = 1
	}
	shape[0] = len(gain)
	scaled := c.then(&Node{Op: Mul, In: []*Value{c.in[0], c.floats(shape, scale...)}}, c.in[0].Shape)
	c.emit(&Node{Op: Add, In: []*Value{scaled, c.floats(shape, shift...)}})
	return nil
}

// intoConv folds a scale and a shift of each channel into the last node, if it is a
// convolution that only this node reads.
func (c *call) intoConv(scale, shift []float32) bool {
	if len(c.nodes) == 0 {
		return false
	}
	n := c.nodes[len(c.nodes)-1]
	if n.Op != Conv || n.Out != c.in[0] || n.In[1].Const == nil || len(n.In) > 2 && n.In[2].Const == nil || c.readers(n.Out.Name) != 1 {
		return false
	}
	w := n.In[1].Const.Floats
	folded, per := make([]float32, len(w)), len(w)/len(scale)
	for i := range w {
		folded[i] = w[i] * scale[i/per]
	}
	bias := make([]float32, len(shift))
	copy(bias, shift)
	if len(n.In) > 2 {
		for i, b := range n.In[2].Const.Floats {
			bias[i] = float32(float64(shift[i]) + float64(b)*float64(scale[i]))
		}
	}
	n.In = []*Value{n.In[0], c.floats(n.In[1].Shape, folded...), c.floats([]int{len(bias)}, bias...)}
	n.Out = c.out
	return true
}

// readers counts the uses of a value of the model.
func (l *lowering) readers(name string) (count int) {
	for i := range l.model.Graph.Nodes {
		for _, in := range l.model.Graph.Nodes[i].Inputs {
			if in == name {
				count++
			}
		}
	}
	for _, o := range l.model.Graph.Outputs {
		if o.Name == name {
			count++
		}
	}
	return count
}

// instanceNorm writes the normalization of each channel by means over its positions.
func (c *call) instanceNorm() error {
	x := c.in[0]
	var axes []int
	reduced, per := make([]int, rank(x)), make([]int, rank(x)-1)
	copy(reduced, x.Shape)
	for i := 2; i < rank(x); i++ {
		axes, reduced[i] = append(axes, i), 1
	}
	for i := range per {
		per[i] = 1
	}
	per[0] = x.Shape[1]
	reshaped := func(v *Value) *Value { return c.then(&Node{Op: Reshape, In: []*Value{v}}, per) }
	mean := c.then(&Node{Op: ReduceMean, In: []*Value{x}, Axes: axes, Keep: true}, reduced)
	centered := c.then(&Node{Op: Sub, In: []*Value{x, mean}}, x.Shape)
	square := c.then(&Node{Op: Mul, In: []*Value{centered, centered}}, x.Shape)
	variance := c.then(&Node{Op: ReduceMean, In: []*Value{square}, Axes: axes, Keep: true}, reduced)
	more := c.then(&Node{Op: Add, In: []*Value{variance, c.floats([]int{1}, c.float("epsilon", 1e-5))}}, reduced)
	root := c.then(&Node{Op: Sqrt, In: []*Value{more}}, reduced)
	unit := c.then(&Node{Op: Div, In: []*Value{centered, root}}, x.Shape)
	scaled := c.then(&Node{Op: Mul, In: []*Value{unit, reshaped(c.in[1])}}, x.Shape)
	c.emit(&Node{Op: Add, In: []*Value{scaled, reshaped(c.in[2])}})
	return nil
}
