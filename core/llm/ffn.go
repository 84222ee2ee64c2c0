package llm

import "mm/core/tensor"

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

// forward adds the network's output to that of down, [T, C].
func (f *feedForward[F]) forward(lo, hi int) {
	f.up.forward(lo, hi, false)
	for t := lo; t < hi; t++ {
		h, u := f.down.x.row(t), f.up.y.row(t)
		if f.gate {
			tensor.SwiGLUForward(h, u[:f.wide], u[f.wide:])
		} else {
			tensor.ReLU2Forward(h, u)
		}
	}
	f.down.forward(lo, hi, true)
}

// backward takes down.dy to dn, the gradient of the normed input [T, C].
func (f *feedForward[F]) backward(dn, dh matrix[F], lo, hi int, below bool) {
	f.down.backward(dh, lo, hi, true) // [T, C] → [T, F]
	for t := lo; t < hi; t++ {
		d, u, du := dh.row(t-lo), f.up.y.row(t), f.up.dy.row(t)
		if f.gate {
			tensor.SwiGLUBackward(du[:f.wide], du[f.wide:], d, u[:f.wide], u[f.wide:])
		} else {
			tensor.ReLU2Backward(du, d, u)
		}
	}
	f.up.backward(dn, lo, hi, below) // [T, 2F] → [T, C]
}
