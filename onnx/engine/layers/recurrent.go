package layers

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/product"
)

// cell is a recurrent operator: LSTM, GRU or RNN.
type cell struct {
	gates                  int // rows of weights for each unit
	steps, batch, in, size int
	dirs                   int
	batchFirst             bool
	x, b, p                []float32
	packed                 *cellWeights
	lens                   []int
	linear                 bool // linear_before_reset of GRU
	coarse                 bool // states are rounded to 8 bits before the product
}

// cellWeights holds the packed weights of each direction: of the input and of
// the state; for GRU, those of the hidden gate separately if its state is reset
// first.
type cellWeights struct{ w, r, hidden []*tensor.Panels[float32] }

// Prepare packs fixed weights.
func Prepare(c *kernel.Call) ([]int, error) {
	w, r := c.Input(1), c.Input(2)
	for i, a := range []*kernel.Array{w, r} {
		if a == nil || !c.Same(1+i) || a.Type != onnx.FLOAT || a.Rank() != 3 || a.Len() == 0 {
			return nil, nil
		}
	}
	if w.Shape[0] != r.Shape[0] || w.Shape[1] != r.Shape[1] || r.Shape[1]%r.Shape[2] != 0 {
		return nil, nil
	}
	p, err := packCell(c, w, r, c.Kept)
	if err != nil {
		return nil, err
	}
	*c.Cache = p
	return []int{1, 2}, nil
}

// packCell packs the weights of each direction with by.
func packCell(c *kernel.Call, w, r *kernel.Array, by func(b []float32, k, n int, trans bool) (*tensor.Panels[float32], error)) (*cellWeights, error) {
	g, in, size, out := w.Shape[1], w.Shape[2], r.Shape[2], &cellWeights{}
	separate := c.Node.Op == "GRU" && c.Int("linear_before_reset", 0) == 0 && g == 3*size
	for d := range w.Shape[0] {
		p, err := by(kernel.Elements[float32](w)[d*g*in:(d+1)*g*in], in, g, true)
		if err != nil {
			return nil, err
		}
		out.w = append(out.w, p)
		rows := kernel.Elements[float32](r)[d*g*size : (d+1)*g*size]
		if separate {
			if p, err = by(rows[2*size*size:], size, size, true); err != nil {
				return nil, err
			}
			out.hidden, rows = append(out.hidden, p), rows[:2*size*size]
		}
		if p, err = by(rows, size, len(rows)/size, true); err != nil {
			return nil, err
		}
		out.r = append(out.r, p)
	}
	return out, nil
}

// passing packs weights for one run.
func passing(b []float32, k, n int, trans bool) (*tensor.Panels[float32], error) {
	p := tensor.NewPanels[float32](k, n)
	kernel.Pack(p, b, k, n, trans)
	return p, nil
}

// recurrent runs a cell over a sequence, in one or both directions.
func recurrent(c *kernel.Call) error {
	k, err := cellOf(c)
	if err != nil {
		return err
	}
	return k.sequences(c)
}

// sequences runs a cell over every sequence of a batch.
func (k *cell) sequences(c *kernel.Call) (err error) {
	state := []int{k.dirs, k.batch, k.size}
	all := []int{k.steps, k.dirs, k.batch, k.size}
	if k.batchFirst {
		state, all = []int{k.batch, k.dirs, k.size}, []int{k.batch, k.steps, k.dirs, k.size}
	}
	var out [3]*kernel.Array
	shapes := [][]int{all, state, state}
	for i := range min(len(c.Out), 3) {
		if i == 2 && c.Node.Op != "LSTM" {
			return fmt.Errorf("unsupported output 2")
		}
		if out[i], err = c.Arena.Zeros(onnx.FLOAT, shapes[i]...); err != nil {
			return err
		}
		c.Out[i] = out[i]
	}
	h0, c0 := c.Input(5), c.Input(6)
	if c.Node.Op != "LSTM" {
		c0 = nil
	}
	for _, a := range []*kernel.Array{h0, c0} {
		if a != nil && (a.Type != onnx.FLOAT || !slices.Equal(a.Shape, state)) {
			return fmt.Errorf("initial state: got shape %v, want %v", a.Shape, state)
		}
	}
	c.Each(k.dirs*k.batch, k.steps*k.gates*k.size*(k.in+k.size), func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			d, n := i/k.batch, i%k.batch
			at := (d*k.batch + n) * k.size
			if k.batchFirst {
				at = (n*k.dirs + d) * k.size
			}
			h, cs := make([]float32, k.size), make([]float32, k.size)
			if h0 != nil {
				copy(h, kernel.Elements[float32](h0)[at:])
			}
			if c0 != nil {
				copy(cs, kernel.Elements[float32](c0)[at:])
			}
			k.run(c, d, n, h, cs, out[0])
			for j, a := range []([]float32){nil, h, cs} {
				if j > 0 && out[j] != nil {
					copy(kernel.Elements[float32](out[j])[at:at+k.size], a)
				}
			}
		}
	})
	return nil
}

// run processes one sequence of a batch.
func (k *cell) run(c *kernel.Call, d, n int, h, cs []float32, out *kernel.Array) {
	g, s := k.gates*k.size, k.size
	var wb, rb, peep []float32
	if k.b != nil {
		wb, rb = k.b[d*2*g:d*2*g+g], k.b[d*2*g+g:(d+1)*2*g]
	}
	if k.p != nil {
		peep = k.p[d*3*s : (d+1)*3*s]
	}
	v, next := make([]float32, g), make([]float32, s)
	sums := make([]float32, min(k.steps, blockSteps)*g)
	steps := k.steps
	if k.lens != nil {
		steps = k.lens[n]
	}
	back := d == 1 || c.Text("direction", "forward") == "reverse"
	for i := range steps {
		t := i
		if back {
			t = steps - 1 - i
		}
		if i%blockSteps == 0 {
			if c.Context.Err() != nil {
				return
			}
			count := min(blockSteps, steps-i)
			first := t
			if back {
				first = t - count + 1
			}
			k.sums(sums[:count*g], d, n, first, wb)
		}
		u := sums[i%blockSteps*g:][:g]
		if back {
			u = sums[(min(blockSteps, steps-i/blockSteps*blockSteps)-1-i%blockSteps)*g:][:g]
		}
		to := ((t*k.dirs+d)*k.batch + n) * s
		if k.batchFirst {
			to = ((n*k.steps+t)*k.dirs + d) * s
		}
		if k.coarse {
			product.Coarse(next, h)
			add(v, k.packed.r[d], next, rb)
		} else {
			add(v, k.packed.r[d], h, rb)
		}
		switch c.Node.Op {
		case "LSTM":
			tensor.Add(u, v)
			k.lstm(u, h, cs, peep)
		case "GRU":
			k.gru(d, u, v, h, next, rb)
		default:
			tensor.Add(u, v)
			tensor.Tanh(h, u)
		}
		if out != nil {
			copy(kernel.Elements[float32](out)[to:to+s], h)
		}
	}
}

// blockSteps is the number of steps for which the input's part of the gates is
// computed at a time.
const blockSteps = 32

// sums sets out to the input's part of the gates, for some steps of one
// sequence from step t on.
func (k *cell) sums(out []float32, d, n, t int, bias []float32) {
	g := k.gates * k.size
	left := tensor.Left[float32]{Data: k.x[(t*k.batch+n)*k.in:], Row: k.batch * k.in, Col: 1}
	if k.batchFirst {
		left = tensor.Rows(k.x[(n*k.steps+t)*k.in:], k.in)
	}
	k.packed.w[d].Mul(len(out)/g, 1, left, 0, out, g)
	for i := 0; i < len(out) && bias != nil; i += g {
		tensor.Add(out[i:i+g], bias)
	}
}

// add adds a state's part of the gates to the first elements of dst.
func add(dst []float32, r *tensor.Panels[float32], h, bias []float32) {
	dst = dst[:r.Columns()]
	if bias != nil {
		copy(dst, bias)
		r.Mul(1, 1, tensor.Rows(h, len(h)), 1, dst, len(dst))
		return
	}
	r.Mul(1, 1, tensor.Rows(h, len(h)), 0, dst, len(dst))
}

// lstm has the gates input, output, forget, cell, and the peepholes input,
// output, forget.
func (k *cell) lstm(u, h, cs, p []float32) {
	s := k.size
	in, out, forget, gate := u[:s], u[s:2*s], u[2*s:3*s], u[3*s:4*s]
	if p == nil {
		tensor.LSTM(h, cs, in, out, forget, gate)
		return
	}
	for j := range s {
		in[j] += p[j] * cs[j]
		forget[j] += p[2*s+j] * cs[j]
	}
	tensor.Sigmoid(u[:s], in)
	tensor.Sigmoid(forget, forget)
	tensor.Tanh(gate, gate)
	for j := range s {
		cs[j] = forget[j]*cs[j] + in[j]*gate[j]
		out[j] += p[s+j] * cs[j]
	}
	tensor.Sigmoid(out, out)
	tensor.Tanh(h, cs)
	tensor.Times(h, h, out)
}

// gru has the gates update, reset, hidden.
func (k *cell) gru(d int, u, v, h, next, rb []float32) {
	s := k.size
	tensor.Add(u[:2*s], v[:2*s])
	tensor.Sigmoid(u[:2*s], u[:2*s])
	z, reset, hidden := u[:s], u[s:2*s], u[2*s:3*s]
	if k.linear {
		tensor.Times(next, v[2*s:3*s], reset)
	} else {
		var b []float32
		if rb != nil {
			b = rb[2*s:]
		}
		tensor.Times(v[:s], reset, h)
		add(next, k.packed.hidden[d], v[:s], b)
	}
	tensor.Add(hidden, next)
	tensor.Tanh(hidden, hidden)
	tensor.Difference(h, h, hidden) // (1 - z)·hidden + z·h
	tensor.Times(h, h, z)
	tensor.Add(h, hidden)
}

// cellOf reads and checks the inputs.
func cellOf(c *kernel.Call) (*cell, error) {
	k := &cell{gates: map[string]int{"LSTM": 4, "GRU": 3, "RNN": 1}[c.Node.Op], dirs: 1, batchFirst: c.Int("layout", 0) != 0, linear: c.Int("linear_before_reset", 0) != 0}
	switch c.Text("direction", "forward") {
	case "bidirectional":
		k.dirs = 2
	case "forward", "reverse":
	default:
		return nil, fmt.Errorf("unknown direction %q", c.Text("direction", ""))
	}
	if c.Int("input_forget", 0) != 0 {
		return nil, fmt.Errorf("input_forget is not supported")
	}
	peep := 7
	if c.Node.Op != "LSTM" {
		peep = kernel.Many
	}
	in, err := c.Floats(0, 3, peep)
	if err != nil {
		return nil, err
	}
	if err := c.Want(onnx.FLOAT, 1, 2); err != nil {
		return nil, err
	}
	k.x, k.b, k.p = in[0], in[1], in[2]
	x, w, r := c.In[0], c.In[1], c.In[2]
	if x.Rank() != 3 || w.Rank() != 3 || r.Rank() != 3 {
		return nil, fmt.Errorf("shape mismatch: %v, %v and %v", x.Shape, w.Shape, r.Shape)
	}
	k.steps, k.batch, k.in, k.size = x.Shape[0], x.Shape[1], x.Shape[2], r.Shape[2]
	if k.batchFirst {
		k.steps, k.batch = k.batch, k.steps
	}
	if k.in == 0 || k.size == 0 {
		return nil, fmt.Errorf("shape mismatch: weights %v and %v", w.Shape, r.Shape)
	}
	g := k.gates * k.size
	if !slices.Equal(w.Shape, []int{k.dirs, g, k.in}) || !slices.Equal(r.Shape, []int{k.dirs, g, k.size}) || c.Int("hidden_size", k.size) != k.size {
		return nil, fmt.Errorf("shape mismatch: weights %v and %v for %v", w.Shape, r.Shape, x.Shape)
	}
	if err := c.Lengths(k.dirs*2*g, 3); err != nil {
		return nil, err
	}
	if k.p != nil && len(k.p) != k.dirs*3*k.size {
		return nil, fmt.Errorf("bad number of peepholes %d", len(k.p))
	}
	if k.lens, err = c.Integers(4); err != nil || k.lens != nil && len(k.lens) != k.batch {
		return nil, fmt.Errorf("got %d lengths of %d sequences: %v", len(k.lens), k.batch, err)
	}
	for _, n := range k.lens {
		if n < 0 || n > k.steps {
			return nil, fmt.Errorf("lengths %v exceed %d steps", k.lens, k.steps)
		}
	}
	if k.packed, _ = (*c.Cache).(*cellWeights); k.packed == nil {
		k.packed, err = packCell(c, w, r, passing)
	}
	return k, err
}
