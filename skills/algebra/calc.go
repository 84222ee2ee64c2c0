package algebra

import (
	"math/big"

	"mm-abi.org/mm/skills/sandbox"
)

// Limits of one calculation. Exceeding one is a fault of kind Args that names
// it.
const (
	maxText   = 4096    // bytes of an expression
	maxLevel  = 64      // nested brackets and signs
	maxBits   = 1 << 13 // of a numerator or a denominator
	maxPower  = 1 << 10 // of a computed exponent
	maxTerms  = 4000    // of a polynomial
	maxAtoms  = 24      // symbols, roots and functions in one polynomial
	maxDegree = 32      // of an equation
	maxNames  = 16      // unknowns of a system
)

// meter is charged for the calculation; a builtin.Call is one.
type meter interface {
	Step(n int64) error
	Hold(n int64) error
}

// calc is one calculation. Its methods end it by a panic with a stop if the
// meter, a limit or the rules of arithmetic require it; attempt recovers.
type calc struct {
	m     meter
	level int // depth of the tree being walked
}

// stop is the panic value that ends a calculation.
type stop struct{ err error }

// attempt calls f and returns the error that ended it.
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

// fault ends the calculation with a fault of kind Args.
func (c *calc) fault(format string, args ...any) {
	panic(stop{sandbox.Faultf(sandbox.Args, format, args...)})
}

// deeper enters a level of a tree; the function it returns leaves it.
func (c *calc) deeper() func() {
	if c.level++; c.level > 4*maxLevel {
		c.fault("expression nested too deeply")
	}
	return func() { c.level-- }
}

// fits charges for a number and returns it, unless it exceeds maxBits.
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

// over returns a/b.
func (c *calc) over(a, b *big.Rat) *big.Rat {
	if b.Sign() == 0 {
		c.fault("division by zero")
	}
	return c.fits(new(big.Rat).Quo(a, b))
}

// raise returns b^e, after checking the size of the result.
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

func intRat(n int64) *big.Rat { return big.NewRat(n, 1) }

// unitSize reports whether a number is 1 or -1.
func unitSize(r *big.Rat) bool { return r.IsInt() && r.Num().CmpAbs(big.NewInt(1)) == 0 }
