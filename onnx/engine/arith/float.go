package arith

import (
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// curves maps functions of one float32 to their vector kernels.
var curves = map[string]func(dst, x []float32){
	"Sqrt": tensor.Sqrt, "Exp": tensor.Exp, "Sigmoid": tensor.Sigmoid, "Tanh": tensor.Tanh, "Erf": tensor.Erf,
	"HardSwish": func(dst, x []float32) { tensor.HardSwish(dst, x, 1./6, 0.5) },
	"Sin":       tensor.Sin, "Cos": tensor.Cos,
}

// vector returns the float32 kernel of a node, nil if there is none: one of
// curves, or one with parameters.
func vector(c *kernel.Call) func(dst, x []float32) {
	if f := curves[c.Node.Op]; f != nil {
		return f
	}
	switch c.Node.Op {
	case "LeakyRelu":
		a := c.Float("alpha", 0.01)
		return func(dst, x []float32) { tensor.LeakyReLU(dst, x, a) }
	case "HardSigmoid":
		a, b := c.Float("alpha", 0.2), c.Float("beta", 0.5)
		return func(dst, x []float32) { tensor.HardSigmoid(dst, x, a, b) }
	case "Gelu":
		if c.Text("approximate", "none") == "none" {
			return tensor.GELU
		}
	case "Swish":
		if c.Float("alpha", 1) == 1 {
			return tensor.SiLU
		}
	}
	return nil
}

// Activation returns the elementwise float32 function of a node; nil if it is
// not one.
func Activation(n *onnx.Node, opset int64) func(dst, x []float32) {
	if n.Op == "Relu" {
		return func(dst, x []float32) { tensor.Clip(dst, x, 0, highest) }
	}
	c := &kernel.Call{Node: n, Opset: opset}
	return vector(c)
}

// rowOf returns the vector kernel of an operator on rows of float32; nil for
// other types and operators.
func rowOf[T kernel.Number](name string) func(o, a, b []T, ia, ib int) {
	var f any
	switch name {
	case "Add", "Sum", "Mean":
		f = rowKernel(tensor.Sum, tensor.SumWith, tensor.SumWith)
	case "Sub":
		f = rowKernel(tensor.Difference, func(o, x []float32, v float32) { tensor.SumWith(o, x, -v) }, tensor.DifferenceFrom)
	case "Mul":
		f = rowKernel(tensor.Times, tensor.TimesBy, tensor.TimesBy)
	case "Div":
		f = rowKernel(tensor.Quotient, tensor.QuotientBy, tensor.QuotientOf)
	case "Max":
		f = rowKernel(each2(func(a, b float32) float32 { return max(a, b) }), atLeast, atLeast)
	case "Min":
		f = rowKernel(each2(func(a, b float32) float32 { return min(a, b) }), atMost, atMost)
	}
	row, _ := f.(func(o, a, b []T, ia, ib int))
	return row
}

// rowKernel combines the kernels for two rows, for a row and a number, and for
// a number and a row.
func rowKernel(both func(o, a, b []float32), right, left func(o, x []float32, v float32)) func(o, a, b []float32, ia, ib int) {
	return func(o, a, b []float32, ia, ib int) {
		switch n := len(o); {
		case ia == 1 && ib == 1:
			both(o, a[:n], b[:n])
		case ia == 1:
			right(o, a[:n], b[0])
		case ib == 1:
			left(o, b[:n], a[0])
		default: // numbers only: one repeated result
			both(o[:1], a[:1], b[:1])
			for i := 1; i < n; i++ {
				o[i] = o[0]
			}
		}
	}
}

func each2(f func(a, b float32) float32) func(o, a, b []float32) {
	return func(o, a, b []float32) {
		for i := range o {
			o[i] = f(a[i], b[i])
		}
	}
}

func atLeast(o, x []float32, v float32) {
	tensor.Clip(o, x, v, highest)
	propagateNaN(o, v)
}

func atMost(o, x []float32, v float32) {
	tensor.Clip(o, x, lowest, v)
	propagateNaN(o, v)
}

// propagateNaN fills o with v if v is NaN.
func propagateNaN(o []float32, v float32) {
	if v != v {
		for i := range o {
			o[i] = v
		}
	}
}

// single returns the element of an input of a single float32.
func single(a *kernel.Array) (float32, bool) {
	if a == nil || a.Type != onnx.FLOAT || a.Len() != 1 {
		return 0, false
	}
	return kernel.Elements[float32](a)[0], true
}

// raised computes the most common powers of float32, squares and roots, and
// reports whether the exponent is one of them.
func raised(c *kernel.Call) (bool, error) {
	e, ok := single(c.In[1])
	if !ok || c.In[0].Type != onnx.FLOAT || c.In[1].Rank() > c.In[0].Rank() {
		return false, nil
	}
	switch e {
	case 1:
		c.Out[0] = c.In[0].View(c.In[0].Shape)
		return true, nil
	case 2:
		return true, unary(c, func(o, x []float32) { tensor.Times(o, x, x) })
	case 0.5:
		return true, unary(c, tensor.Sqrt)
	}
	return false, nil
}

// lowest and highest are bounds without effect.
var lowest, highest = float32(math.Inf(-1)), float32(math.Inf(1))
