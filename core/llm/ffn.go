package llm

import "mm-abi.org/mm/core/tensor"

// feedForward is the second half of a block: SwiGLU, down·(silu(gate·x)∘(up·x)),
// or ReLU², down·max(up·x, 0)².
type feedForward[F tensor.Float] struct {
	up   product[F] // [B·T, C] → [B·T, 2F] gate beside up, or [B·T, F]
	down product[F] // [B·T, F] → [B·T, C]
	wide int        // F
	gate bool
}

func newFeedForward[F tensor.Float](c Config, b *block[F], in, out, dout matrix[F]) feedForward[F] {
	n := in.rows
	f := feedForward[F]{wide: c.Hidden, gate: c.Activation == SwiGLU}
	f.up = newProduct(b.up, in, newMatrix[F](n, b.up.out), newMatrix[F](n, b.up.out))
	f.down = newProduct(b.down, newMatrix[F](n, c.Hidden), out, dout)
	return f
}

// rowBlock is how many positions go through a wide layer at a time, so that
// what lies between two products stays in the caches. A multiple of the
// kernels' tiles.
const rowBlock = 48

// forward adds the network's output to that of down, [T, C].
func (f *feedForward[F]) forward(lo, hi int) {
	for ; lo < hi; lo += rowBlock {
		end := min(lo+rowBlock, hi)
		f.up.forward(lo, end, false)
		for t := lo; t < end; t++ {
			h, u := f.down.x.row(t), f.up.y.row(t)
			if f.gate {
				tensor.SwiGLUForward(h, u[:f.wide], u[f.wide:])
			} else {
				tensor.ReLU2Forward(h, u)
			}
		}
		f.down.forward(lo, end, true)
	}
}

// backward takes down.dy to dn, the gradient of the normed input [T, C].
func (f *feedForward[F]) backward(dn, dh matrix[F], lo, hi int, below bool) {
	for first := lo; lo < hi; lo += rowBlock {
		end := min(lo+rowBlock, hi)
		f.down.backward(dh, lo, end, true) // [T, C] → [T, F]
		for t := lo; t < end; t++ {
			d, u, du := dh.row(t-lo), f.up.y.row(t), f.up.dy.row(t)
			if f.gate {
				tensor.SwiGLUBackward(du[:f.wide], du[f.wide:], d, u[:f.wide], u[f.wide:])
			} else {
				tensor.ReLU2Backward(du, d, u)
			}
		}
		f.up.backward(dn.part(lo-first, end-first), lo, end, below) // [T, 2F] → [T, C]
	}
}
