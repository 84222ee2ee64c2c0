package infer

import (
	"math"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/tensor"
)

// norm is RMSNorm (Zhang and Sennrich, arXiv 1910.07467) or, with mean,
// LayerNorm (Ba et al., arXiv 1607.06450). Without gains it is the identity.
type norm struct {
	gain, bias []float32
	mean       bool
}

// apply sets dst to the normalized x; they may be the same slice.
func (n *norm) apply(dst, x []float32, epsilon float32) {
	switch {
	case n.gain == nil:
		copy(dst, x)
	case n.mean:
		layerNorm(dst, x, n.gain, n.bias, epsilon)
	default:
		tensor.RMSNorm(dst, x, n.gain, epsilon)
	}
}

// layerNorm computes (x-mean)/√(variance+epsilon)·gain + bias. bias may be nil.
func layerNorm(dst, x, gain, bias []float32, epsilon float32) {
	var sum, squares float64
	for _, v := range x {
		sum += float64(v)
	}
	mean := sum / float64(len(x))
	for _, v := range x {
		d := float64(v) - mean
		squares += d * d
	}
	scale := 1 / math.Sqrt(squares/float64(len(x))+float64(epsilon))
	for i, v := range x {
		dst[i] = float32((float64(v)-mean)*scale) * gain[i]
	}
	if bias != nil {
		tensor.Add(dst, bias)
	}
}

// headNorm is the norm of queries or keys.
type headNorm struct {
	norm
	kind arch.HeadNorm
	last bool // after the rotation
}

// of returns the norm of one head.
func (n *headNorm) of(head, dim int) norm {
	one := n.norm
	if n.kind == arch.SeparateNorm && n.gain != nil {
		one.gain = n.gain[head*dim : (head+1)*dim]
	}
	return one
}

// norm sets normed to the normalized rows of x.
func (w *work) norm(by *norm) {
	w.normalise.by = by
	w.m.threads.For(w.normed.Tiles(), 1, &w.normalise)
}

// normTask normalizes; its indices are tiles of the batch.
type normTask struct {
	w  *work
	by *norm
}

func (n *normTask) Do(_, lo, hi int) {
	w := n.w
	c := w.m.cfg.Width
	for i := lo; i < hi; i++ {
		for t, end := w.normed.TileRows(i); t < end; t++ {
			n.by.apply(w.normed.Row(t), w.x[t*c:(t+1)*c], w.m.cfg.Epsilon)
		}
		prepareTile(&w.normed, i)
	}
}

// add adds y to the residual stream, normalized and scaled if the model does
// so.
func (w *work) add(y *matrix, post *norm) {
	w.residual.y, w.residual.post = y, post
	w.m.threads.For(w.rows, tileRows, &w.residual)
}

// addTask adds; its indices are rows.
type addTask struct {
	w    *work
	y    *matrix
	post *norm
}

func (a *addTask) Do(_, lo, hi int) {
	w := a.w
	c, scale := w.m.cfg.Width, w.m.cfg.ResidualScale
	for t := lo; t < hi; t++ {
		row := a.y.row(t, c)
		if a.post.gain != nil {
			a.post.apply(row, row, w.m.cfg.Epsilon)
		}
		if scale != 0 {
			tensor.Scale(row, scale)
		}
		tensor.Add(w.x[t*c:(t+1)*c], row)
	}
}

// softCap sets x to cap·tanh(x/cap). buf is as long as x.
func softCap(x []float32, limit float32, buf []float32) {
	for i, v := range x {
		buf[i] = v * (2 / limit)
	}
	// tanh(z) = 1 - 2/(e^2z + 1)
	tensor.ExpSum(buf, buf, 0)
	for i, e := range buf {
		x[i] = limit * (1 - 2/(e+1))
	}
}
