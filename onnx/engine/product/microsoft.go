package product

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// Microsoft returns the operators of com.microsoft of this package.
func Microsoft() kernel.Operators {
	t := kernel.Operators{
		"FusedMatMul":              {Run: fusedMatMul, Since: 1, Min: 2, Max: 2},
		"MatMulNBits":              {Run: matMulNBits, Since: 1, Min: 3, Max: 6},
		"GatherBlockQuantized":     {Run: gatherBlocks, Since: 1, Min: 3, Max: 4},
		"DynamicQuantizeMatMul":    {Run: dynamicMatMul, Since: 1, Min: 3, Max: 5},
		"MatMulIntegerToFloat":     {Run: integerToFloat, Since: 1, Min: 4, Max: 7},
		"QLinearGlobalAveragePool": {Run: qlinearGlobalPool, Since: 1, Min: 4, Max: 5, Raw: true},
		"QLinearConcat":            {Run: qlinearConcat, Since: 1, Min: 3, Max: kernel.Many, Raw: true},
	}
	t.All(kernel.Operator{Run: qlinearBinary, Since: 1, Min: 7, Max: 8, Raw: true}, "QLinearAdd", "QLinearMul")
	t.All(kernel.Operator{Run: qlinearUnary, Since: 1, Min: 4, Max: 5, Raw: true}, "QLinearSigmoid", "QLinearLeakyRelu")
	return t
}

// fusedMatMul computes alpha·A·B, each factor transposed according to its attributes.
func fusedMatMul(c *kernel.Call) error {
	if _, err := c.Floats(0, 1); err != nil {
		return err
	}
	var in [2]*kernel.Array
	for i, side := range []string{"A", "B"} {
		a, err := factor(c, c.In[i], c.Int("trans"+side, 0) != 0, c.Int("transBatch"+side, 0) != 0)
		if err != nil {
			return err
		}
		defer c.Arena.Release(a)
		in[i] = a
	}
	out, err := c.Nested("MatMul", MatMul, in[0], in[1])
	if err != nil {
		return err
	}
	c.Out[0] = out
	if alpha := c.Float("alpha", 1); alpha != 1 {
		o := kernel.Elements[float32](out)
		tensor.TimesBy(o, o, alpha)
	}
	return nil
}

// factor returns a factor with its last two dimensions swapped and, if batch is
// set, the first dimension moved behind those of the batch. A vector is not
// transposed.
func factor(c *kernel.Call, a *kernel.Array, last, batch bool) (*kernel.Array, error) {
	n := a.Rank()
	if n < 2 || !last && !batch {
		return a.View(a.Shape), nil
	}
	perm := kernel.Sequence(n)
	if batch {
		perm = slices.Concat(perm[1:n-1], []int{0, n - 1})
	}
	if last {
		perm[n-1], perm[n-2] = perm[n-2], perm[n-1]
	}
	return c.Permuted(a, perm...)
}

// dynamicMatMul computes DynamicQuantizeMatMul: the first factor is quantized to
// 8 bits by the range of its elements.
func dynamicMatMul(c *kernel.Call) error {
	if err := c.Want(onnx.FLOAT, 0, 2, 4); err != nil {
		return err
	}
	q := *c
	q.Out = make([]*kernel.Array, 3)
	defer func() {
		for _, a := range q.Out {
			c.Arena.Release(a)
		}
	}()
	if err := dynamicQuantize(&q); err != nil {
		return err
	}
	acc := *c
	acc.In, acc.Fixed = []*kernel.Array{q.Out[0], c.In[1], q.Out[2], c.Input(3)}, []bool{false, c.Same(1), false, c.Same(3)}
	sums, err := MultiplyIntegers(&acc, 0, 2, 1, 3, integerProduct)
	if err != nil {
		return err
	}
	defer c.Arena.Release(sums)
	return scaledSums(c, sums, q.Out[1], c.In[2], c.Input(4))
}

func integerToFloat(c *kernel.Call) error {
	if err := c.Want(onnx.FLOAT, 2, 3, 6); err != nil {
		return err
	}
	sums, err := MultiplyIntegers(c, 0, 4, 1, 5, integerProduct)
	if err != nil {
		return err
	}
	defer c.Arena.Release(sums)
	return scaledSums(c, sums, c.In[2], c.In[3], c.Input(6))
}

// scaledSums multiplies the sums of an integer product by the scales of its
// factors, the second of which may be one for each column, and adds a bias.
func scaledSums(c *kernel.Call, sums, a, b, bias *kernel.Array) error {
	n := 1
	if sums.Rank() > 0 {
		n = sums.Dim(-1)
	}
	if a.Len() != 1 || b.Len() != 1 && (b.Rank() != 1 || b.Len() != n) || bias != nil && bias.Len() != n {
		return fmt.Errorf("shape mismatch: scales %v and %v of %v", a.Shape, b.Shape, sums.Shape)
	}
	out, err := c.Result(0, onnx.FLOAT, sums.Shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	s, o, by := kernel.Elements[int32](sums), kernel.Elements[float32](out), make([]float32, n)
	for i := range by {
		by[i] = kernel.Elements[float32](a)[0] * kernel.Elements[float32](b)[i%b.Len()]
	}
	c.Each(len(o)/n, n, func(_, lo, hi int) {
		for i := lo * n; i < hi*n; i++ {
			o[i] = float32(s[i]) * by[i%n]
			if bias != nil {
				o[i] += kernel.Elements[float32](bias)[i%n]
			}
		}
	})
	return nil
}
