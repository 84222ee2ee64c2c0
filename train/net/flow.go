package net

import (
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// Interpolate sets at = (1-t)·noise + t·x, the point at time t on the straight
// line from noise to x, and velocity = x - noise, the target of a network there
// (rectified flow: Liu et al., arXiv 2209.03003; Lipman et al., arXiv
// 2210.02747). All have the same shape.
func Interpolate[F tensor.Float](at, velocity, noise, x nn.Matrix[F], t F) {
	same(at, velocity, noise, x)
	for i := range x.Rows {
		to, v, from, end := at.Row(i), velocity.Row(i), noise.Row(i), x.Row(i)
		for j, n := range from {
			to[j], v[j] = (1-t)*n+t*end[j], end[j]-n
		}
	}
}

// Euler integrates x from noise, time 0, to a sample, time 1, in equal steps
// along the velocity, which the caller computes from x and the time and which
// has x's shape.
func Euler[F tensor.Float](x nn.Matrix[F], steps int, velocity func(t F) nn.Matrix[F]) {
	for i := range steps {
		v := velocity(F(i) / F(steps))
		same(x, v)
		for r := range x.Rows {
			tensor.AddScaled(x.Row(r), 1/F(steps), v.Row(r))
		}
	}
}
