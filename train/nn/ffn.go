package nn

import "mm-abi.org/mm/core/tensor"

// FFN is the feed-forward network of a block: if Gated SwiGLU,
// down·(silu(gate·x)∘(up·x)) (Shazeer, arXiv 2002.05202), otherwise ReLU²,
// down·max(up·x, 0)² (So et al., arXiv 2109.08668).
type FFN[F tensor.Float] struct {
	Up    *Linear[F] // [2F, C], gate above up, or [F, C]
	Down  *Linear[F] // [C, F]
	Gated bool
}

// Hidden returns F, the hidden width.
func (f *FFN[F]) Hidden() int { return f.Down.In }

// Act applies the non-linearity: h [F] from the output of Up, [2F] or [F].
func (f *FFN[F]) Act(h, u []F) {
	if f.Gated {
		tensor.SwiGLUForward(h, u[:len(h)], u[len(h):])
	} else {
		tensor.ReLU2Forward(h, u)
	}
}

// FFNPass is an FFN with the activations of a pass.
type FFNPass[F tensor.Float] struct {
	*FFN[F]
	UpProduct, DownProduct Product[F]
}

// NewFFNPass creates the pass of f between in and out, both [B·T, C]. dout is
// the gradient of out.
func NewFFNPass[F tensor.Float](f *FFN[F], in, out, dout Matrix[F]) FFNPass[F] {
	n := in.Rows
	return FFNPass[F]{
		FFN:         f,
		UpProduct:   NewProduct(f.Up, in, NewMatrix[F](n, f.Up.Out), NewMatrix[F](n, f.Up.Out)),
		DownProduct: NewProduct(f.Down, NewMatrix[F](n, f.Hidden()), out, dout),
	}
}

// RowBlock is the number of positions that go through a wide layer at a time,
// so that the data between two products stays in the caches. It is a multiple
// of the kernels' tiles.
const RowBlock = 48

// NewFFNScratch allocates the backward buffer of one thread for an FFN of
// hidden width f over sequences of T positions.
func NewFFNScratch[F tensor.Float](f, T int) Matrix[F] { return NewMatrix[F](min(T, RowBlock), f) }

// Forward adds the network's output to out [T, C], for the positions [lo, hi).
func (f *FFNPass[F]) Forward(lo, hi int) { f.forward(lo, hi, true) }

// Fill is Forward that overwrites out.
func (f *FFNPass[F]) Fill(lo, hi int) { f.forward(lo, hi, false) }

func (f *FFNPass[F]) forward(lo, hi int, add bool) {
	for ; lo < hi; lo += RowBlock {
		end := min(lo+RowBlock, hi)
		f.UpProduct.Forward(lo, end, false)
		for t := lo; t < end; t++ {
			f.Act(f.DownProduct.X.Row(t), f.UpProduct.Y.Row(t))
		}
		f.DownProduct.Forward(lo, end, add)
	}
}

// Backward computes from the gradient of out, if below is set, dn, the gradient
// of the input [T, C]. dh is scratch.
func (f *FFNPass[F]) Backward(dn, dh Matrix[F], lo, hi int, below bool) {
	wide := f.Hidden()
	for first := lo; lo < hi; lo += RowBlock {
		end := min(lo+RowBlock, hi)
		f.DownProduct.Backward(dh, lo, end, true) // [T, C] → [T, F]
		for t := lo; t < end; t++ {
			d, u, du := dh.Row(t-lo), f.UpProduct.Y.Row(t), f.UpProduct.DY.Row(t)
			if f.Gated {
				tensor.SwiGLUBackward(du[:wide], du[wide:], d, u[:wide], u[wide:])
			} else {
				tensor.ReLU2Backward(du, d, u)
			}
		}
		f.UpProduct.Backward(dn.Part(lo-first, end-first), lo, end, below) // [T, 2F] → [T, C]
	}
}
