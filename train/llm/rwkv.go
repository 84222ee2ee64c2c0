package llm

import (
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// timeMix holds the weights of RWKV time mixing (Peng et al., arXiv 2305.13048;
// the matrix-valued state of arXiv 2404.05892). With x' the input one position
// earlier in the document,
//
//	r, k, v = W_r·lerp_r(x, x'), W_k·lerp_k(x, x'), W_v·lerp_v(x, x')
//	o_t = r_tᵀ·(S + diag(u)·k_t·v_tᵀ)      u = time_mix_first
//	S   = diag(w)·S + k_t·v_tᵀ             w = exp(-exp(time_mix_decay))
//
// for each head with its state S [D, D], followed by RMSNorm of every head with
// gains. w is in (0, 1) for any parameter, so the state cannot diverge.
type timeMix[F tensor.Float] struct {
	r, k, v             *nn.Linear[F] // [H·D, C]
	lerpR, lerpK, lerpV *Tensor[F]    // [C]: share of x; the rest is x'
	decay, first        *Tensor[F]    // [H, D]
	gain                *Tensor[F]    // [H·D]
}

func (m *Model[F]) timeMix(at func(string) string) *timeMix[F] {
	return &timeMix[F]{
		r: m.Linear(at("time_mix_receptance")), k: m.Linear(at("time_mix_key")), v: m.Linear(at("time_mix_value")),
		lerpR: m.Tensor(at("time_mix_lerp_r")), lerpK: m.Tensor(at("time_mix_lerp_k")), lerpV: m.Tensor(at("time_mix_lerp_v")),
		decay: m.Tensor(at("time_mix_decay")), first: m.Tensor(at("time_mix_first")), gain: m.Tensor(at("time_mix_ln")),
	}
}

// timeMixing holds the activations of timeMix in a pass.
type timeMixing[F tensor.Float] struct {
	w       *timeMix[F]
	in      nn.Matrix[F]  // [B·T, C]
	r, k, v nn.Product[F] // [B·T, C] → [B·T, H·D]
	o       nn.Matrix[F]  // [B·T, H·D]: before the norm
	rms     nn.Matrix[F]  // [B·T, H]: 1/rms of each head of o
	mixed   nn.Matrix[F]  // [B·T, H·D]
	c       Config
}

func newTimeMixing[F tensor.Float](c Config, w *timeMix[F], in, mixed nn.Matrix[F]) timeMixing[F] {
	n, wide := in.Rows, c.Heads*c.HeadDim
	one := func(l *nn.Linear[F]) nn.Product[F] {
		return nn.NewProduct(l, nn.NewMatrix[F](n, c.Dim), nn.NewMatrix[F](n, wide), nn.NewMatrix[F](n, wide))
	}
	return timeMixing[F]{w: w, in: in, r: one(w.r), k: one(w.k), v: one(w.v), o: nn.NewMatrix[F](n, wide), rms: nn.NewMatrix[F](n, c.Heads), mixed: mixed, c: c}
}

// mixScratch holds the buffers of one thread.
type mixScratch[F tensor.Float] struct {
	states []F          // [T+1, D, D]: the state before each position
	ds     []F          // [D, D]: its gradient
	w, dw  []F          // [D]
	do     []F          // [D]
	dn     nn.Matrix[F] // [T, C]: gradient of one interpolated input
}

func newMixScratch[F tensor.Float](c Config, T int) mixScratch[F] {
	d := c.HeadDim
	return mixScratch[F]{states: make([]F, (T+1)*d*d), ds: make([]F, d*d), w: make([]F, d), dw: make([]F, d), do: make([]F, d), dn: nn.NewMatrix[F](T, c.Dim)}
}

// forward computes mixed [T, H·D] from the normed input [T, C].
func (a *timeMixing[F]) forward(p *Pass[F], w *worker[F], lo, hi int) {
	for t := lo; t < hi; t++ {
		x, prev := a.in.Row(t), a.previous(p, lo, t)
		lerp(a.r.X.Row(t), x, prev, a.w.lerpR.Data)
		lerp(a.k.X.Row(t), x, prev, a.w.lerpK.Data)
		lerp(a.v.X.Row(t), x, prev, a.w.lerpV.Data)
	}
	a.r.Forward(lo, hi, false)
	a.k.Forward(lo, hi, false)
	a.v.Forward(lo, hi, false)
	for h := range a.c.Heads {
		a.walk(p, &w.mix, h, lo, hi)
	}
	for t := lo; t < hi; t++ {
		headNorms(a.mixed.Row(t), a.o.Row(t), a.rms.Row(t), a.w.gain.Data, a.c)
	}
}

// previous returns the normed input one position earlier, nil at the start of a
// document.
func (a *timeMixing[F]) previous(p *Pass[F], lo, t int) []F {
	if p.start(lo, t-lo) == t-lo {
		return nil
	}
	return a.in.Row(t - 1)
}

// lerp sets y = mu·x + (1-mu)·prev; a nil prev is zero.
func lerp[F tensor.Float](y, x, prev, mu []F) {
	for i, m := range mu {
		y[i] = m * x[i]
		if prev != nil {
			y[i] += (1 - m) * prev[i]
		}
	}
}

// headNorms computes RMSNorm of every head of one position.
func headNorms[F tensor.Float](y, x, rms, gain []F, c Config) {
	for h := range c.Heads {
		at, end := h*c.HeadDim, (h+1)*c.HeadDim
		rms[h] = tensor.NormForward(y[at:end], x[at:end], gain[at:end], F(c.NormEps))
	}
}

// walk computes head h along the sequence at lo and stores the state before
// every position in s.states for the backward pass.
func (a *timeMixing[F]) walk(p *Pass[F], s *mixScratch[F], h, lo, hi int) {
	d := a.c.HeadDim
	at, end := h*d, (h+1)*d
	decays(s.w, a.w.decay.Data[at:end])
	for t := range hi - lo {
		now, next := s.states[t*d*d:(t+1)*d*d], s.states[(t+1)*d*d:(t+2)*d*d]
		if p.start(lo, t) == t {
			clear(now)
		}
		copy(next, now)
		recur(a.o.Row(lo + t)[at:end], next, a.r.Y.Row(lo + t)[at:end], a.k.Y.Row(lo + t)[at:end], a.v.Y.Row(lo + t)[at:end], a.w.first.Data[at:end], s.w)
	}
}

// decays sets w = exp(-exp(decay)).
func decays[F tensor.Float](w, decay []F) {
	for i, v := range decay {
		w[i] = F(math.Exp(-math.Exp(float64(v))))
	}
}

// recur computes one step of one head: o = rᵀ·(S + diag(u)·k·vᵀ), S = diag(w)·S
// + k·vᵀ.
func recur[F tensor.Float](o, state, r, k, v, u, w []F) {
	d := len(r)
	clear(o)
	var bonus F
	for i := range d {
		row := state[i*d : (i+1)*d]
		tensor.AddScaled(o, r[i], row)
		bonus += r[i] * u[i] * k[i]
		tensor.ScaleBy(row, w[i])
		tensor.AddScaled(row, k[i], v)
	}
	tensor.AddScaled(o, bonus, v)
}

// backward computes, from w.dm, the gradient of mixed [T, H·D], w.dn, the
// gradient of the normed input [T, C].
func (a *timeMixing[F]) backward(p *Pass[F], w *worker[F], spread []F, lo, hi int) {
	d := a.c.HeadDim
	gain, dgain := a.w.gain.Data, a.w.gain.In(spread)
	do := w.mix.do
	for t := range hi - lo {
		dy := w.dm.Row(t)
		for h := range a.c.Heads {
			at, end := h*d, (h+1)*d
			copy(do, dy[at:end])
			clear(dy[at:end])
			tensor.NormBackward(dy[at:end], dgain[at:end], do, a.o.Row(lo + t)[at:end], gain[at:end], a.rms.Row(lo + t)[h])
		}
	}
	for h := range a.c.Heads {
		a.walk(p, &w.mix, h, lo, hi) // recompute the states
		a.walkBackward(p, &w.mix, w.dm, spread, h, lo, hi)
	}
	w.dn.Part(0, hi-lo).Zero()
	a.lerpBackward(p, w, &a.r, a.w.lerpR, spread, lo, hi)
	a.lerpBackward(p, w, &a.k, a.w.lerpK, spread, lo, hi)
	a.lerpBackward(p, w, &a.v, a.w.lerpV, spread, lo, hi)
}

// walkBackward goes back along the sequence with dS, the gradient of the state
// after each position, and computes the gradients of r, k, v, the decay and the
// bonus.
func (a *timeMixing[F]) walkBackward(p *Pass[F], s *mixScratch[F], do nn.Matrix[F], spread []F, h, lo, hi int) {
	d := a.c.HeadDim
	at, end := h*d, (h+1)*d
	u, du := a.w.first.Data[at:end], a.w.first.In(spread)[at:end]
	clear(s.ds)
	clear(s.dw)
	for t := hi - lo - 1; t >= 0; t-- {
		g, now := do.Row(t)[at:end], s.states[t*d*d:(t+1)*d*d]
		r, k, v := a.r.Y.Row(lo + t)[at:end], a.k.Y.Row(lo + t)[at:end], a.v.Y.Row(lo + t)[at:end]
		dr, dk, dv := a.r.DY.Row(lo + t)[at:end], a.k.DY.Row(lo + t)[at:end], a.v.DY.Row(lo + t)[at:end]
		gv := tensor.Inner(g, v)
		clear(dv)
		var bonus F
		for i := range d {
			state, ds := now[i*d:(i+1)*d], s.ds[i*d:(i+1)*d]
			bonus += r[i] * u[i] * k[i]
			du[i] += r[i] * k[i] * gv
			dr[i] = u[i]*k[i]*gv + tensor.Inner(state, g)
			dk[i] = r[i]*u[i]*gv + tensor.Inner(ds, v)
			tensor.AddScaled(dv, k[i], ds)
			s.dw[i] += tensor.Inner(ds, state)
			tensor.ScaleBy(ds, s.w[i])
			tensor.AddScaled(ds, r[i], g)
		}
		tensor.AddScaled(dv, bonus, g)
		if p.start(lo, t) == t {
			clear(s.ds) // start of a document
		}
	}
	ddecay := a.w.decay.In(spread)[at:end]
	for i, v := range a.w.decay.Data[at:end] {
		ddecay[i] -= s.dw[i] * s.w[i] * F(math.Exp(float64(v))) // dw/ddecay = -w·exp(decay)
	}
}

// lerpBackward adds one projection's part to w.dn and to its mu's gradient.
func (a *timeMixing[F]) lerpBackward(p *Pass[F], w *worker[F], q *nn.Product[F], mu *Tensor[F], spread []F, lo, hi int) {
	dmu := mu.In(spread)
	q.Backward(w.mix.dn, lo, hi, true)
	for t := lo; t < hi; t++ {
		d, x, prev, dn := w.mix.dn.Row(t-lo), a.in.Row(t), a.previous(p, lo, t), w.dn.Row(t-lo)
		for i, m := range mu.Data {
			dn[i] += m * d[i]
			dmu[i] += x[i] * d[i]
			if prev != nil {
				dmu[i] -= prev[i] * d[i]
				w.dn.Row(t - lo - 1)[i] += (1 - m) * d[i]
			}
		}
	}
}
