package op

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/core/graph/array"
	"mm-abi.org/mm/core/onnx"
	"mm-abi.org/mm/core/tensor"
)

// cell is a recurrent operator: LSTM, GRU or RNN.
type cell struct {
	gates                  int // rows of weights a unit
	steps, batch, in, size int
	dirs                   int
	batchFirst             bool
	x, w, r, b, p          []float32
	lens                   []int
	linear                 bool // linear_before_reset of GRU
}

// recurrent runs a cell over a sequence, in one or both directions.
func recurrent(c *Call) error {
	k, err := c.cell()
	if err != nil {
		return err
	}
	state := []int{k.dirs, k.batch, k.size}
	all := []int{k.steps, k.dirs, k.batch, k.size}
	if k.batchFirst {
		state, all = []int{k.batch, k.dirs, k.size}, []int{k.batch, k.steps, k.dirs, k.size}
	}
	var out [3]*Array
	shapes := [][]int{all, state, state}
	for i := range min(len(c.Out), 3) {
		if i == 2 && c.Node.Op != "LSTM" {
			return fmt.Errorf("output 2")
		}
		if out[i], err = c.Arena.Zeros(onnx.FLOAT, shapes[i]...); err != nil {
			return err
		}
		c.Out[i] = out[i]
	}
	h0, c0 := c.input(5), c.input(6)
	if c.Node.Op != "LSTM" {
		c0 = nil
	}
	for _, a := range []*Array{h0, c0} {
		if a != nil && (a.Type != onnx.FLOAT || !slices.Equal(a.Shape, state)) {
			return fmt.Errorf("an initial state of %v, wanted is %v", a.Shape, state)
		}
	}
	c.each(k.dirs*k.batch, k.steps*k.gates*k.size*(k.in+k.size), func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			d, n := i/k.batch, i%k.batch
			at := (d*k.batch + n) * k.size
			if k.batchFirst {
				at = (n*k.dirs + d) * k.size
			}
			h, cs := make([]float32, k.size), make([]float32, k.size)
			if h0 != nil {
				copy(h, array.Of[float32](h0)[at:])
			}
			if c0 != nil {
				copy(cs, array.Of[float32](c0)[at:])
			}
			k.run(c, d, n, h, cs, out[0])
			for j, a := range []([]float32){nil, h, cs} {
				if j > 0 && out[j] != nil {
					copy(array.Of[float32](out[j])[at:at+k.size], a)
				}
			}
		}
	})
	return nil
}

// run takes one sequence of a batch through the cell.
func (k *cell) run(c *Call, d, n int, h, cs []float32, out *Array) {
	g, s := k.gates*k.size, k.size
	w, r := k.w[d*g*k.in:(d+1)*g*k.in], k.r[d*g*s:(d+1)*g*s]
	var wb, rb, peep []float32
	if k.b != nil {
		wb, rb = k.b[d*2*g:d*2*g+g], k.b[d*2*g+g:(d+1)*2*g]
	}
	if k.p != nil {
		peep = k.p[d*3*s : (d+1)*3*s]
	}
	u, v, next := make([]float32, g), make([]float32, g), make([]float32, s)
	steps := k.steps
	if k.lens != nil {
		steps = k.lens[n]
	}
	back := d == 1 || c.text("direction", "forward") == "reverse"
	for i := range steps {
		t := i
		if back {
			t = steps - 1 - i
		}
		at, to := (t*k.batch+n)*k.in, ((t*k.dirs+d)*k.batch+n)*s
		if k.batchFirst {
			at, to = (n*k.steps+t)*k.in, ((n*k.steps+t)*k.dirs+d)*s
		}
		rows(u, w, k.x[at:at+k.in], wb)
		rows(v, r, h, rb)
		switch c.Node.Op {
		case "LSTM":
			k.lstm(u, v, h, cs, peep)
		case "GRU":
			k.gru(u, v, h, next, r, rb)
		default:
			for j := range h {
				h[j] = float32(math.Tanh(float64(u[j] + v[j])))
			}
		}
		if out != nil {
			copy(array.Of[float32](out)[to:to+s], h)
		}
	}
}

// rows is dst = m·x + bias.
func rows(dst, m, x, bias []float32) {
	for i := range dst {
		dst[i] = tensor.Dot(m[i*len(x):(i+1)*len(x)], x)
	}
	if bias != nil {
		tensor.Add(dst, bias)
	}
}

func sig(x float32) float32 { return float32(sigmoid(float64(x))) }

func tanh(x float32) float32 { return float32(math.Tanh(float64(x))) }

// lstm has the gates input, output, forget, cell; peepholes input, output,
// forget.
func (k *cell) lstm(u, v, h, cs, p []float32) {
	s := k.size
	for j := range s {
		in, out, forget := u[j]+v[j], u[s+j]+v[s+j], u[2*s+j]+v[2*s+j]
		if p != nil {
			in += p[j] * cs[j]
			forget += p[2*s+j] * cs[j]
		}
		cs[j] = sig(forget)*cs[j] + sig(in)*tanh(u[3*s+j]+v[3*s+j])
		if p != nil {
			out += p[s+j] * cs[j]
		}
		h[j] = sig(out) * tanh(cs[j])
	}
}

// gru has the gates update, reset, hidden.
func (k *cell) gru(u, v, h, next, r, rb []float32) {
	s := k.size
	if !k.linear {
		for j := range s {
			next[j] = sig(u[s+j]+v[s+j]) * h[j]
		}
		var b []float32
		if rb != nil {
			b = rb[2*s:]
		}
		rows(v[2*s:], r[2*s*s:], next, b)
	}
	for j := range s {
		z, hidden := sig(u[j]+v[j]), v[2*s+j]
		if k.linear {
			hidden *= sig(u[s+j] + v[s+j])
		}
		h[j] = (1-z)*tanh(u[2*s+j]+hidden) + z*h[j]
	}
}

// cell reads and checks the inputs.
func (c *Call) cell() (*cell, error) {
	k := &cell{gates: map[string]int{"LSTM": 4, "GRU": 3, "RNN": 1}[c.Node.Op], dirs: 1, batchFirst: c.int("layout", 0) != 0, linear: c.int("linear_before_reset", 0) != 0}
	switch c.text("direction", "forward") {
	case "bidirectional":
		k.dirs = 2
	case "forward", "reverse":
	default:
		return nil, fmt.Errorf("direction %q", c.text("direction", ""))
	}
	if c.int("input_forget", 0) != 0 {
		return nil, fmt.Errorf("input_forget is not supported")
	}
	peep := 7
	if c.Node.Op != "LSTM" {
		peep = many
	}
	in, err := c.floats(0, 1, 2, 3, peep)
	if err != nil {
		return nil, err
	}
	k.x, k.w, k.r, k.b, k.p = in[0], in[1], in[2], in[3], in[4]
	x, w, r := c.In[0], c.In[1], c.In[2]
	if x.Rank() != 3 || w.Rank() != 3 || r.Rank() != 3 {
		return nil, fmt.Errorf("%v, %v and %v", x.Shape, w.Shape, r.Shape)
	}
	k.steps, k.batch, k.in, k.size = x.Shape[0], x.Shape[1], x.Shape[2], r.Shape[2]
	if k.batchFirst {
		k.steps, k.batch = k.batch, k.steps
	}
	g := k.gates * k.size
	if !slices.Equal(w.Shape, []int{k.dirs, g, k.in}) || !slices.Equal(r.Shape, []int{k.dirs, g, k.size}) || c.int("hidden_size", k.size) != k.size {
		return nil, fmt.Errorf("weights of %v and %v for %v", w.Shape, r.Shape, x.Shape)
	}
	if err := c.lengths(k.dirs*2*g, 3); err != nil {
		return nil, err
	}
	if k.p != nil && len(k.p) != k.dirs*3*k.size {
		return nil, fmt.Errorf("%d peepholes", len(k.p))
	}
	if k.lens, err = c.integers(4); err != nil || k.lens != nil && len(k.lens) != k.batch {
		return nil, fmt.Errorf("%d lengths of %d sequences: %v", len(k.lens), k.batch, err)
	}
	for _, n := range k.lens {
		if n < 0 || n > k.steps {
			return nil, fmt.Errorf("the lengths %v of %d steps", k.lens, k.steps)
		}
	}
	return k, nil
}
