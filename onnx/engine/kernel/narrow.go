package kernel

import (
	"fmt"
	"math"
	"sort"
	"sync"

	"mm-abi.org/mm/onnx"
)

// Types of less than 8 bits and floats of 8 bits have one byte for each element
// in an array: integers their value, floats their code. Files have the first of
// several elements in the lowest bits of a byte.

// packed lists the bits of an element in a file, for types of less than 8.
var packed = map[onnx.DType]int{onnx.INT4: 4, onnx.UINT4: 4, onnx.FLOAT4E2M1: 4, onnx.INT2: 2, onnx.UINT2: 2}

// rawSize returns the bytes of n elements in a file.
func rawSize(t onnx.DType, n int) int {
	if bits := packed[t]; bits != 0 {
		return (n*bits + 7) / 8
	}
	return n * Size(t)
}

// unpack sets the bytes of an array from those of a file.
func unpack(a *Array, data []byte) {
	bits := packed[a.Type]
	if bits == 0 {
		copy(a.Bytes(), data)
		return
	}
	per, mask, signed := 8/bits, byte(1)<<bits-1, a.Type == onnx.INT4 || a.Type == onnx.INT2
	for i := range a.Bytes() {
		v := data[i/per] >> (i % per * bits) & mask
		if signed && v>>(bits-1) == 1 {
			v |= ^mask
		}
		a.Bytes()[i] = v
	}
}

// Raw returns the elements in the format of raw_data; they may alias the array.
func (a *Array) Raw() []byte {
	bits := packed[a.Type]
	if bits == 0 {
		return a.Bytes()
	}
	out, per, mask := make([]byte, rawSize(a.Type, a.n)), 8/bits, byte(1)<<bits-1
	for i, v := range a.Bytes() {
		out[i/per] |= v & mask << (i % per * bits)
	}
	return out
}

// minifloat describes a float of at most 8 bits.
type minifloat struct {
	bits, mantissa, bias int
	nan, inf             int       // codes without a sign; -1 for none
	last                 int       // code of the greatest finite number
	zeros                bool      // both signs of zero
	values               []float64 // of the codes without a sign, up to last
}

var minifloats = sync.OnceValue(func() map[onnx.DType]*minifloat {
	all := map[onnx.DType]*minifloat{
		onnx.FLOAT8E4M3FN:   {bits: 8, mantissa: 3, bias: 7, nan: 0x7f, inf: -1, last: 0x7e, zeros: true},
		onnx.FLOAT8E4M3FNUZ: {bits: 8, mantissa: 3, bias: 8, nan: 0x80, inf: -1, last: 0x7f},
		onnx.FLOAT8E5M2:     {bits: 8, mantissa: 2, bias: 15, nan: 0x7e, inf: 0x7c, last: 0x7b, zeros: true},
		onnx.FLOAT8E5M2FNUZ: {bits: 8, mantissa: 2, bias: 16, nan: 0x80, inf: -1, last: 0x7f},
		onnx.FLOAT4E2M1:     {bits: 4, mantissa: 1, bias: 1, nan: -1, inf: -1, last: 0x7, zeros: true},
	}
	for _, f := range all {
		for code := range f.last + 1 {
			exp, frac := code>>f.mantissa, float64(code&(1<<f.mantissa-1))/float64(int(1)<<f.mantissa)
			if exp == 0 {
				f.values = append(f.values, math.Ldexp(frac, 1-f.bias))
			} else {
				f.values = append(f.values, math.Ldexp(1+frac, exp-f.bias))
			}
		}
	}
	return all
})

// decode returns the number of a code.
func (f *minifloat) decode(code byte) float64 {
	sign, c := int(code)>>(f.bits-1)&1, int(code)&(1<<(f.bits-1)-1)
	v := math.NaN()
	switch {
	case f.nan == 0x80 && code == 0x80:
		return v
	case c <= f.last:
		v = f.values[c]
	case c == f.inf:
		v = math.Inf(1)
	}
	if sign == 1 {
		return -v
	}
	return v
}

// encode returns the code of the nearest number, of two the even code. Numbers
// beyond the range are the greatest one if saturate is set, otherwise infinite
// or not a number.
func (f *minifloat) encode(v float64, saturate bool) byte {
	sign, a := byte(0), math.Abs(v)
	if math.Signbit(v) {
		sign = 1 << (f.bits - 1)
	}
	if v != v {
		if f.nan < 0 { // a type without one
			return 1 << (f.bits - 1)
		}
		if f.nan == 0x80 {
			return 0x80
		}
		return byte(f.nan) | sign
	}
	step := f.values[f.last] - f.values[f.last-1]
	code := f.last + 1
	if a < f.values[f.last]+step/2 || a == f.values[f.last]+step/2 && f.last%2 == 0 {
		code = sort.Search(f.last, func(i int) bool {
			mid := (f.values[i] + f.values[i+1]) / 2
			return a < mid || a == mid && i%2 == 0
		})
	}
	switch {
	case code <= f.last:
	case saturate || f.nan < 0:
		code = f.last
	case f.inf >= 0:
		code = f.inf
	case f.nan == 0x80:
		return 0x80
	default:
		code = f.nan
	}
	if code == 0 && !f.zeros {
		return 0
	}
	return byte(code) | sign
}

// exponent returns the code of FLOAT8E8M0, a power of two.
func exponent(v float64, saturate bool, mode string) byte {
	bits := math.Float32bits(float32(v))
	exp, frac := int(bits>>23&255), bits&(1<<23-1)
	if exp == 255 {
		return 255
	}
	up := false
	switch mode {
	case "nearest":
		up = frac > 1<<22 || frac == 1<<22 && exp > 0
	case "down":
	default:
		up = frac > 0 && bits>>31 == 0
	}
	if up && !(saturate && exp == 254) {
		exp++
	}
	return byte(exp)
}

// Narrow selects how numbers are converted to floats of at most 8 bits.
type Narrow struct {
	Overflow bool   // beyond the range is infinite or not a number
	Round    string // of FLOAT8E8M0: up, down or nearest
}

// small reports whether a type is one of this file's.
func small(t onnx.DType) bool {
	return packed[t] != 0 || t == onnx.FLOAT8E8M0 || minifloats()[t] != nil
}

// CastSmall converts an array from or to a type of at most 8 bits.
func (c *Call) CastSmall(a *Array, to onnx.DType, how Narrow) (*Array, error) {
	if !small(a.Type) {
		return c.narrowed(a, to, how)
	}
	wide, err := c.Arena.New(onnx.FLOAT, a.Shape...)
	if err != nil {
		return nil, err
	}
	defer c.Arena.Release(wide)
	o, f := Elements[float32](wide), minifloats()[a.Type]
	for i, v := range Elements[uint8](a) {
		switch {
		case f != nil:
			o[i] = float32(f.decode(v))
		case a.Type == onnx.FLOAT8E8M0 && v == 255:
			o[i] = float32(math.NaN())
		case a.Type == onnx.FLOAT8E8M0:
			o[i] = float32(math.Ldexp(1, int(v)-127))
		case a.Type == onnx.INT4 || a.Type == onnx.INT2:
			o[i] = float32(int8(v))
		default:
			o[i] = float32(v)
		}
	}
	if small(to) {
		return c.narrowed(wide, to, how)
	}
	return c.Cast(wide, to)
}

// Minifloat reports whether a type is a float of at most 8 bits.
func Minifloat(t onnx.DType) bool { return minifloats()[t] != nil }

// narrowed converts to a type of at most 8 bits. Integers keep their lowest bits.
func (c *Call) narrowed(a *Array, to onnx.DType, how Narrow) (*Array, error) {
	out, err := c.Arena.New(to, a.Shape...)
	if err != nil {
		return nil, err
	}
	if bits := packed[to]; bits != 0 && to != onnx.FLOAT4E2M1 {
		wide, err := c.Cast(a, onnx.INT64)
		if err != nil {
			return nil, err
		}
		defer c.Arena.Release(wide)
		for i, v := range Elements[int64](wide) {
			v &= 1<<bits - 1
			if (to == onnx.INT4 || to == onnx.INT2) && v>>(bits-1) == 1 {
				v -= 1 << bits
			}
			Elements[uint8](out)[i] = uint8(v)
		}
		return out, nil
	}
	wide, err := c.Cast(a, onnx.DOUBLE)
	if err != nil {
		return nil, err
	}
	defer c.Arena.Release(wide)
	f := minifloats()[to]
	if f == nil && to != onnx.FLOAT8E8M0 {
		return nil, fmt.Errorf("unsupported conversion to %s", to)
	}
	for i, v := range Elements[float64](wide) {
		if f == nil {
			Elements[uint8](out)[i] = exponent(v, !how.Overflow, how.Round)
		} else {
			Elements[uint8](out)[i] = f.encode(v, !how.Overflow)
		}
	}
	return out, nil
}
