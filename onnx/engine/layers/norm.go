package layers

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// batchNorm scales and shifts each channel by statistics of the training set.
func batchNorm(c *kernel.Call) error {
	x := c.In[0]
	in, err := c.Floats(0, 1, 2, 3, 4)
	if err != nil {
		return err
	}
	channels := 1
	if x.Rank() > 1 {
		channels = x.Shape[1]
	}
	if err := c.Lengths(channels, 1, 2, 3, 4); err != nil || x.Rank() == 0 {
		return fmt.Errorf("%v: %w", x.Shape, err)
	}
	out, err := c.Result(0, onnx.FLOAT, x.Shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	inner, eps, o := 1, float64(c.Float("epsilon", 1e-5)), kernel.Elements[float32](out)
	if x.Rank() > 2 {
		inner = kernel.Product(x.Shape[2:])
	}
	c.Each(len(o)/inner, inner, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			k := r % channels
			a := float64(in[1][k]) / math.Sqrt(float64(in[4][k])+eps)
			scaled(o[r*inner:(r+1)*inner], in[0][r*inner:], float32(a), in[2][k]-in[3][k]*float32(a))
		}
	})
	return nil
}

// scaled sets o = a·x + b.
func scaled(o, x []float32, a, b float32) {
	tensor.Linear(o, x[:len(o)], a, b)
}

// moments returns mean and variance.
func moments(x []float32) (mean, variance float64) {
	for _, v := range x {
		mean += float64(v)
	}
	mean /= float64(len(x))
	for _, v := range x {
		d := float64(v) - mean
		variance += d * d
	}
	return mean, variance / float64(len(x))
}

// groupNorm computes GroupNormalization, and InstanceNormalization, whose
// groups are single channels.
func groupNorm(c *kernel.Call) error {
	x := c.In[0]
	in, err := c.Floats(0, 1, 2)
	if err != nil {
		return err
	}
	if x.Rank() < 2 {
		return fmt.Errorf("%v has no channels", x.Shape)
	}
	channels := x.Shape[1]
	groups := channels
	if c.Node.Op == "GroupNormalization" {
		groups = c.Int("num_groups", 0)
	}
	if groups < 1 || channels%groups != 0 {
		return fmt.Errorf("cannot split %d channels into %d groups", channels, groups)
	}
	affine := channels
	if c.Node.Op == "GroupNormalization" && c.Opset < 21 {
		affine = groups
	}
	if err := c.Lengths(affine, 1, 2); err != nil {
		return err
	}
	out, err := c.Result(0, onnx.FLOAT, x.Shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	inner, each, eps := kernel.Product(x.Shape[2:]), channels/groups, float64(c.Float("epsilon", 1e-5))
	o := kernel.Elements[float32](out)
	c.Each(x.Shape[0]*groups, each*inner, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			mean, variance := moments(in[0][r*each*inner : (r+1)*each*inner])
			inv := 1 / math.Sqrt(variance+eps)
			for k := range each {
				at, p := (r*each+k)*inner, (r%groups)*each+k
				if affine == groups {
					p = r % groups
				}
				a := float64(in[1][p]) * inv
				scaled(o[at:at+inner], in[0][at:], float32(a), float32(float64(in[2][p])-mean*a))
			}
		}
	})
	return nil
}

// layerNorm normalizes over the last dimensions; RMSNormalization does not
// subtract the mean.
func layerNorm(c *kernel.Call) error {
	x := c.In[0]
	in, err := c.Floats(0, 1, 2)
	if err != nil {
		return err
	}
	along, err := kernel.Axis(c.Int("axis", -1), x.Rank())
	if err != nil {
		return err
	}
	n, rms := kernel.Product(x.Shape[along:]), c.Node.Op != "LayerNormalization"
	shape, err := kernel.Broadcast(x.Shape, c.In[1].Shape)
	if err != nil || kernel.Product(shape) != x.Len() {
		return fmt.Errorf("shape mismatch: scale %v for %v", c.In[1].Shape, x.Shape)
	}
	if err := c.Lengths(n, 1, 2); err != nil {
		return err
	}
	out, err := c.Result(0, onnx.FLOAT, x.Shape...)
	if err != nil {
		return err
	}
	few := append([]int(nil), x.Shape...)
	for i := along; i < len(few); i++ {
		few[i] = 1
	}
	var stats [2][]float32
	for i := range stats {
		to := i + 1
		if rms { // without the mean
			to--
		}
		if to > 0 && len(c.Out) > to {
			a, err := c.Result(to, onnx.FLOAT, few...)
			if err != nil {
				return err
			}
			stats[i] = kernel.Elements[float32](a)
		}
	}
	if n == 0 {
		return nil
	}
	shifts := in[2]
	if shifts == nil {
		shifts = make([]float32, n)
	}
	eps, o := float64(c.Float("epsilon", 1e-5)), kernel.Elements[float32](out)
	c.Each(len(o)/n, n, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			row, dst := in[0][r*n:(r+1)*n], o[r*n:(r+1)*n]
			shift, variance := tensor.Moments(row)
			if rms {
				shift, variance = 0, tensor.Dot(row, row)/float32(n)
			}
			scale := float32(1 / math.Sqrt(float64(variance)+eps))
			tensor.Normalize(dst, row, in[1], shifts, shift, scale)
			for i, v := range []float32{shift, scale} {
				if stats[i] != nil {
					stats[i][r] = v
				}
			}
		}
	})
	return nil
}

// lrn divides by the squares of neighboring channels.
func lrn(c *kernel.Call) error {
	x := c.In[0]
	in, err := c.Floats(0)
	if err != nil {
		return err
	}
	size := c.Int("size", 0)
	if x.Rank() < 2 || size < 1 || size > math.MaxInt32 {
		return fmt.Errorf("bad size %d for %v", size, x.Shape)
	}
	out, err := c.Result(0, onnx.FLOAT, x.Shape...)
	if err != nil {
		return err
	}
	alpha, beta, bias := float64(c.Float("alpha", 1e-4)), float64(c.Float("beta", 0.75)), float64(c.Float("bias", 1))
	channels, inner, o := x.Shape[1], kernel.Product(x.Shape[2:]), kernel.Elements[float32](out)
	c.Each(x.Shape[0]*channels, inner*size, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			k, base := r%channels, r/channels*channels
			for i := range inner {
				sum := 0.0
				for j := max(0, k-(size-1)/2); j < min(channels, k+size/2+1); j++ {
					v := float64(in[0][(base+j)*inner+i])
					sum += v * v
				}
				o[r*inner+i] = float32(float64(in[0][r*inner+i]) / raise34(bias+alpha/float64(size)*sum, beta))
			}
		}
	})
	return nil
}

// raise34 returns v to the power of beta, which is usually 3/4.
func raise34(v, beta float64) float64 {
	if beta == 0.75 && v > 0 {
		root := math.Sqrt(v)
		return root * math.Sqrt(root)
	}
	return math.Pow(v, beta)
}

// lpNorm divides by the norm along an axis.
func lpNorm(c *kernel.Call) error {
	x := c.In[0]
	in, err := c.Floats(0)
	if err != nil {
		return err
	}
	along, err := kernel.Axis(c.Int("axis", -1), x.Rank())
	if err != nil {
		return err
	}
	out, err := c.Result(0, onnx.FLOAT, x.Shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	n, inner, p, o := x.Shape[along], kernel.Product(x.Shape[along+1:]), c.Int("p", 2), kernel.Elements[float32](out)
	for g := range len(o) / n {
		base, sum := g/inner*n*inner+g%inner, 0.0
		for i := range n {
			v := math.Abs(float64(in[0][base+i*inner]))
			if p == 2 {
				v *= v
			}
			sum += v
		}
		if p == 2 {
			sum = math.Sqrt(sum)
		}
		for i := range n {
			v := float32(0)
			if sum != 0 {
				v = float32(float64(in[0][base+i*inner]) / sum)
			}
			o[base+i*inner] = v
		}
	}
	return nil
}
