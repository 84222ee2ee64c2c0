package kernel

import (
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
)

// Cast converts an array; an array of that type is shared.
func (c *Call) Cast(a *Array, to onnx.DType) (*Array, error) {
	if a.Type == to {
		return a.View(a.Shape), nil
	}
	if small(a.Type) || small(to) {
		return c.CastSmall(a, to, Narrow{})
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
		convert(out, Elements[float32](a))
	case onnx.DOUBLE:
		convert(out, Elements[float64](a))
	case onnx.INT8:
		convert(out, Elements[int8](a))
	case onnx.INT16:
		convert(out, Elements[int16](a))
	case onnx.INT32:
		convert(out, Elements[int32](a))
	case onnx.INT64:
		convert(out, Elements[int64](a))
	case onnx.UINT8, onnx.BOOL:
		convert(out, Elements[uint8](a))
	case onnx.UINT16:
		convert(out, Elements[uint16](a))
	case onnx.UINT32:
		convert(out, Elements[uint32](a))
	case onnx.UINT64:
		convert(out, Elements[uint64](a))
	case onnx.FLOAT16, onnx.BFLOAT16:
		wide := make([]float32, a.Len())
		for i, v := range Elements[uint16](a) {
			if a.Type == onnx.FLOAT16 {
				wide[i] = tensor.F16ToF32(v)
			} else {
				wide[i] = tensor.BF16ToF32(v)
			}
		}
		convert(out, wide)
	}
	return out, nil
}

// castVector converts between float32 and the types with vector kernels.
func (c *Call) castVector(out, a *Array) bool {
	from, to := a.Bytes(), out.Bytes()
	switch {
	case a.Type == onnx.FLOAT && out.Type == onnx.FLOAT16:
		x := Elements[float32](a)
		c.Each(len(x), 1, func(_, lo, hi int) { tensor.ToF16(to[2*lo:2*hi], x[lo:hi]) })
	case a.Type == onnx.FLOAT16 && out.Type == onnx.FLOAT:
		o := Elements[float32](out)
		c.Each(len(o), 1, func(_, lo, hi int) { tensor.FromF16(o[lo:hi], from[2*lo:2*hi]) })
	case a.Type == onnx.FLOAT && out.Type == onnx.UINT8:
		x := Elements[float32](a)
		c.Each(len(x), 1, func(_, lo, hi int) { tensor.ToBytes(to[lo:hi], x[lo:hi]) })
	case a.Type == onnx.UINT8 && out.Type == onnx.FLOAT:
		o := Elements[float32](out)
		c.Each(len(o), 1, func(_, lo, hi int) { tensor.FromBytes(o[lo:hi], from[lo:hi]) })
	default:
		return false
	}
	return true
}

// convert converts numbers to the type of out. Fractions are truncated.
func convert[T Number](out *Array, x []T) {
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
			Elements[bool](out)[i] = v != 0
		}
	case onnx.FLOAT16:
		for i, v := range x {
			Elements[uint16](out)[i] = toHalf(float64(v))
		}
	case onnx.BFLOAT16:
		for i, v := range x {
			Elements[uint16](out)[i] = tensor.F32ToBF16(float32(v))
		}
	}
}

func into[T, R Number](out *Array, x []T) {
	o := Elements[R](out)
	if Integral[R]() && !Integral[T]() { // through 64 bits, so that small integers wrap
		for i, v := range x {
			o[i] = R(int64(v))
		}
		return
	}
	for i, v := range x {
		o[i] = R(v)
	}
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
