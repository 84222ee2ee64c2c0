package op

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/graph/array"
	"mm-abi.org/mm/core/onnx"
	"mm-abi.org/mm/core/tensor"
)

// functions are the operators that are a function of a real number alone.
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

// curve gives the function of a node: one of functions, or one with
// parameters.
func (c *Call) curve() func(x float64) float64 {
	if f := functions[c.Node.Op]; f != nil {
		return f
	}
	arg := func(name string, absent float32) float64 { return float64(c.float(name, absent)) }
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
	if c.text("approximate", "none") == "tanh" { // Gelu
		return func(x float64) float64 {
			return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		}
	}
	return func(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }
}

// real applies a function of real numbers.
func real[T number](c *Call) error {
	if v := c.vector(); v != nil && c.In[0].Type == onnx.FLOAT {
		return unary(c, v)
	}
	f := c.curve()
	return unary(c, func(o, x []T) {
		for i, v := range x {
			o[i] = T(f(float64(v)))
		}
	})
}

// unary applies f to pieces of the input.
func unary[T, R array.Elem](c *Call, f func(o []R, x []T)) error {
	out, err := c.result(0, typeOf[R](), c.In[0].Shape...)
	if err != nil {
		return err
	}
	x, o := array.Of[T](c.In[0]), array.Of[R](out)
	c.each(len(o), 1, func(_, lo, hi int) { f(o[lo:hi], x[lo:hi]) })
	return nil
}

// plain are the functions that every type of numbers has.
func plain[T number](c *Call) error {
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

// clip bounds by attributes, or by inputs from opset 11 on.
func clip[T number](c *Call) error {
	lo, hi, low, high := T(0), T(0), false, false
	if c.Opset < 11 {
		lo, hi, low, high = T(c.float("min", -math.MaxFloat32)), T(c.float("max", math.MaxFloat32)), true, true
	} else {
		for i := 1; i < 3; i++ {
			a := c.input(i)
			switch {
			case a == nil:
			case a.Type != typeOf[T]() || a.Len() != 1:
				return fmt.Errorf("input %d is no single %s", i, typeOf[T]())
			case i == 1:
				lo, low = array.Of[T](a)[0], true
			default:
				hi, high = array.Of[T](a)[0], true
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

func not(c *Call) error {
	if err := c.want(onnx.BOOL, 0); err != nil {
		return err
	}
	return unary(c, func(o, x []bool) {
		for i, v := range x {
			o[i] = !v
		}
	})
}

func bitwiseNot[T integer](c *Call) error {
	return unary(c, func(o, x []T) {
		for i, v := range x {
			o[i] = ^v
		}
	})
}

// test is IsNaN and IsInf.
func test[T float32 | float64](c *Call) error {
	if c.Node.Op == "IsNaN" {
		return unary(c, func(o []bool, x []T) {
			for i, v := range x {
				o[i] = v != v
			}
		})
	}
	negative, positive := c.int("detect_negative", 1) != 0, c.int("detect_positive", 1) != 0
	return unary(c, func(o []bool, x []T) {
		for i, v := range x {
			o[i] = negative && math.IsInf(float64(v), -1) || positive && math.IsInf(float64(v), 1)
		}
	})
}

// castTo is Cast.
func castTo(c *Call) error {
	to := onnx.DType(c.int("to", 0))
	if c.Node.Op == "CastLike" {
		to = c.In[1].Type
	}
	if array.Size(to) == 0 {
		return fmt.Errorf("to %s is not supported", to)
	}
	out, err := c.cast(c.In[0], to)
	c.Out[0] = out
	return err
}

// cast converts an array; one of the type already is shared.
func (c *Call) cast(a *Array, to onnx.DType) (*Array, error) {
	if a.Type == to {
		return a.View(a.Shape), nil
	}
	out, err := c.Arena.New(to, a.Shape...)
	if err != nil || a.Len() == 0 {
		return out, err
	}
	if c.castVector(out, a) {
		return out, nil
	}
	switch a.Type {
	case onnx.FLOAT:
		convert(out, array.Of[float32](a))
	case onnx.DOUBLE:
		convert(out, array.Of[float64](a))
	case onnx.INT8:
		convert(out, array.Of[int8](a))
	case onnx.INT16:
		convert(out, array.Of[int16](a))
	case onnx.INT32:
		convert(out, array.Of[int32](a))
	case onnx.INT64:
		convert(out, array.Of[int64](a))
	case onnx.UINT8, onnx.BOOL:
		convert(out, array.Of[uint8](a))
	case onnx.UINT16:
		convert(out, array.Of[uint16](a))
	case onnx.UINT32:
		convert(out, array.Of[uint32](a))
	case onnx.UINT64:
		convert(out, array.Of[uint64](a))
	case onnx.FLOAT16, onnx.BFLOAT16:
		wide := make([]float32, a.Len())
		for i, v := range array.Of[uint16](a) {
			if a.Type == onnx.FLOAT16 {
				wide[i] = fromHalf(v)
			} else {
				wide[i] = math.Float32frombits(uint32(v) << 16)
			}
		}
		convert(out, wide)
	}
	return out, nil
}

// castVector converts between float32 and what has vector kernels.
func (c *Call) castVector(out, a *Array) bool {
	from, to := a.Bytes(), out.Bytes()
	switch {
	case a.Type == onnx.FLOAT && out.Type == onnx.FLOAT16:
		x := array.Of[float32](a)
		c.each(len(x), 1, func(_, lo, hi int) { tensor.ToF16(to[2*lo:2*hi], x[lo:hi]) })
	case a.Type == onnx.FLOAT16 && out.Type == onnx.FLOAT:
		o := array.Of[float32](out)
		c.each(len(o), 1, func(_, lo, hi int) { tensor.FromF16(o[lo:hi], from[2*lo:2*hi]) })
	case a.Type == onnx.FLOAT && out.Type == onnx.UINT8:
		x := array.Of[float32](a)
		c.each(len(x), 1, func(_, lo, hi int) { tensor.ToBytes(to[lo:hi], x[lo:hi]) })
	case a.Type == onnx.UINT8 && out.Type == onnx.FLOAT:
		o := array.Of[float32](out)
		c.each(len(o), 1, func(_, lo, hi int) { tensor.FromBytes(o[lo:hi], from[lo:hi]) })
	default:
		return false
	}
	return true
}

// convert writes numbers as those of out's type. Fractions are cut off.
func convert[T number](out *Array, x []T) {
	switch out.Type {
	case onnx.FLOAT:
		into[T, float32](out, x)
	case onnx.DOUBLE:
		into[T, float64](out, x)
	case onnx.INT8:
		into[T, int8](out, x)
	case onnx.INT16:
		into[T, int16](out, x)
	case onnx.INT32:
		into[T, int32](out, x)
	case onnx.INT64:
		into[T, int64](out, x)
	case onnx.UINT8:
		into[T, uint8](out, x)
	case onnx.UINT16:
		into[T, uint16](out, x)
	case onnx.UINT32:
		into[T, uint32](out, x)
	case onnx.UINT64:
		into[T, uint64](out, x)
	case onnx.BOOL:
		for i, v := range x {
			array.Of[bool](out)[i] = v != 0
		}
	case onnx.FLOAT16:
		for i, v := range x {
			array.Of[uint16](out)[i] = toHalf(float64(v))
		}
	case onnx.BFLOAT16:
		for i, v := range x {
			array.Of[uint16](out)[i] = toBrain(float32(v))
		}
	}
}

func into[T, R number](out *Array, x []T) {
	o := array.Of[R](out)
	if whole[R]() && !whole[T]() { // by way of 64 bits, as small numbers wrap
		for i, v := range x {
			o[i] = R(int64(v))
		}
		return
	}
	for i, v := range x {
		o[i] = R(v)
	}
}

// fromHalf reads an IEEE binary16.
func fromHalf(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&1023
	switch exp {
	case 0:
		v := float32(frac) / (1 << 24)
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 255<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// toHalf rounds to the nearest IEEE binary16, ties to even.
func toHalf(v float64) uint16 {
	sign := uint16(math.Float64bits(v)>>63) << 15
	a := math.Abs(v)
	switch {
	case v != v:
		return sign | 0x7e00
	case a >= 65520:
		return sign | 0x7c00
	case a < 1.0/(1<<14):
		return sign | uint16(math.RoundToEven(a*(1<<24)))
	}
	frac, exp := math.Frexp(a) // frac in [0.5, 1)
	m := uint16(math.RoundToEven(frac * 2048))
	return sign | (uint16(exp+13)<<10 + m)
}

// toBrain rounds to the nearest bfloat16, ties to even.
func toBrain(v float32) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
