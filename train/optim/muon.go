package optim

import (
	"cmp"
	"math"
	"slices"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
)

// MuonOptions are Muon's constants. Comments state the default of a zero field.
type MuonOptions struct {
	Momentum float64 // 0.95
	// Ratio is Muon's learning rate divided by AdamW's, which updates
	// everything but hidden matrices; 0 means 20/3: 0.02 and 0.003.
	Ratio float64
	Steps int // of the Newton-Schulz iteration; 0 means 5
	// Decay is weight decay of hidden matrices; 0 means none.
	Decay float64
	Adam  AdamWOptions // for everything else
}

// Muon changes every hidden matrix by the nearest orthogonal matrix to its
// Nesterov momentum, found by a quintic Newton-Schulz iteration (Jordan et al.,
// "Muon: an optimizer for hidden layers in neural networks", 2024), and
// everything else by AdamW. Stacked projections are separate matrices here and
// are orthogonalized separately.
//
//	m = μ·m + (1-μ)·g        u = (1-μ)·g + μ·m
//	w = w - rate·decay·w - rate·√max(1, rows/columns)·orthogonal(u)
type Muon struct {
	opt    MuonOptions
	params []Param // hidden matrices, largest first
	m      [][]float32
	adam   *AdamW
	pool   *pool.Pool
	run    pool.Func
	lanes  []muonLane

	rate, scale float64
}

// muonLane is the scratch of one thread.
type muonLane struct {
	u, x, y []float32 // of the largest matrix
	a, b    []float32 // of its smaller square
	mul     tensor.Multiplier[float32]
}

// NewMuon returns a Muon over params. If p is nil, it uses one thread.
func NewMuon(params []Param, opt MuonOptions, p *pool.Pool) *Muon {
	if opt.Momentum == 0 {
		opt.Momentum = 0.95
	}
	if opt.Ratio == 0 {
		opt.Ratio = 20. / 3
	}
	if opt.Steps == 0 {
		opt.Steps = 5
	}
	o := &Muon{opt: opt, pool: p}
	var rest []Param
	for _, q := range params {
		if q.Hidden && len(q.Shape) == 2 {
			o.params = append(o.params, q)
		} else {
			rest = append(rest, q)
		}
	}
	slices.SortStableFunc(o.params, func(a, b Param) int { return cmp.Compare(len(b.Data), len(a.Data)) })
	o.m, o.adam = zeros(o.params), NewAdamW(rest, opt.Adam, p)
	o.lanes = make([]muonLane, 1)
	if p != nil {
		o.lanes = make([]muonLane, p.Threads())
	}
	for i := range o.lanes {
		o.lanes[i] = newMuonLane(o.params)
	}
	o.run = o.matrices
	return o
}

func newMuonLane(params []Param) muonLane {
	var size, square int
	for _, p := range params {
		size = max(size, len(p.Data))
		square = max(square, min(p.Shape[0], p.Shape[1]))
	}
	square *= square
	return muonLane{u: make([]float32, size), x: make([]float32, size), y: make([]float32, size), a: make([]float32, square), b: make([]float32, square)}
}

// Step updates the weights by their gradients times scale; rate is AdamW's.
func (o *Muon) Step(rate, scale float64) {
	o.rate, o.scale = rate*o.opt.Ratio, scale
	each(o.pool, len(o.params), o.run)
	o.adam.Step(rate, scale)
}

func (o *Muon) matrices(thread, from, to int) {
	l := &o.lanes[thread]
	mu := float32(o.opt.Momentum)
	for i := from; i < to; i++ {
		p, m := &o.params[i], o.m[i]
		rows, cols := p.Shape[0], p.Shape[1]
		u := l.u[:len(m)]
		for j, g := range p.Grad {
			g *= float32(o.scale)
			m[j] = mu*m[j] + (1-mu)*g
			u[j] = (1-mu)*g + mu*m[j]
		}
		l.orthogonalize(u, rows, cols, o.opt.Steps)
		rate := p.rate(o.rate)
		tensor.ScaleBy(p.Data, float32(1-rate*o.opt.Decay))
		tensor.AddScaled(p.Data, float32(-rate*math.Sqrt(max(1, float64(rows)/float64(cols)))), u)
	}
}

// orthogonalize replaces u [rows, cols] by an approximation of the orthogonal
// factor of its polar decomposition: with X = u/‖u‖ of no more rows than columns,
// A = X·Xᵀ, X ← a·X + (b·A + c·A²)·X, whose singular values converge around one.
func (l *muonLane) orthogonalize(u []float32, rows, cols, steps int) {
	const a, b, c = 3.4445, -4.7750, 2.0315
	norm := math.Sqrt(float64(tensor.Inner(u, u))) + 1e-7
	r, n := min(rows, cols), max(rows, cols)
	x := l.x[:len(u)]
	if rows > cols {
		transpose(x, u, rows, cols)
	} else {
		copy(x, u)
	}
	tensor.ScaleBy(x, float32(1/norm))
	y, g, poly := l.y[:len(u)], l.a[:r*r], l.b[:r*r]
	for range steps {
		l.mul.Do(tensor.Product[float32]{M: r, N: r, K: n, Alpha: 1, A: tensor.Rows(x, n), B: x, LDB: n, TransB: true, C: g, LDC: r})
		copy(poly, g)
		l.mul.Do(tensor.Product[float32]{M: r, N: r, K: r, Alpha: c, Beta: b, A: tensor.Rows(g, r), B: g, LDB: r, C: poly, LDC: r})
		copy(y, x)
		l.mul.Do(tensor.Product[float32]{M: r, N: n, K: r, Alpha: 1, Beta: a, A: tensor.Rows(poly, r), B: x, LDB: n, C: y, LDC: n})
		x, y = y, x
	}
	if rows > cols {
		transpose(u, x, cols, rows)
	} else {
		copy(u, x)
	}
}

// transpose writes the transpose of src [rows, cols] to dst.
func transpose(dst, src []float32, rows, cols int) {
	for i := range rows {
		for j, v := range src[i*cols : (i+1)*cols] {
			dst[j*rows+i] = v
		}
	}
}

// State returns the momenta and AdamW's state, aliased.
func (o *Muon) State() State {
	s := o.adam.State()
	s.Slots = append(slots(o.params, "momentum", o.m), s.Slots...)
	return s
}

// Restore restores the state of a Muon over the same parameters.
func (o *Muon) Restore(s State) error {
	if err := o.State().restore(s); err != nil {
		return err
	}
	o.adam.step = s.Step
	return nil
}
