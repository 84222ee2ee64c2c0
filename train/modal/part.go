package modal

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/nn"
)

// part is a network in a run, with one input and one output.
type part struct {
	kind, prefix string // EncoderPart or ProjectorPart; prefix of the tensors' names
	cfg          net.Config
	net          *net.Net[float32]
	pass         *net.Pass[float32]
	tensors      []*nn.Tensor[float32] // by their names in the run
	in, out      nn.Matrix[float32]    // [B·rows, cols]
	dout, din    nn.Matrix[float32]    // gradients of out and in
	trains       bool
	packed       bool
	B            int
}

// prefix returns the prefix of a part's tensors in a run, such as
// "encoder.image.".
func prefix(kind string, m Medium) string { return kind + "." + string(m) + "." }

// newPart creates the network of cfg, with weights drawn from seed.
func newPart(kind string, m Medium, cfg net.Config, seed uint64) (*part, error) {
	if len(cfg.Inputs) != 1 || len(cfg.Outputs) != 1 {
		return nil, fmt.Errorf("network has %d inputs and %d outputs, want one of each for the %s", len(cfg.Inputs), len(cfg.Outputs), kind)
	}
	n, err := net.New[float32](cfg)
	if err != nil {
		return nil, err
	}
	n.Init(seed)
	return &part{kind: kind, prefix: prefix(kind, m), cfg: cfg, net: n}, nil
}

// place allocates a pass over B items, after the weights are set.
func (p *part) place(workers *pool.Pool, B int, trains, input bool) {
	p.trains, p.B = trains, B
	p.net.Params().Freeze(func(string) bool { return !trains })
	for _, t := range p.net.Params().Tensors() {
		named := *t
		named.Name = p.prefix + t.Name
		p.tensors = append(p.tensors, &named)
	}
	p.pass = p.net.NewPass(workers, B)
	name := p.cfg.Inputs[0].Name
	if input {
		p.pass.WantInput(name)
		p.din = p.pass.InGrad(name)
	}
	p.in, p.out = p.pass.In(name), p.pass.Out(p.cfg.Outputs[0])
	if trains || input {
		p.dout = p.pass.OutGrad(p.cfg.Outputs[0])
	}
}

// rows and cols are the shape of an item's output.
func (p *part) rows() int { return p.out.Rows / p.B }
func (p *part) cols() int { return p.out.Cols }

// wants returns the size of an item's input.
func (p *part) wants() int { return p.in.Rows / p.B * p.in.Cols }

// give sets item i's input.
func (p *part) give(i int, data []float32) { fill(p.in, i, p.B, data) }

// result appends item i's output to dst.
func (p *part) result(dst []float32, i int) []float32 {
	rows := p.rows()
	for r := range rows {
		dst = append(dst, p.out.Row(i*rows+r)...)
	}
	return dst
}

// refresh packs the weights that changed.
func (p *part) refresh() {
	if p.trains || !p.packed {
		p.net.Pack(!p.packed)
		p.packed = true
	}
}

// back runs the backward pass of n items whose output gradients are in dout.
func (p *part) back(n int, add bool) {
	if n > 0 {
		p.pass.Backward(n, add)
		return
	}
	if !add {
		for _, t := range p.tensors {
			clear(t.Grad)
		}
	}
}

// fill sets item i of B in m, row by row.
func fill[F tensor.Float](m nn.Matrix[F], i, B int, data []F) {
	rows := m.Rows / B
	for r := range rows {
		copy(m.Row(i*rows+r), data[r*m.Cols:(r+1)*m.Cols])
	}
}

// copyRows copies the first n rows of x to m, of equal width.
func copyRows[F tensor.Float](m, x nn.Matrix[F], n int) {
	for t := range n {
		copy(m.Row(t), x.Row(t))
	}
}

var errShape = errors.New("shape mismatch")

// joins checks that the encoder's output is p's input.
func joins(rows, cols int, p *part) error {
	if r, c := p.in.Rows/p.B, p.in.Cols; r != rows || c != cols {
		return fmt.Errorf("%w: encoder output %d × %d, projector input %d × %d", errShape, rows, cols, r, c)
	}
	return nil
}
