package algebra

import (
	"math/big"

	"mm-abi.org/mm/skills/sandbox"
)

// Bounds of one calculation. What goes over one is a fault of kind Args that
// says which.
const (
	maxText   = 4096    // bytes of an expression
	maxLevel  = 64      // brackets and signs within each other
	maxBits   = 1 << 13 // of a numerator or denominator
	maxPower  = 1 << 10 // of an exponent that is worked out
	maxTerms  = 4000    // of a polynomial
	maxAtoms  = 24      // symbols, roots and functions in one polynomial
	maxDegree = 32      // of an equation
	maxNames  = 16      // unknowns of a system
)

// meter is what the calculation is charged to; a builtin.Call is one.
type meter interface {
	Step(n int64) error
	Hold(n int64) error
}

// calc is one calculation. Its methods end by a panic with a stop when the
// meter, a bound or the rules of arithmetic say so; attempt catches it.
type calc struct {
	m     meter
	level int // of the tree that is being walked
}

// stop ends a calculation.
type stop struct{ err error }

// attempt does f and gives what ended it.
func attempt(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stop:
			err = r.err
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

func (c *calc) step(n int) {
	if err := c.m.Step(int64(n)); err != nil {
		panic(stop{err})
	}
}

func (c *calc) hold(n int) {
	if err := c.m.Hold(int64(n)); err != nil {
		panic(stop{err})
	}
}

// fault ends the calculation: the arguments are at fault.
func (c *calc) fault(format string, args ...any) {
	panic(stop{sandbox.Faultf(sandbox.Args, format, args...)})
}

// deeper counts a level of a tree; the function it gives leaves it again.
func (c *calc) deeper() func() {
	if c.level++; c.level > 4*maxLevel {
		c.fault("the expression is nested too deeply")
	}
	return func() { c.level-- }
}

// fits gives back a number that is within maxBits, and charges for it.
func (c *calc) fits(r *big.Rat) *big.Rat {
	n := max(r.Num().BitLen(), r.Denom().BitLen())
	if n > maxBits {
		c.fault("a number has more than %d digits", maxBits*3/10)
	}
	c.step(1 + n/64)
	return r
}

func (c *calc) plus(a, b *big.Rat) *big.Rat  { return c.fits(new(big.Rat).Add(a, b)) }
func (c *calc) times(a, b *big.Rat) *big.Rat { return c.fits(new(big.Rat).Mul(a, b)) }

// over divides.
func (c *calc) over(a, b *big.Rat) *big.Rat {
	if b.Sign() == 0 {
		c.fault("division by zero")
	}
	return c.fits(new(big.Rat).Quo(a, b))
}

// raise is b to the power e, which is judged before it is worked out.
func (c *calc) raise(b *big.Rat, e int64) *big.Rat {
	if b.Sign() == 0 {
		switch {
		case e < 0:
			c.fault("division by zero")
		case e == 0:
			c.fault("0^0 has no value")
		}
		return new(big.Rat)
	}
	if unitSize(b) {
		if e%2 == 0 {
			return big.NewRat(1, 1)
		}
		return b
	}
	n := e
	if n < 0 {
		n = -n
	}
	bits := int64(max(b.Num().BitLen(), b.Denom().BitLen()))
	if n < 0 || n > maxBits || (bits-1)*n > maxBits {
		c.fault("a number has more than %d digits", maxBits*3/10)
	}
	num := new(big.Int).Exp(b.Num(), big.NewInt(n), nil)
	den := new(big.Int).Exp(b.Denom(), big.NewInt(n), nil)
	c.step(int(1 + n*bits/64))
	if e < 0 {
		num, den = den, num
	}
	return c.fits(new(big.Rat).SetFrac(num, den))
}

func whole(n int64) *big.Rat { return big.NewRat(n, 1) }

// unitSize says whether a number is 1 or -1.
func unitSize(r *big.Rat) bool { return r.IsInt() && r.Num().CmpAbs(big.NewInt(1)) == 0 }
