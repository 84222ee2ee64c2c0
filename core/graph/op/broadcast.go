package op

import (
	"fmt"
	"math"
	"math/bits"

	"mm-abi.org/mm/core/graph/array"
	"mm-abi.org/mm/core/onnx"
)

// broadcast gives the shape that shapes have in common by ONNX's
// multidirectional broadcasting.
func broadcast(shapes ...[]int) ([]int, error) {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := make([]int, rank)
	for i := range out {
		out[i] = 1
	}
	for _, s := range shapes {
		for i, d := range s {
			k := rank - len(s) + i
			switch {
			case d == out[k] || d == 1:
			case out[k] == 1:
				out[k] = d
			default:
				return nil, fmt.Errorf("the shapes %v do not broadcast", shapes)
			}
		}
	}
	return out, nil
}

// stretch gives the strides by which an array of one shape is read as one of
// another that it broadcasts to.
func stretch(shape, to []int) []int {
	own, out := strides(shape), make([]int, len(to))
	for i, d := range shape {
		if d != 1 {
			out[len(to)-len(shape)+i] = own[i]
		}
	}
	return out
}

// pairing is how two arrays are walked together: rows of the innermost
// dimension, in which each goes on by 0 or 1 elements.
type pairing struct {
	shape  []int // of the outer dimensions
	sa, sb []int
	n      int // elements of a row
	ia, ib int
}

// pair merges the dimensions that both arrays walk alike.
func pair(a, b, out []int) pairing {
	sa, sb := stretch(a, out), stretch(b, out)
	var p pairing
	p.n, p.ia, p.ib = 1, 1, 1
	i := len(out) - 1
	for i >= 0 && out[i] == 1 {
		i--
	}
	if i >= 0 {
		p.n, p.ia, p.ib = out[i], sa[i], sb[i]
		for i--; i >= 0 && (out[i] == 1 || sa[i] == p.ia*p.n && sb[i] == p.ib*p.n); i-- {
			p.n *= out[i]
		}
	}
	p.shape, p.sa, p.sb = out[:i+1], sa[:i+1], sb[:i+1]
	return p
}

// at is where row r begins in both arrays.
func (p *pairing) at(r int) (a, b int) {
	for i := len(p.shape) - 1; i >= 0; i-- {
		k := r % p.shape[i]
		r /= p.shape[i]
		a += k * p.sa[i]
		b += k * p.sb[i]
	}
	return a, b
}

// zip walks two arrays and the output of c by rows.
func zip[T, R array.Elem](c *Call, x, y *Array, row func(o []R, a, b []T, ia, ib int)) (*Array, error) {
	shape, err := broadcast(x.Shape, y.Shape)
	if err != nil {
		return nil, err
	}
	out, err := c.Arena.New(typeOf[R](), shape...)
	if err != nil || out.Len() == 0 {
		return out, err
	}
	p := pair(x.Shape, y.Shape, shape)
	a, b, o := array.Of[T](x), array.Of[T](y), array.Of[R](out)
	c.each(len(o)/p.n, p.n, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			ai, bi := p.at(r)
			row(o[r*p.n:(r+1)*p.n], a[ai:], b[bi:], p.ia, p.ib)
		}
	})
	return out, nil
}

// binary is an operator on two arrays of one type, or of any number folded.
func binary[T number](row func(name string, mod bool) func(o, a, b []T, ia, ib int)) Kernel {
	return func(c *Call) error {
		f := row(c.Node.Op, c.int("fmod", 0) != 0)
		if f == nil {
			return fmt.Errorf("%s is not supported", c.In[0].Type)
		}
		acc := c.In[0].View(c.In[0].Shape)
		for i := 1; i < len(c.In); i++ {
			if c.In[i] == nil || c.In[i].Type != typeOf[T]() {
				return fmt.Errorf("input %d is not of %s", i, typeOf[T]())
			}
			next, err := zip(c, acc, c.In[i], f)
			c.Arena.Release(acc)
			if err != nil {
				return err
			}
			acc = next
		}
		if c.Node.Op == "Mean" && len(c.In) > 1 {
			n := T(len(c.In))
			for i, v := range array.Of[T](acc) {
				array.Of[T](acc)[i] = v / n
			}
		}
		c.Out[0] = acc
		return nil
	}
}

func arithmetic[T number](name string, fmod bool) func(o, a, b []T, ia, ib int) {
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

func by[T, R array.Elem](f func(a, b T) R) func(o []R, a, b []T, ia, ib int) {
	return func(o []R, a, b []T, ia, ib int) {
		for i := range o {
			o[i] = f(a[i*ia], b[i*ib])
		}
	}
}

func addRow[T number](o, a, b []T, ia, ib int) {
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

func mulRow[T number](o, a, b []T, ia, ib int) {
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

// whole reports whether T is a type of whole numbers.
func whole[T number]() bool { var one T = 1; return one/2 == 0 }

// divide is a/b; a whole number over 0 is 0, as nothing may end a run.
func divide[T number](a, b T) T {
	if whole[T]() && b == 0 {
		return 0
	}
	return a / b
}

// modulo has the sign of b, or with fmod that of a, as in C.
func modulo[T number](a, b T, fmod bool) T {
	if !whole[T]() {
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

// compare is an operator from numbers to truth.
func compare[T number](c *Call) error {
	if err := c.want(typeOf[T](), 1); err != nil {
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
	out, err := zip(c, c.In[0], c.In[1], by(f))
	c.Out[0] = out
	return err
}

// logic is an operator on truth.
func logic(c *Call) error {
	if err := c.want(onnx.BOOL, 0, 1); err != nil {
		return err
	}
	var f func(a, b bool) bool
	switch c.Node.Op {
	case "And":
		f = func(a, b bool) bool { return a && b }
	case "Or":
		f = func(a, b bool) bool { return a || b }
	default: // Xor, and not Equal
		equal := c.Node.Op == "Equal"
		f = func(a, b bool) bool { return (a == b) == equal }
	}
	out, err := zip(c, c.In[0], c.In[1], by(f))
	c.Out[0] = out
	return err
}

// equal compares numbers or truth.
func equal(c *Call) error {
	if c.In[0].Type == onnx.BOOL {
		return logic(c)
	}
	return comparison.by(0)(c)
}

// integer are the whole numbers.
type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// bitwise is an operator on the bits of whole numbers.
func bitwise[T integer](c *Call) error {
	if err := c.want(typeOf[T](), 1); err != nil {
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
	case c.text("direction", "") == "LEFT":
		f = func(a, b T) T { return a << (uint64(b) & 255) }
	default:
		f = func(a, b T) T { return a >> (uint64(b) & 255) }
	}
	out, err := zip(c, c.In[0], c.In[1], by(f))
	c.Out[0] = out
	return err
}

// power raises to exponents of another type, if need be.
func power[T number](c *Call) error {
	if done, err := raised(c); done || err != nil {
		return err
	}
	x, err := c.cast(c.In[1], onnx.DOUBLE)
	if err != nil {
		return err
	}
	defer c.Arena.Release(x)
	shape, err := broadcast(c.In[0].Shape, x.Shape)
	if err != nil {
		return err
	}
	out, err := c.result(0, typeOf[T](), shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	p := pair(c.In[0].Shape, x.Shape, shape)
	a, b, o := array.Of[T](c.In[0]), array.Of[float64](x), array.Of[T](out)
	c.each(len(o)/p.n, p.n, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			ai, bi := p.at(r)
			for i := range p.n {
				o[r*p.n+i] = raise(a[ai+i*p.ia], b[bi+i*p.ib])
			}
		}
	})
	return nil
}

// raise is a to the x: whole numbers by multiplication, which is exact.
func raise[T number](a T, x float64) T {
	if !whole[T]() || x < 0 || x != math.Trunc(x) || x > 1<<20 {
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

// prelu is x, or slope·x below 0; the slope broadcasts to x alone.
func prelu[T number](c *Call) error {
	if err := c.want(typeOf[T](), 1); err != nil {
		return err
	}
	slope := c.In[1]
	if c.Opset < 7 && slope.Rank() == 1 && c.In[0].Rank() > 2 {
		return fmt.Errorf("slopes of opset %d are not supported", c.Opset)
	}
	out, err := zip(c, c.In[0], slope, by(func(a, b T) T {
		if a < 0 {
			return a * b
		}
		return a
	}))
	c.Out[0] = out
	return err
}
