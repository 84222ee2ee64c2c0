package arith

import (
	"fmt"
	"math"
	"math/bits"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// Zip walks two arrays and the output of c by rows.
func Zip[T, R kernel.Elem](c *kernel.Call, x, y *kernel.Array, row func(o []R, a, b []T, ia, ib int)) (*kernel.Array, error) {
	shape, err := kernel.Broadcast(x.Shape, y.Shape)
	if err != nil {
		return nil, err
	}
	out, err := c.Arena.New(kernel.TypeOf[R](), shape...)
	if err != nil || out.Len() == 0 {
		return out, err
	}
	p := kernel.Pair(x.Shape, y.Shape, shape)
	a, b, o := kernel.Elements[T](x), kernel.Elements[T](y), kernel.Elements[R](out)
	c.Each(len(o)/p.N, p.N, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			ai, bi := p.At(r)
			row(o[r*p.N:(r+1)*p.N], a[ai:], b[bi:], p.IA, p.IB)
		}
	})
	return out, nil
}

// binary is the kernel of an operator on two arrays of one type, or of a fold
// over any number.
func binary[T kernel.Number](row func(name string, mod bool) func(o, a, b []T, ia, ib int)) kernel.Func {
	return func(c *kernel.Call) error {
		f := row(c.Node.Op, c.Int("fmod", 0) != 0)
		if f == nil {
			return fmt.Errorf("%s is not supported", c.In[0].Type)
		}
		acc := c.In[0].View(c.In[0].Shape)
		for i := 1; i < len(c.In); i++ {
			if c.In[i] == nil || c.In[i].Type != kernel.TypeOf[T]() {
				return fmt.Errorf("input %d: want type %s", i, kernel.TypeOf[T]())
			}
			next, err := Zip(c, acc, c.In[i], f)
			c.Arena.Release(acc)
			if err != nil {
				return err
			}
			acc = next
		}
		if c.Node.Op == "Mean" && len(c.In) > 1 {
			n := T(len(c.In))
			for i, v := range kernel.Elements[T](acc) {
				kernel.Elements[T](acc)[i] = v / n
			}
		}
		c.Out[0] = acc
		return nil
	}
}

// Combine computes Add, Sub, Mul, Div and Mod, and Min, Max, Sum and Mean.
func Combine(c *kernel.Call) error { return arithmetics.By(0)(c) }

// Arithmetic returns the named operator on rows of two arrays, which advance by
// ia and ib elements.
func Arithmetic[T kernel.Number](name string, fmod bool) func(o, a, b []T, ia, ib int) {
	if f := rowOf[T](name); f != nil {
		return f
	}
	switch name {
	case "Add", "Sum", "Mean":
		return addRow[T]
	case "Sub":
		return by(func(a, b T) T { return a - b })
	case "Mul":
		return mulRow[T]
	case "Div":
		return by(divide[T])
	case "Min":
		return by(func(a, b T) T { return min(a, b) })
	case "Max":
		return by(func(a, b T) T { return max(a, b) })
	case "Mod":
		return by(func(a, b T) T { return modulo(a, b, fmod) })
	}
	return nil
}

func by[T, R kernel.Elem](f func(a, b T) R) func(o []R, a, b []T, ia, ib int) {
	return func(o []R, a, b []T, ia, ib int) {
		for i := range o {
			o[i] = f(a[i*ia], b[i*ib])
		}
	}
}

func addRow[T kernel.Number](o, a, b []T, ia, ib int) {
	switch {
	case ia == 1 && ib == 1:
		a, b = a[:len(o)], b[:len(o)]
		for i := range o {
			o[i] = a[i] + b[i]
		}
	case ia == 1:
		a, v := a[:len(o)], b[0]
		for i := range o {
			o[i] = a[i] + v
		}
	default:
		for i := range o {
			o[i] = a[i*ia] + b[i*ib]
		}
	}
}

func mulRow[T kernel.Number](o, a, b []T, ia, ib int) {
	switch {
	case ia == 1 && ib == 1:
		a, b = a[:len(o)], b[:len(o)]
		for i := range o {
			o[i] = a[i] * b[i]
		}
	case ia == 1:
		a, v := a[:len(o)], b[0]
		for i := range o {
			o[i] = a[i] * v
		}
	default:
		for i := range o {
			o[i] = a[i*ia] * b[i*ib]
		}
	}
}

// divide returns a/b; for integers a/0 is 0, because a run must not panic.
func divide[T kernel.Number](a, b T) T {
	if kernel.Integral[T]() && b == 0 {
		return 0
	}
	return a / b
}

// modulo has the sign of b, or with fmod that of a, like in C.
func modulo[T kernel.Number](a, b T, fmod bool) T {
	if !kernel.Integral[T]() {
		m := math.Mod(float64(a), float64(b))
		if !fmod && m != 0 && (m < 0) != (float64(b) < 0) {
			m += float64(b)
		}
		return T(m)
	}
	if b == 0 {
		return 0
	}
	m := a - a/b*b
	if !fmod && m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return m
}

// compare computes operators from numbers to bool.
func compare[T kernel.Number](c *kernel.Call) error {
	if err := c.Want(kernel.TypeOf[T](), 1); err != nil {
		return err
	}
	var f func(a, b T) bool
	switch c.Node.Op {
	case "Equal":
		f = func(a, b T) bool { return a == b }
	case "Less":
		f = func(a, b T) bool { return a < b }
	case "LessOrEqual":
		f = func(a, b T) bool { return a <= b }
	case "Greater":
		f = func(a, b T) bool { return a > b }
	default:
		f = func(a, b T) bool { return a >= b }
	}
	out, err := Zip(c, c.In[0], c.In[1], by(f))
	c.Out[0] = out
	return err
}

// logic computes operators on bool.
func logic(c *kernel.Call) error {
	if err := c.Want(onnx.BOOL, 0, 1); err != nil {
		return err
	}
	var f func(a, b bool) bool
	switch c.Node.Op {
	case "And":
		f = func(a, b bool) bool { return a && b }
	case "Or":
		f = func(a, b bool) bool { return a || b }
	default: // Xor, or not Equal
		equal := c.Node.Op == "Equal"
		f = func(a, b bool) bool { return (a == b) == equal }
	}
	out, err := Zip(c, c.In[0], c.In[1], by(f))
	c.Out[0] = out
	return err
}

// equal compares numbers or bool.
func equal(c *kernel.Call) error {
	if c.In[0].Type == onnx.BOOL {
		return logic(c)
	}
	return comparison.By(0)(c)
}

// integer lists the integer types.
type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// bitwise computes operators on the bits of integers.
func bitwise[T integer](c *kernel.Call) error {
	if err := c.Want(kernel.TypeOf[T](), 1); err != nil {
		return err
	}
	var f func(a, b T) T
	switch op := c.Node.Op; {
	case op == "BitwiseAnd":
		f = func(a, b T) T { return a & b }
	case op == "BitwiseOr":
		f = func(a, b T) T { return a | b }
	case op == "BitwiseXor":
		f = func(a, b T) T { return a ^ b }
	case c.Text("direction", "") == "LEFT":
		f = func(a, b T) T { return a << (uint64(b) & 255) }
	default:
		f = func(a, b T) T { return a >> (uint64(b) & 255) }
	}
	out, err := Zip(c, c.In[0], c.In[1], by(f))
	c.Out[0] = out
	return err
}

// power also supports exponents of another type.
func power[T kernel.Number](c *kernel.Call) error {
	if done, err := raised(c); done || err != nil {
		return err
	}
	x, err := c.Cast(c.In[1], onnx.DOUBLE)
	if err != nil {
		return err
	}
	defer c.Arena.Release(x)
	shape, err := kernel.Broadcast(c.In[0].Shape, x.Shape)
	if err != nil {
		return err
	}
	out, err := c.Result(0, kernel.TypeOf[T](), shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	p := kernel.Pair(c.In[0].Shape, x.Shape, shape)
	a, b, o := kernel.Elements[T](c.In[0]), kernel.Elements[float64](x), kernel.Elements[T](out)
	c.Each(len(o)/p.N, p.N, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			ai, bi := p.At(r)
			for i := range p.N {
				o[r*p.N+i] = raise(a[ai+i*p.IA], b[bi+i*p.IB])
			}
		}
	})
	return nil
}

// raise returns a to the power of x, for integers by exact multiplication.
func raise[T kernel.Number](a T, x float64) T {
	if !kernel.Integral[T]() || x < 0 || x != math.Trunc(x) || x > 1<<20 {
		return T(math.Pow(float64(a), x))
	}
	v := T(1)
	for i := bits.Len(uint(x)) - 1; i >= 0; i-- {
		v *= v
		if uint(x)>>i&1 == 1 {
			v *= a
		}
	}
	return v
}

// prelu computes x, or slope·x below 0; the slope is broadcast to x.
func prelu[T kernel.Number](c *kernel.Call) error {
	if err := c.Want(kernel.TypeOf[T](), 1); err != nil {
		return err
	}
	slope := c.In[1]
	if c.Opset < 7 && slope.Rank() == 1 && c.In[0].Rank() > 2 {
		return fmt.Errorf("slopes of opset %d are not supported", c.Opset)
	}
	out, err := Zip(c, c.In[0], slope, by(func(a, b T) T {
		if a < 0 {
			return a * b
		}
		return a
	}))
	c.Out[0] = out
	return err
}
