package layers

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// delta is one application of LinearAttention: a state of keys by values of
// each head, that decays and is corrected at each position.
type delta struct {
	batch, steps, heads, groups int
	size, width                 int // of a key, and of a value
	q, k, v, decay, beta        []float32
	decays, betas               int // numbers of each position
	gated, corrected            bool
	scale                       float32
}

// linearAttention computes LinearAttention.
func linearAttention(c *kernel.Call) error {
	d, err := deltaOf(c)
	if err != nil {
		return err
	}
	out, err := c.Result(0, onnx.FLOAT, d.batch, d.steps, d.heads*d.width)
	if err != nil {
		return err
	}
	state, err := c.Arena.Zeros(onnx.FLOAT, d.batch, d.groups, d.size, d.width)
	if err != nil {
		return err
	}
	if past := c.Input(3); past != nil {
		if fmt.Sprint(past.Shape) != fmt.Sprint(state.Shape) {
			c.Arena.Release(state)
			return fmt.Errorf("shape mismatch: past state %v, want %v", past.Shape, state.Shape)
		}
		copy(kernel.Elements[float32](state), kernel.Elements[float32](past))
	}
	if out.Len() > 0 && state.Len() > 0 {
		o, s, n := kernel.Elements[float32](out), kernel.Elements[float32](state), d.size*d.width
		c.Each(d.batch*d.groups, d.steps*n*4, func(_, lo, hi int) {
			fixed := make([]float32, d.width)
			for i := lo; i < hi; i++ {
				for t := range d.steps {
					d.step(i/d.groups, i%d.groups, t, s[i*n:(i+1)*n], fixed, o)
				}
			}
		})
	} else {
		clear(kernel.Elements[float32](out))
	}
	if len(c.Out) > 1 {
		c.Out[1] = state
		return nil
	}
	c.Arena.Release(state)
	return nil
}

// deltaOf reads and checks the inputs.
func deltaOf(c *kernel.Call) (*delta, error) {
	in, err := c.Floats(0, 1, 2, 3, 4, 5)
	if err != nil {
		return nil, err
	}
	d := &delta{q: in[0], k: in[1], v: in[2], decay: in[4], beta: in[5], heads: c.Int("q_num_heads", 0), groups: c.Int("kv_num_heads", 0), scale: c.Float("scale", 0)}
	q, k, v := c.In[0].Shape, c.In[1].Shape, c.In[2].Shape
	if d.heads < 1 || d.groups < 1 || d.heads%d.groups != 0 || len(q) != 3 || len(k) != 3 || len(v) != 3 || q[2]%d.heads != 0 || k[2]%d.groups != 0 || v[2]%d.groups != 0 {
		return nil, fmt.Errorf("shape mismatch: %v, %v and %v in %d and %d heads", q, k, v, d.heads, d.groups)
	}
	d.batch, d.steps, d.size, d.width = q[0], q[1], q[2]/d.heads, v[2]/d.groups
	if fmt.Sprint(k[:2], k[2]/d.groups) != fmt.Sprint(q[:2], d.size) || fmt.Sprint(v[:2]) != fmt.Sprint(q[:2]) {
		return nil, fmt.Errorf("shape mismatch: %v, %v and %v", q, k, v)
	}
	switch rule := c.Text("update_rule", "gated_delta"); rule {
	case "linear":
	case "gated":
		d.gated = true
	case "delta":
		d.corrected = true
	case "gated_delta":
		d.gated, d.corrected = true, true
	default:
		return nil, fmt.Errorf("update_rule %q is not supported", rule)
	}
	if d.decays, err = gates(c, 4, q, d.gated, d.groups, d.groups*d.size); err != nil {
		return nil, err
	}
	if d.betas, err = gates(c, 5, q, d.corrected, d.groups, 1); err != nil {
		return nil, err
	}
	if d.scale == 0 {
		d.scale = float32(1 / math.Sqrt(float64(max(d.size, 1))))
	}
	return d, nil
}

// gates returns the numbers of each position in an input, one of two.
func gates(c *kernel.Call, i int, q []int, wanted bool, either, or int) (int, error) {
	a := c.Input(i)
	if !wanted {
		return 0, nil
	}
	if a == nil || a.Rank() != 3 || a.Shape[0] != q[0] || a.Shape[1] != q[1] || a.Shape[2] != either && a.Shape[2] != or {
		return 0, fmt.Errorf("input %d is missing or does not have %d or %d numbers for each position", i, either, or)
	}
	return a.Shape[2], nil
}

// step updates the state of one head of keys at a position, and reads it for its
// heads of queries.
func (d *delta) step(b, g, t int, state, fixed, out []float32) {
	at := b*d.steps + t
	k, v := d.k[(at*d.groups+g)*d.size:][:d.size], d.v[(at*d.groups+g)*d.width:][:d.width]
	if d.gated {
		for i := range d.size {
			by := d.decay[at*d.decays+g*d.decays/d.groups]
			if d.decays != d.groups {
				by = d.decay[at*d.decays+g*d.size+i]
			}
			tensor.Scale(state[i*d.width:(i+1)*d.width], float32(math.Exp(float64(by))))
		}
	}
	copy(fixed, v)
	if d.corrected {
		for i, x := range k {
			tensor.Axpy(fixed, -x, state[i*d.width:(i+1)*d.width])
		}
		tensor.Scale(fixed, d.beta[at*d.betas+g%d.betas])
	}
	for i, x := range k {
		tensor.Axpy(state[i*d.width:(i+1)*d.width], x, fixed)
	}
	each := d.heads / d.groups
	for h := g * each; h < (g+1)*each; h++ {
		o, q := out[(at*d.heads+h)*d.width:][:d.width], d.q[(at*d.heads+h)*d.size:]
		clear(o)
		for i := range d.size {
			tensor.Axpy(o, d.scale*q[i], state[i*d.width:(i+1)*d.width])
		}
	}
}

// causalConv computes CausalConvWithState: a convolution of each channel over
// the past, of which the last positions are in an input.
func causalConv(c *kernel.Call) error {
	in, err := c.Floats(0, 1, 2, 3)
	if err != nil {
		return err
	}
	x, w := c.In[0].Shape, c.In[1].Shape
	if len(x) != 3 || len(w) != 3 || w[0] != x[1] || w[1] != 1 || w[2] < 1 {
		return fmt.Errorf("shape mismatch: %v by %v", x, w)
	}
	n, k := x[2], w[2]
	past := []int{x[0], x[1], k - 1}
	if err := c.Lengths(x[1], 2); err != nil {
		return err
	}
	if p := c.Input(3); p != nil && fmt.Sprint(p.Shape) != fmt.Sprint(past) {
		return fmt.Errorf("shape mismatch: past %v, want %v", p.Shape, past)
	}
	act := c.Text("activation", "none")
	if act != "none" && act != "silu" && act != "swish" {
		return fmt.Errorf("activation %q is not supported", act)
	}
	out, err := c.Result(0, onnx.FLOAT, x...)
	if err != nil {
		return err
	}
	var present []float32
	if len(c.Out) > 1 {
		a, err := c.Result(1, onnx.FLOAT, past...)
		if err != nil {
			return err
		}
		present = kernel.Elements[float32](a)
	}
	o := kernel.Elements[float32](out)
	c.Each(x[0]*x[1], (n+1)*k, func(_, lo, hi int) {
		row := make([]float32, k-1+n)
		for r := lo; r < hi; r++ {
			clear(row[:k-1])
			if in[3] != nil {
				copy(row, in[3][r*(k-1):(r+1)*(k-1)])
			}
			copy(row[k-1:], in[0][r*n:(r+1)*n])
			to, weights := o[r*n:(r+1)*n], in[1][r%x[1]*k:][:k]
			for i := range to {
				to[i] = tensor.Dot(weights, row[i:i+k])
				if in[2] != nil {
					to[i] += in[2][r%x[1]]
				}
			}
			if act != "none" {
				tensor.SiLU(to, to)
			}
			if present != nil {
				copy(present[r*(k-1):(r+1)*(k-1)], row[n:])
			}
		}
	})
	return nil
}
