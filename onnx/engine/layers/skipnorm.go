package layers

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// Microsoft returns the operators of com.microsoft of this package.
func Microsoft() kernel.Operators {
	t := kernel.Operators{
		"RotaryEmbedding":              {Run: microsoftRotary, Since: 1, Min: 4, Max: 4},
		"MultiHeadAttention":           {Run: multiHead, Since: 1, Min: 1, Max: 10},
		"GroupQueryAttention":          {Run: groupQuery, Since: 1, Min: 7, Max: 14},
		"Attention":                    {Run: packedAttention, Since: 1, Min: 2, Max: 7},
		"DynamicQuantizeLSTM":          {Run: dynamicLSTM, Since: 1, Min: 12, Max: 12},
		"SimplifiedLayerNormalization": {Run: layerNorm, Since: 1, Min: 2, Max: 2},
	}
	t.All(kernel.Operator{Run: skipNorm, Since: 1, Min: 3, Max: 5}, "SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
	return t
}

// skipNorm normalizes the sum of two arrays and a bias.
func skipNorm(c *kernel.Call) error {
	x, skip, rms := c.In[0], c.In[1], c.Node.Op == "SkipSimplifiedLayerNormalization"
	in, err := c.Floats(0, 1, 2, 3, 4)
	if err != nil {
		return err
	}
	shift, bias := in[3], in[4]
	if rms {
		shift, bias = nil, in[3]
		if c.Input(4) != nil {
			return fmt.Errorf("got 5 inputs, want 3 or 4")
		}
	}
	if x.Rank() == 0 {
		return fmt.Errorf("%v has no dimension to normalize", x.Shape)
	}
	n := x.Dim(-1)
	if err := c.Lengths(n, 2, 3, 4); err != nil {
		return err
	}
	if err := repeats(x.Shape, skip.Shape); err != nil {
		return err
	}
	var out [4][]float32
	few := append(append([]int(nil), x.Shape[:x.Rank()-1]...), 1)
	for i, shape := range [][]int{x.Shape, few, few, x.Shape} {
		if i > 0 && (i >= len(c.Out) || i < len(c.Node.Outputs) && c.Node.Outputs[i] == "") {
			continue
		}
		a, err := c.Result(i, onnx.FLOAT, shape...)
		if err != nil {
			return err
		}
		out[i] = kernel.Elements[float32](a)
	}
	if x.Len() == 0 {
		return nil
	}
	if shift == nil {
		shift = make([]float32, n)
	}
	eps, again := float64(c.Float("epsilon", 1e-12)), skip.Len()/n
	c.Each(x.Len()/n, 2*n, func(_, lo, hi int) {
		sum := make([]float32, n)
		for r := lo; r < hi; r++ {
			k := r % again
			tensor.Sum(sum, in[0][r*n:(r+1)*n], in[1][k*n:(k+1)*n])
			if bias != nil {
				tensor.Add(sum, bias)
			}
			mean, variance := tensor.Moments(sum)
			if rms {
				mean, variance = 0, tensor.Dot(sum, sum)/float32(n)
			}
			inv := float32(1 / math.Sqrt(float64(variance)+eps))
			tensor.Normalize(out[0][r*n:(r+1)*n], sum, in[2], shift, mean, inv)
			for i, v := range []float32{mean, inv} {
				if out[1+i] != nil {
					out[1+i][r] = v
				}
			}
			if out[3] != nil {
				copy(out[3][r*n:], sum)
			}
		}
	})
	return nil
}

// repeats returns an error unless an array of the second shape, without leading
// ones, repeats along the first dimensions of the first.
func repeats(shape, part []int) error {
	for len(part) > 1 && part[0] == 1 {
		part = part[1:]
	}
	if n := len(shape) - len(part); n >= 0 && len(part) > 0 && (slices.Equal(shape[n:], part)) {
		return nil
	}
	return fmt.Errorf("shape mismatch: %v repeated in %v", part, shape)
}
