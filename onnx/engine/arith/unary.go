// Package arith holds the elementwise operators of ONNX and reductions:
// arithmetic, comparisons, functions, conversions, softmax.
package arith

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// functions maps operators to functions of one real number without parameters.
var functions = map[string]func(x float64) float64{
	"Sqrt": math.Sqrt, "Exp": math.Exp, "Log": math.Log, "Sigmoid": sigmoid, "Tanh": math.Tanh,
	"Softplus":  func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) },
	"Softsign":  func(x float64) float64 { return x / (1 + math.Abs(x)) },
	"HardSwish": func(x float64) float64 { return x * min(max(x/6+0.5, 0), 1) },
	"Mish": func(x float64) float64 {
		return x * math.Tanh(max(x, 0)+math.Log1p(math.Exp(-math.Abs(x))))
	},
	"Erf": math.Erf, "Floor": math.Floor, "Ceil": math.Ceil, "Round": math.RoundToEven,
	"Reciprocal": func(x float64) float64 { return 1 / x },
	"Sin":        math.Sin, "Cos": math.Cos, "Tan": math.Tan, "Asin": math.Asin, "Acos": math.Acos, "Atan": math.Atan,
	"Sinh": math.Sinh, "Cosh": math.Cosh, "Asinh": math.Asinh, "Acosh": math.Acosh, "Atanh": math.Atanh,
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// curve returns the function of a node: one of functions, or one with
// parameters.
func curve(c *kernel.Call) func(x float64) float64 {
	if f := functions[c.Node.Op]; f != nil {
		return f
	}
	arg := func(name string, absent float32) float64 { return float64(c.Float(name, absent)) }
	switch c.Node.Op {
	case "LeakyRelu":
		a := arg("alpha", 0.01)
		return func(x float64) float64 { return max(x, 0) + a*min(x, 0) }
	case "Elu":
		a := arg("alpha", 1)
		return func(x float64) float64 { return max(x, 0) + a*math.Expm1(min(x, 0)) }
	case "Celu":
		a := arg("alpha", 1)
		return func(x float64) float64 { return max(x, 0) + min(0, a*math.Expm1(x/a)) }
	case "Selu":
		a, g := arg("alpha", 1.67326319217681884765625), arg("gamma", 1.05070102214813232421875)
		return func(x float64) float64 { return g * (max(x, 0) + a*math.Expm1(min(x, 0))) }
	case "HardSigmoid":
		a, b := arg("alpha", 0.2), arg("beta", 0.5)
		return func(x float64) float64 { return max(0, min(1, a*x+b)) }
	case "ThresholdedRelu":
		a := arg("alpha", 1)
		return func(x float64) float64 {
			if x > a {
				return x
			}
			return 0
		}
	case "Shrink":
		b, l := arg("bias", 0), arg("lambd", 0.5)
		return func(x float64) float64 {
			switch {
			case x < -l:
				return x + b
			case x > l:
				return x - b
			}
			return 0
		}
	case "Swish":
		a := arg("alpha", 1)
		return func(x float64) float64 { return x * sigmoid(a*x) }
	}
	if c.Text("approximate", "none") == "tanh" { // Gelu
		return func(x float64) float64 {
			return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		}
	}
	return func(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }
}

// scalarFunction applies a function of real numbers.
func scalarFunction[T kernel.Number](c *kernel.Call) error {
	if v := vector(c); v != nil && c.In[0].Type == onnx.FLOAT {
		return unary(c, v)
	}
	f := curve(c)
	return unary(c, func(o, x []T) {
		for i, v := range x {
			o[i] = T(f(float64(v)))
		}
	})
}

// unary applies f to pieces of the input.
func unary[T, R kernel.Elem](c *kernel.Call, f func(o []R, x []T)) error {
	out, err := c.Result(0, kernel.TypeOf[R](), c.In[0].Shape...)
	if err != nil {
		return err
	}
	x, o := kernel.Elements[T](c.In[0]), kernel.Elements[R](out)
	c.Each(len(o), 1, func(_, lo, hi int) { f(o[lo:hi], x[lo:hi]) })
	return nil
}

// plain computes the functions that every numeric type has.
func plain[T kernel.Number](c *kernel.Call) error {
	var zero T
	switch c.Node.Op {
	case "Relu":
		if c.In[0].Type == onnx.FLOAT {
			return unary(c, func(o, x []float32) { tensor.Clip(o, x, 0, highest) })
		}
		return unary(c, func(o, x []T) {
			for i, v := range x {
				o[i] = max(v, 0)
			}
		})
	case "Neg":
		return unary(c, func(o, x []T) {
			for i, v := range x {
				o[i] = -v
			}
		})
	case "Abs":
		return unary(c, func(o, x []T) {
			for i, v := range x {
				if v < 0 {
					v = -v
				}
				o[i] = v + 0 // -0 is 0
			}
		})
	}
	return unary(c, func(o, x []T) { // Sign
		for i, v := range x {
			switch {
			case v > zero:
				o[i] = 1
			case v < zero:
				o[i] = zero - 1
			default:
				o[i] = v
			}
		}
	})
}

// clip takes its bounds from attributes, or from inputs since opset 11.
func clip[T kernel.Number](c *kernel.Call) error {
	lo, hi, low, high := T(0), T(0), false, false
	if c.Opset < 11 {
		lo, hi, low, high = T(c.Float("min", -math.MaxFloat32)), T(c.Float("max", math.MaxFloat32)), true, true
	} else {
		for i := 1; i < 3; i++ {
			a := c.Input(i)
			switch {
			case a == nil:
			case a.Type != kernel.TypeOf[T]() || a.Len() != 1:
				return fmt.Errorf("input %d is not a single %s", i, kernel.TypeOf[T]())
			case i == 1:
				lo, low = kernel.Elements[T](a)[0], true
			default:
				hi, high = kernel.Elements[T](a)[0], true
			}
		}
	}
	if c.In[0].Type == onnx.FLOAT {
		a, b := lowest, highest
		if low {
			a = float32(lo)
		}
		if high {
			b = float32(hi)
		}
		return unary(c, func(o, x []float32) { tensor.Clip(o, x, a, b) })
	}
	return unary(c, func(o, x []T) {
		for i, v := range x {
			if low && v < lo {
				v = lo
			}
			if high && v > hi {
				v = hi
			}
			o[i] = v
		}
	})
}

func not(c *kernel.Call) error {
	if err := c.Want(onnx.BOOL, 0); err != nil {
		return err
	}
	return unary(c, func(o, x []bool) {
		for i, v := range x {
			o[i] = !v
		}
	})
}

func bitwiseNot[T integer](c *kernel.Call) error {
	return unary(c, func(o, x []T) {
		for i, v := range x {
			o[i] = ^v
		}
	})
}

// test computes IsNaN and IsInf.
func test[T float32 | float64](c *kernel.Call) error {
	if c.Node.Op == "IsNaN" {
		return unary(c, func(o []bool, x []T) {
			for i, v := range x {
				o[i] = v != v
			}
		})
	}
	negative, positive := c.Int("detect_negative", 1) != 0, c.Int("detect_positive", 1) != 0
	return unary(c, func(o []bool, x []T) {
		for i, v := range x {
			o[i] = negative && math.IsInf(float64(v), -1) || positive && math.IsInf(float64(v), 1)
		}
	})
}

// castTo computes Cast.
func castTo(c *kernel.Call) error {
	to := onnx.DType(c.Int("to", 0))
	if c.Node.Op == "CastLike" {
		to = c.In[1].Type
	}
	if kernel.Size(to) == 0 {
		return fmt.Errorf("unsupported conversion to %s", to)
	}
	how, out, err := kernel.Narrow{Overflow: c.Int("saturate", 1) == 0, Round: c.Text("round_mode", "up")}, (*kernel.Array)(nil), error(nil)
	if how.Overflow || how.Round != "up" {
		out, err = c.CastSmall(c.In[0], to, how)
	} else {
		out, err = c.Cast(c.In[0], to)
	}
	c.Out[0] = out
	return err
}
