package infer

import (
	"math"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/quant/panel"
	"mm-abi.org/mm/core/tensor"
)

// feedForward computes out from normed: T×C.
func (w *work) feedForward(y *layer) {
	switch {
	case y.routerNorm.gain != nil:
		w.joined(y)
	case y.experts != nil:
		w.multiply(&w.normed, term{&y.router, &w.routes}) // routes: T×E
		w.mixture(y)
		if w.m.cfg.SharedHidden > 0 {
			w.shared(y)
		}
	default:
		w.dense(y)
	}
}

// joined computes the sum of a feed-forward layer and of experts, which read
// the residual stream through further norms.
func (w *work) joined(y *layer) {
	c := &w.m.cfg
	w.dense(y)
	w.densePart.resize(w.rows, c.Width)
	for t := range w.rows {
		row := w.densePart.row(t, c.Width)
		y.densePost.apply(row, w.out.row(t, c.Width), c.Epsilon)
	}
	w.norm(&y.routerNorm)
	w.multiply(&w.normed, term{&y.router, &w.routes}) // routes: T×E
	w.norm(&y.expertNorm)
	w.mixture(y)
	for t := range w.rows {
		row := w.out.row(t, c.Width)
		y.expertPost.apply(row, row, c.Epsilon)
		tensor.Add(row, w.densePart.row(t, c.Width))
	}
}

// dense computes the feed-forward layer of every position.
func (w *work) dense(y *layer) {
	w.hidden.Resize(w.rows, y.wide)
	if y.cutoff != arch.Dense {
		w.sparse(y) // hidden: T×F
	} else {
		w.activate(&w.normed, &y.feed, &w.hidden) // hidden: T×F
	}
	w.multiply(&w.hidden, term{&y.feed.down, &w.out}) // out: T×C
}

// activate computes hidden = act(batch·gate) ⊙ (batch·up), or act(batch·up)
// without a gate.
func (w *work) activate(batch *panel.Batch, by *feed, hidden *panel.Batch) {
	task := &w.active
	task.batch, task.by, task.hidden = batch, by, hidden
	if by.gate.weight != nil {
		w.observe(batch, term{by: &by.gate}, term{by: &by.up})
		w.lower(&by.gate, batch)
	} else {
		w.observe(batch, term{by: &by.up})
	}
	w.lower(&by.up, batch)
	w.m.threads.For(unitsOf(&by.up), w.chunk(unitsOf(&by.up), batch.Rows(), &by.up), task)
	w.ready(hidden)
}

// activeTask multiplies by both matrices and combines the results; its indices
// are units of F.
type activeTask struct {
	w      *work
	batch  *panel.Batch
	by     *feed
	hidden *panel.Batch
}

func (a *activeTask) Do(thread, lo, hi int) {
	w := a.w
	gated := a.by.gate.weight != nil
	if gated {
		a.by.gate.mul(&w.gate, a.batch, lo, hi, &w.scratch[thread])
	}
	a.by.up.mul(&w.up, a.batch, lo, hi, &w.scratch[thread])
	lo, hi = lo*panel.Unit, min(hi*panel.Unit, a.by.up.weight.Rows())
	for t := range a.batch.Rows() {
		out, up := a.hidden.Row(t)[lo:hi], w.up.data[t*w.up.stride:][lo:hi]
		switch {
		case gated && w.m.act == arch.SiLU:
			tensor.SiLUMul(out, w.gate.data[t*w.gate.stride:][lo:hi], up)
		case gated && w.m.act == arch.ClampedSiLU:
			clampedSiLU(out, w.gate.data[t*w.gate.stride:][lo:hi], up)
		case gated:
			activation(out, w.gate.data[t*w.gate.stride:][lo:hi], w.m.act)
			for i, v := range up {
				out[i] *= v
			}
		case a.by.curve != nil:
			a.by.curve.apply(out, up)
		default:
			activation(out, up, w.m.act)
		}
	}
}

// curve is arch.XIELU of a layer: α·x² + β·x above 0, and α·(exp(min(x, ε)) - 1 - x) + β·x
// below.
type curve struct{ above, below, slope, least float32 }

func newCurve(c *arch.Curves, layer int) *curve {
	return &curve{softplus(c.Above[layer]), c.Slope[layer] + softplus(c.Below[layer]), c.Slope[layer], c.Least[layer]}
}

func (c *curve) apply(dst, x []float32) {
	for i, v := range x {
		if v > 0 {
			dst[i] = c.above*v*v + c.slope*v
		} else {
			dst[i] = (float32(math.Expm1(float64(min(v, c.least))))-v)*c.below + c.slope*v
		}
	}
}

// Constants of gpt-oss.
const (
	clampedMost  = 7
	clampedSlope = 1.702
)

// clampedSiLU sets dst to (u+1)·g·σ(αg) of gates and products that are clamped.
// It overwrites both.
func clampedSiLU(dst, gate, up []float32) {
	for i, g := range gate {
		gate[i] = min(g, clampedMost) * clampedSlope
		up[i] = (max(-clampedMost, min(up[i], clampedMost)) + 1) / clampedSlope
	}
	tensor.SiLUMul(dst, gate, up)
}

// activation sets dst to act(x), overwriting x.
func activation(dst, x []float32, act arch.Activation) {
	switch act {
	case arch.GELU: // x·Φ(x) (Hendrycks and Gimpel, arXiv 1606.08415)
		for i, v := range x {
			dst[i] = float32(float64(v) / 2 * (1 + math.Erf(float64(v)/math.Sqrt2)))
		}
	case arch.GELUTanh:
		// x·σ(2u) with 2u = x·k and k = √(8/π)·(1 + 0.044715·x²), which is
		// silu(x·k)/k; k is at least √(8/π).
		for i, v := range x {
			k := float32(1.5957691216057308) * (1 + 0.044715*v*v)
			x[i], dst[i] = v*k, 1/k
		}
		tensor.SiLUMul(dst, x, dst)
	case arch.ReLU:
		for i, v := range x {
			dst[i] = max(v, 0)
		}
	case arch.ReLU2: // So et al., arXiv 2109.08668
		for i, v := range x {
			v = max(v, 0)
			dst[i] = v * v
		}
	default:
		for i := range dst {
			dst[i] = 1
		}
		tensor.SiLUMul(dst, x, dst)
	}
}

// choice is an expert chosen for a position.
type choice struct {
	row    int
	weight float32
}

// mixture computes out as the weighted sum of the experts that routes
// choose for each position (Shazeer et al., arXiv 1701.06538). The sum is in
// the order of the experts, independent of the batch.
func (w *work) mixture(y *layer) {
	c := &w.m.cfg
	for e := range w.chosen {
		w.chosen[e] = w.chosen[e][:0]
	}
	for t := range w.rows {
		if c.ExpertSigmoid || c.ExpertGroups > 0 || y.routerBias != nil {
			w.routeGroups(t, y, w.routes.row(t, c.Experts))
		} else {
			w.route(t, w.routes.row(t, c.Experts))
		}
		clear(w.out.row(t, c.Width))
		if y.expertScales != nil {
			for _, e := range w.picks {
				w.chosen[e][len(w.chosen[e])-1].weight *= y.expertScales[e]
			}
		}
	}
	for e := range y.experts {
		chosen := w.chosen[e]
		if len(chosen) == 0 {
			continue
		}
		w.picked.Resize(len(chosen), c.Width)
		for i, p := range chosen {
			copy(w.picked.Row(i), w.normed.Row(p.row))
		}
		w.ready(&w.picked)
		w.hidden.Resize(len(chosen), c.ExpertHidden)
		w.activate(&w.picked, &y.experts[e], &w.hidden)
		w.multiply(&w.hidden, term{&y.experts[e].down, &w.part})
		for i, p := range chosen {
			tensor.Axpy(w.out.row(p.row, c.Width), p.weight, w.part.row(i, c.Width))
		}
	}
}

// shared adds the expert that every position passes to out.
func (w *work) shared(y *layer) {
	c := &w.m.cfg
	w.hidden.Resize(w.rows, c.SharedHidden)
	w.activate(&w.normed, &y.feed, &w.hidden)
	w.multiply(&w.hidden, term{&y.feed.down, &w.part})
	for t := range w.rows {
		share := float32(1)
		if y.sharedGate != nil {
			dot := tensor.Dot(w.normed.Row(t)[:c.Width], y.sharedGate)
			share = float32(1 / (1 + math.Exp(-float64(dot))))
		}
		tensor.Axpy(w.out.row(t, c.Width), share, w.part.row(t, c.Width))
	}
}

// route chooses the most likely experts of row t. Their weights are the softmax
// over all experts, renormalized unless the model does not.
func (w *work) route(t int, logits []float32) {
	c := &w.m.cfg
	most := tensor.Max(logits)
	total := tensor.ExpSum(logits, logits, most)
	var sum float32
	w.picks = w.picks[:0]
	for range c.ExpertsUsed {
		best := -1
		for e, p := range logits {
			if p >= 0 && (best < 0 || p > logits[best]) {
				best = e
			}
		}
		if best < 0 { // all are NaN
			break
		}
		w.picks = append(w.picks, best)
		w.chosen[best] = append(w.chosen[best], choice{t, logits[best]})
		sum += logits[best]
		logits[best] = -1
	}
	if c.ExpertSum {
		sum = total
	}
	w.weighExperts(sum)
}

// weighExperts divides the weights of the experts chosen last and scales them.
func (w *work) weighExperts(sum float32) {
	for _, e := range w.picks {
		p := &w.chosen[e][len(w.chosen[e])-1]
		if p.weight /= sum; w.m.cfg.ExpertScale != 0 {
			p.weight *= w.m.cfg.ExpertScale
		}
	}
}
