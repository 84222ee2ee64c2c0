package nn

import "mm-abi.org/mm/core/tensor"

// Norm is RMSNorm (Zhang and Sennrich, arXiv 1910.07467), y = x·gain/rms(x).
type Norm[F tensor.Float] struct {
	Gain *Tensor[F] // [C]; nil: no norm
	Eps  F          // added to the mean square
}

// Forward computes the positions [lo, hi) of y [B·T, C], and r [B·T] = 1/rms.
func (n Norm[F]) Forward(y, x Matrix[F], r []F, lo, hi int) {
	for t := lo; t < hi; t++ {
		r[t] = tensor.NormForward(y.Row(t), x.Row(t), n.Gain.Data, n.Eps)
	}
}

// ForwardAdd adds skip to x at the positions [lo, hi) and then runs Forward: it
// fuses the sum of a residual block with the norm of the next block.
func (n Norm[F]) ForwardAdd(y, x, skip Matrix[F], r []F, lo, hi int) {
	for t := lo; t < hi; t++ {
		r[t] = tensor.AddNormForward(y.Row(t), x.Row(t), skip.Row(t), n.Gain.Data, n.Eps)
	}
}

// Backward adds the input gradient of Forward to dx, and the gain's to the
// sequence's vector gradients. dy has the rows of this sequence only.
func (n Norm[F]) Backward(dx, dy, x Matrix[F], r, spread []F, lo, hi int) {
	dgain := n.Gain.In(spread)
	for t := lo; t < hi; t++ {
		tensor.NormBackward(dx.Row(t), dgain, dy.Row(t-lo), x.Row(t), n.Gain.Data, r[t])
	}
}

// BackwardFrom is Backward that sets dx to skip plus the input gradient: the
// gradient before a residual block from the gradient after it.
func (n Norm[F]) BackwardFrom(dx, skip, dy, x Matrix[F], r, spread []F, lo, hi int) {
	dgain := n.Gain.In(spread)
	for t := lo; t < hi; t++ {
		tensor.SkipNormBackward(dx.Row(t), skip.Row(t), dgain, dy.Row(t-lo), x.Row(t), n.Gain.Data, r[t])
	}
}
