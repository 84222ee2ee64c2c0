package arith

import (
	"fmt"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// Microsoft returns the operators of com.microsoft of this package.
func Microsoft() kernel.Operators {
	return kernel.Operators{
		"BiasGelu":  {Run: biased, Since: 1, Min: 2, Max: 2},
		"FastGelu":  {Run: biased, Since: 1, Min: 1, Max: 2},
		"QuickGelu": {Run: biased, Since: 1, Min: 1, Max: 1},
	}
}

// biased computes a function of the sum of the input and a bias along the last
// dimension.
func biased(c *kernel.Call) error {
	x := c.In[0]
	in, err := c.Floats(0, 1)
	if err != nil {
		return err
	}
	n := x.Len()
	if in[1] != nil {
		if x.Rank() == 0 {
			return fmt.Errorf("bias of a scalar")
		}
		n = x.Dim(-1)
		if err := c.Lengths(n, 1); err != nil {
			return err
		}
	}
	out, err := c.Result(0, onnx.FLOAT, x.Shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	f, o := gelu(c), kernel.Elements[float32](out)
	if in[1] == nil {
		c.Each(len(o), 4, func(_, lo, hi int) { f(o[lo:hi], in[0][lo:hi]) })
		return nil
	}
	c.Each(len(o)/n, 4*n, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			row := o[r*n : (r+1)*n]
			tensor.Sum(row, in[0][r*n:(r+1)*n], in[1])
			f(row, row)
		}
	})
	return nil
}

// gelu returns the function of a node; dst may be x.
func gelu(c *kernel.Call) func(dst, x []float32) {
	switch c.Node.Op {
	case "FastGelu":
		return pieces(func(v, scratch []float32) {
			for i, x := range v {
				scratch[i] = x * (0.7978845608 + 0.0356774081*x*x)
			}
			tensor.Tanh(scratch, scratch)
			for i, x := range v {
				v[i] = 0.5 * x * (1 + scratch[i])
			}
		})
	case "QuickGelu":
		alpha := c.Float("alpha", 1.702)
		return pieces(func(v, scratch []float32) {
			tensor.TimesBy(scratch, v, alpha)
			tensor.Sigmoid(scratch, scratch)
			tensor.Times(v, v, scratch)
		})
	}
	return tensor.GELU
}

// pieces applies f in place to short pieces, with scratch of their length.
func pieces(f func(v, scratch []float32)) func(dst, x []float32) {
	return func(dst, x []float32) {
		var v, scratch [256]float32
		for lo := 0; lo < len(x); lo += len(v) {
			n := copy(v[:], x[lo:])
			f(v[:n], scratch[:n])
			copy(dst[lo:lo+n], v[:n])
		}
	}
}
