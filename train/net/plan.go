package net

import (
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// plan is the weight gradients of matrices over the first samples of a pass,
// cut into panels for the threads.
type plan[F tensor.Float] struct {
	products *nn.Gradients[F]
	windows  []*nn.ConvGradient[F]
	tables   []func(add bool)
}

// The ops with weight matrices.
type (
	multiplying[F tensor.Float] interface{ denses() []*nn.Dense[F] }
	windowing[F tensor.Float]   interface {
		Gradient(samples int) *nn.ConvGradient[F]
	}
	lookingUp interface {
		table(samples int) func(add bool)
	}
)

// plan cuts the weight gradients over n samples.
func (p *Pass[F]) plan(n int) *plan[F] {
	var out plan[F]
	var products []*nn.Product[F]
	for i, o := range p.ops {
		if !p.goes[i] {
			continue
		}
		if o, ok := o.(multiplying[F]); ok {
			for _, d := range o.denses() {
				products = append(products, d.First(n*d.X.Rows/p.B))
			}
		}
		if o, ok := o.(*windows[F]); ok {
			if pass, ok := o.pass.(windowing[F]); ok { // a depthwise pass sums them in its backward pass
				out.windows = append(out.windows, pass.Gradient(n))
			}
		}
		if o, ok := o.(lookingUp); ok {
			if t := o.table(n); t != nil {
				out.tables = append(out.tables, t)
			}
		}
	}
	out.products = nn.NewGradients(products...)
	return &out
}

// len returns the number of panels.
func (p *plan[F]) len() int {
	n := p.products.Len() + len(p.tables)
	for _, g := range p.windows {
		n += g.Len()
	}
	return n
}

// compute computes panel i: first the tables, one thread each, then the
// windows, then the products.
func (p *plan[F]) compute(w *worker[F], i int, add bool) {
	if i < len(p.tables) {
		p.tables[i](add)
		return
	}
	i -= len(p.tables)
	for _, g := range p.windows {
		if i < g.Len() {
			g.Compute(&w.conv, i, i+1, add)
			return
		}
		i -= g.Len()
	}
	p.products.Compute(w.panel, i, i+1, add)
}
