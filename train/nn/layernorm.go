package nn

import (
	"math"

	"mm-abi.org/mm/core/tensor"
)

// LayerNorm is layer normalization (Ba et al., arXiv 1607.06450),
// y = (x - mean)/√(variance + eps)·gain + bias, row by row.
type LayerNorm[F tensor.Float] struct {
	Gain, Bias *Tensor[F] // [C]; both nil: no gain and bias
	Eps        F
}

// Forward computes y [T, C] and, for the backward pass, stats [T, 2]: the means
// and 1/√(variance + eps).
func (n LayerNorm[F]) Forward(y, x, stats Matrix[F]) {
	for t := range x.Rows {
		mean, variance := moments(x.Row(t))
		r := F(1 / math.Sqrt(float64(variance+n.Eps)))
		stats.Row(t)[0], stats.Row(t)[1] = mean, r
		affine(y.Row(t), x.Row(t), r, -mean*r)
		if n.Gain != nil {
			times(y.Row(t), y.Row(t), n.Gain.Data)
			tensor.AddScaled(y.Row(t), 1, n.Bias.Data)
		}
	}
}

// Backward computes dx or, if add is set, adds to it, from the gradient dy, all
// [T, C], and adds the gain and bias gradients to the sample's vector
// gradients. With x̂ the normalized row and g = dy·gain, dx = (g - mean(g) -
// x̂·mean(g·x̂))·r. s [2·C] is scratch. If want is unset, dx is not computed.
func (n LayerNorm[F]) Backward(dx, dy, x, stats Matrix[F], spread, s []F, want, add bool) {
	C := x.Cols
	hat, g := s[:C], s[C:2*C]
	trains := n.Gain != nil && n.Gain.Grad != nil
	for t := range x.Rows {
		mean, r, d := stats.Row(t)[0], stats.Row(t)[1], dy.Row(t)
		affine(hat, x.Row(t), r, -mean*r)
		if trains {
			times(g, d, hat)
			tensor.AddScaled(n.Gain.In(spread), 1, g)
		}
		if n.Bias != nil && n.Bias.Grad != nil {
			tensor.AddScaled(n.Bias.In(spread), 1, d)
		}
		if !want {
			continue
		}
		if n.Gain != nil {
			times(g, d, n.Gain.Data)
		} else {
			copy(g, d)
		}
		m, _ := moments(g)
		slope := tensor.Inner(g, hat) / F(C)
		tensor.AddScaled(g, -slope, hat)
		affine(g, g, r, -m*r)
		if add {
			tensor.AddScaled(dx.Row(t), 1, g)
		} else {
			copy(dx.Row(t), g)
		}
	}
}

// moments returns the mean and the variance of x.
func moments[F tensor.Float](x []F) (mean, variance F) {
	if xf, ok := any(x).([]float32); ok {
		m, v := tensor.Moments(xf)
		return F(m), F(v)
	}
	for _, v := range x {
		mean += v
	}
	mean /= F(len(x))
	for _, v := range x {
		variance += (v - mean) * (v - mean)
	}
	return mean, variance / F(len(x))
}

// affine sets y = a·x + b.
func affine[F tensor.Float](y, x []F, a, b F) {
	if yf, ok := any(y).([]float32); ok {
		tensor.Linear(yf, any(x).([]float32), float32(a), float32(b))
		return
	}
	for i, v := range x {
		y[i] = a*v + b
	}
}

// times sets y = a·b, element by element.
func times[F tensor.Float](y, a, b []F) {
	if yf, ok := any(y).([]float32); ok {
		tensor.Times(yf, any(a).([]float32), any(b).([]float32))
		return
	}
	for i, v := range a {
		y[i] = v * b[i]
	}
}

// Times sets y = a·b, element by element.
func Times[F tensor.Float](y, a, b []F) { times(y, a, b) }

// Affine sets y = a·x + b.
func Affine[F tensor.Float](y, x []F, a, b F) { affine(y, x, a, b) }
