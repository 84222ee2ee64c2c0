package product

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// ranges maps types to the range of quantized values.
var ranges = map[onnx.DType][2]float64{
	onnx.UINT8: {0, 255}, onnx.INT8: {-128, 127}, onnx.UINT16: {0, 65535}, onnx.INT16: {-32768, 32767},
	onnx.INT32: {math.MinInt32, math.MaxInt32},
	onnx.INT4:  {-8, 7}, onnx.UINT4: {0, 15}, onnx.INT2: {-2, 1}, onnx.UINT2: {0, 3},
}

// scale is the scale and the zero point of a tensor: single ones, or one for
// each index of an axis.
type scale struct {
	by, zero []float64
	kind     onnx.DType
	inner, n int // the parameter of element i is i/inner%n

	block, count, along int // of blocks: the elements and the number along an axis; 0
}

func (s *scale) of(i int) (by, zero float64) {
	k := i / s.inner % s.n
	if s.block > 0 {
		k = (i/s.inner/s.along*s.count+i/s.inner%s.along/s.block)*s.inner + i%s.inner
	}
	return s.by[k], s.zero[k]
}

// scaling reads scale and zero point from two inputs for an array of a shape.
func scaling(c *kernel.Call, si, zi int, shape []int, along int) (s scale, err error) {
	s.kind = onnx.UINT8
	if a := c.Input(si); a == nil || a.Type != onnx.FLOAT && a.Type != onnx.FLOAT16 && a.Type != onnx.BFLOAT16 {
		return s, fmt.Errorf("input %d is not float32, float16 or bfloat16", si)
	}
	if s.by, err = c.Doubles(si); err != nil {
		return s, err
	}
	s.n, s.inner = len(s.by), max(1, kernel.Product(shape))
	s.zero = make([]float64, s.n)
	if z := c.Input(zi); z != nil {
		if s.zero, err = c.Doubles(zi); err != nil {
			return s, err
		}
		s.kind = z.Type
	}
	if _, ok := ranges[s.kind]; !ok && !kernel.Minifloat(s.kind) || len(s.zero) != s.n || s.n == 0 {
		return s, fmt.Errorf("length mismatch: %d scales and %d zero points of %s", s.n, len(s.zero), s.kind)
	}
	if s.n == 1 {
		return s, nil
	}
	if along, err = kernel.Axis(along, len(shape)); err != nil {
		return s, err
	}
	if size := c.Int("block_size", 0); size != 0 && c.In[si].Rank() != 1 {
		return s, s.blocked(c.In[si].Shape, shape, along, size)
	}
	if c.In[si].Rank() != 1 || shape[along] != s.n {
		return s, fmt.Errorf("scales %v do not match axis %d of %v", c.In[si].Shape, along, shape)
	}
	s.inner = max(1, kernel.Product(shape[along+1:]))
	return s, nil
}

// blocked sets a scale of each block of an axis.
func (s *scale) blocked(scales, shape []int, along, size int) error {
	want := slices.Clone(shape)
	if size > 0 {
		want[along] = (shape[along] + size - 1) / size
	}
	if size < 0 || !slices.Equal(scales, want) || s.n == 0 {
		return fmt.Errorf("scales %v do not match blocks of %d along axis %d of %v", scales, size, along, shape)
	}
	s.block, s.count, s.along = size, want[along], shape[along]
	s.inner = kernel.Product(shape[along+1:])
	return nil
}

// putter returns a function that writes integers, clamped to the range of the
// output's type.
func putter(out *kernel.Array) func(i int, v float64) {
	lo, hi := ranges[out.Type][0], ranges[out.Type][1]
	switch out.Type {
	case onnx.UINT8, onnx.UINT4, onnx.UINT2:
		o := kernel.Elements[uint8](out)
		return func(i int, v float64) { o[i] = uint8(int64(min(max(v, lo), hi))) }
	case onnx.INT8, onnx.INT4, onnx.INT2:
		o := kernel.Elements[int8](out)
		return func(i int, v float64) { o[i] = int8(int64(min(max(v, lo), hi))) }
	case onnx.UINT16:
		o := kernel.Elements[uint16](out)
		return func(i int, v float64) { o[i] = uint16(int64(min(max(v, lo), hi))) }
	case onnx.INT16:
		o := kernel.Elements[int16](out)
		return func(i int, v float64) { o[i] = int16(int64(min(max(v, lo), hi))) }
	}
	o := kernel.Elements[int32](out)
	return func(i int, v float64) { o[i] = int32(int64(min(max(v, lo), hi))) }
}

func quantize(c *kernel.Call) error {
	x, err := c.Cast(c.In[0], onnx.FLOAT)
	if err != nil {
		return err
	}
	defer c.Arena.Release(x)
	s, err := scaling(c, 1, 2, c.In[0].Shape, c.Int("axis", 1))
	if err != nil {
		return err
	}
	if d := onnx.DType(c.Int("output_dtype", 0)); d != 0 && c.Input(2) == nil {
		s.kind = d
	}
	from := kernel.Elements[float32](x)
	if kernel.Minifloat(s.kind) {
		return s.floats(c, from)
	}
	if _, ok := ranges[s.kind]; !ok {
		return fmt.Errorf("unsupported type %s", s.kind)
	}
	out, err := c.Result(0, s.kind, c.In[0].Shape...)
	if err != nil {
		return err
	}
	put := putter(out)
	c.Each(out.Len(), 4, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			by, zero := s.of(i)
			put(i, math.RoundToEven(float64(from[i]/float32(by)))+zero)
		}
	})
	return nil
}

// floats sets the output to numbers divided by their scales, of a type of 4 or 8
// bits.
func (s *scale) floats(c *kernel.Call, x []float32) error {
	wide, err := c.Arena.New(onnx.FLOAT, c.In[0].Shape...)
	if err != nil {
		return err
	}
	defer c.Arena.Release(wide)
	for i, v := range x {
		by, zero := s.of(i)
		kernel.Elements[float32](wide)[i] = v/float32(by) + float32(zero)
	}
	c.Out[0], err = c.CastSmall(wide, s.kind, kernel.Narrow{Overflow: c.Int("saturate", 1) == 0})
	return err
}

func dequantize(c *kernel.Call) error {
	if _, ok := ranges[c.In[0].Type]; !ok && !kernel.Minifloat(c.In[0].Type) {
		return fmt.Errorf("unsupported type %s", c.In[0].Type)
	}
	s, err := scaling(c, 1, 2, c.In[0].Shape, c.Int("axis", 1))
	if err != nil {
		return err
	}
	x, err := c.Cast(c.In[0], onnx.DOUBLE)
	if err != nil {
		return err
	}
	defer c.Arena.Release(x)
	out, err := c.Arena.New(onnx.FLOAT, c.In[0].Shape...)
	if err != nil {
		return err
	}
	defer c.Arena.Release(out)
	from, o := kernel.Elements[float64](x), kernel.Elements[float32](out)
	c.Each(len(o), 4, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			by, zero := s.of(i)
			o[i] = float32((from[i] - zero) * by)
		}
	})
	c.Out[0], err = c.Cast(out, onnx.DType(c.Int("output_dtype", int(c.In[1].Type))))
	return err
}

// dynamicQuantize computes the scale from the range of the numbers.
func dynamicQuantize(c *kernel.Call) error {
	in, err := c.Floats(0)
	if err != nil {
		return err
	}
	out, err := c.Result(0, onnx.UINT8, c.In[0].Shape...)
	if err != nil {
		return err
	}
	by, zero := spread(in[0])
	o := kernel.Elements[uint8](out)
	c.Each(out.Len(), 2, func(_, lo, hi int) { toBytes(o[lo:hi], in[0][lo:hi], by, zero) })
	if len(c.Out) > 1 {
		a, err := c.Result(1, onnx.FLOAT)
		if err != nil {
			return err
		}
		kernel.Elements[float32](a)[0] = by
	}
	if len(c.Out) > 2 {
		a, err := c.Result(2, onnx.UINT8)
		if err != nil {
			return err
		}
		putter(a)(0, zero)
	}
	return nil
}

// roundMagic32, added to a float32 of at most 2²², rounds it to an even integer,
// which is then in the low bits.
const roundMagic32 = 3 << 22

// toBytes quantizes numbers whose range has the scale by and the zero point zero.
func toBytes(dst []uint8, x []float32, by float32, zero float64) {
	if !(by > 0 && by <= math.MaxFloat32) { // every number is 0, or the range is not finite
		for i, v := range x {
			q := zero
			if by != 0 {
				q += math.RoundToEven(float64(v / by))
			}
			dst[i] = uint8(int64(min(max(q, 0), 255)))
		}
		return
	}
	dst = dst[:len(x)]
	shift := int32(zero) - int32(math.Float32bits(roundMagic32))
	for i, v := range x {
		q := int32(math.Float32bits(v/by+roundMagic32)) + shift
		dst[i] = uint8(min(max(q, 0), 255))
	}
}

// spread returns the scale and the zero point of bytes for the range of numbers.
func spread(x []float32) (by float32, zero float64) {
	lo, hi := bounds(x)
	if by = (hi - lo) / 255; by != 0 {
		zero = math.RoundToEven(min(max(float64(-lo/by), 0), 255))
	}
	return by, zero
}

// bounds returns the least and the greatest of numbers and 0; NaN if one is NaN.
func bounds(x []float32) (lo, hi float32) {
	var a, b [4]float32
	all, odd := x, float32(0) // odd: NaN if a number is not finite
	for ; len(x) >= 4; x = x[4:] {
		for j, v := range x[:4] {
			if v < a[j] {
				a[j] = v
			}
			if v > b[j] {
				b[j] = v
			}
		}
		odd += (x[0] - x[0]) + (x[1] - x[1]) + (x[2] - x[2]) + (x[3] - x[3])
	}
	lo, hi = min(a[0], a[1], a[2], a[3]), max(b[0], b[1], b[2], b[3])
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	if odd != odd {
		lo, hi = 0, 0
		for _, v := range all {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	return lo, hi
}

// Coarse sets dst to numbers rounded to bytes by their range.
func Coarse(dst, x []float32) {
	by, zero := spread(x)
	for i, v := range x {
		if dst[i] = 0; by != 0 {
			dst[i] = by * float32(min(max(math.RoundToEven(float64(v/by))+zero, 0), 255)-zero)
		}
	}
}

func qlinearMatMul(c *kernel.Call) error { return Linear(c, integerProduct) }

// Linear computes QLinearMatMul and QLinearConv: an integer product, scaled to
// the type of the result.
func Linear(c *kernel.Call, run Product) error {
	along := -1
	if conv(c) {
		along = 1
	}
	acc, err := MultiplyIntegers(c, 0, 2, 3, 5, run)
	if err != nil {
		return err
	}
	defer c.Arena.Release(acc)
	sa, err := c.Doubles(1)
	if err != nil {
		return err
	}
	sb, err := scaling(c, 4, 5, acc.Shape, along)
	if err != nil {
		return err
	}
	sy, err := scaling(c, 6, 7, acc.Shape, -2)
	if err != nil || len(sa) != 1 && (conv(c) || acc.Rank() < 2 || len(sa) != acc.Dim(-2)) {
		return fmt.Errorf("bad number of scales %d: %v", len(sa), err)
	}
	if conv(c) {
		if err := c.Lengths(acc.Shape[1], 8); err != nil {
			return err
		}
		if err := c.Want(onnx.INT32, 8); err != nil {
			return err
		}
	}
	out, err := c.Result(0, sy.kind, acc.Shape...)
	if err != nil {
		return err
	}
	inner := 1
	if acc.Rank() > 2 {
		inner = max(1, kernel.Product(acc.Shape[2:]))
	}
	var bias []int32
	if conv(c) && c.Input(8) != nil {
		bias = kernel.Elements[int32](c.In[8])
	}
	put, sums := putter(out), kernel.Elements[int32](acc)
	c.Each(len(sums), 8, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			v := sums[i]
			if bias != nil {
				v += bias[i/inner%acc.Shape[1]]
			}
			s := sa[0]
			if len(sa) > 1 {
				s = sa[i/acc.Dim(-1)%len(sa)]
			}
			by, _ := sb.of(i)
			to, zero := sy.of(i)
			put(i, math.RoundToEven(float64(v)*s*by/to)+zero)
		}
	})
	return nil
}
