package algebra

import (
	"math/big"
	"slices"
	"strings"
)

// pow returns b^e. A power of a positive number becomes powers of primes with
// exponents between 0 and 1 and a coefficient, so that equal powers have equal
// keys.
func (c *calc) pow(b, e *expr) *expr {
	defer c.deeper()()
	n, isInt := e.small()
	switch {
	case isInt && n == 1, b.is(1):
		return b
	case isInt && n == 0:
		if b.is(0) {
			c.fault("0^0 has no value")
		}
		return c.int(1)
	case e.kind == number && e.num.IsInt() && !isInt && !b.is(0) && !b.is(-1):
		c.fault("exponent %s is too large", shorten(e.key))
	case b.is(0):
		if e.kind == number && e.num.Sign() < 0 {
			c.fault("division by zero")
		}
		if e.kind == number {
			return c.int(0)
		}
	}
	switch b.kind {
	case number:
		return c.powNumber(b, e)
	case symbol:
		if r := c.powSymbol(b, e); r != nil {
			return r
		}
	case product:
		if isInt {
			out := make([]*expr, len(b.args))
			for i, f := range b.args {
				out[i] = c.pow(f, e)
			}
			return c.mul(out...)
		}
		if k, rest := c.split(b); e.kind == number && !unitSize(k) {
			sign := c.int(int64(k.Sign()))
			return c.mul(c.pow(c.rat(new(big.Rat).Abs(k)), e), c.pow(c.mul(sign, rest), e))
		}
	case sum:
		if g := c.content(b); e.kind == number && !isInt && g.Cmp(intRat(1)) != 0 {
			return c.mul(c.pow(c.rat(g), e), c.pow(c.mul(c.rat(c.over(intRat(1), g)), b), e))
		}
	case power:
		inner := b.args[1]
		// (z^a)^b is z^(ab) for a whole b, and for -1 < a <= 1.
		if isInt || inner.kind == number && inner.num.Cmp(intRat(-1)) > 0 && inner.num.Cmp(intRat(1)) <= 0 {
			return c.pow(b.args[0], c.mul(inner, e))
		}
	}
	return c.node(power, "", []*expr{b, e})
}

// powSymbol evaluates i^n and e^(n log x); otherwise it returns nil.
func (c *calc) powSymbol(b, e *expr) *expr {
	if n, ok := e.small(); ok && b.name == imaginary {
		switch ((n % 4) + 4) % 4 {
		case 0:
			return c.int(1)
		case 1:
			return b
		case 2:
			return c.int(-1)
		}
		return c.neg(b)
	}
	if b.name != euler {
		return nil
	}
	k, rest := c.split(e)
	if rest.kind == function && rest.name == "log" {
		return c.pow(rest.args[0], c.rat(k))
	}
	return nil
}

// powNumber returns a power of a number.
func (c *calc) powNumber(b, e *expr) *expr {
	if e.kind != number {
		if list := c.primes(new(big.Int).Abs(b.num.Num())); b.num.IsInt() && b.num.Sign() > 0 && len(list) == 1 && list[0].times > 1 {
			return c.pow(c.rat(new(big.Rat).SetInt(list[0].p)), c.mul(c.int(list[0].times), e)) // 4^x is 2^(2x)
		}
		if e.kind != sum { // 2^(x+1) is 2*2^x
			return c.node(power, "", []*expr{b, e})
		}
		last := e.args[len(e.args)-1]
		if last.kind != number {
			return c.node(power, "", []*expr{b, e})
		}
		rest := c.add(e.args[:len(e.args)-1]...)
		return c.mul(c.pow(b, last), c.node(power, "", []*expr{b, rest}))
	}
	if e.num.IsInt() {
		return c.rat(c.raise(b.num, e.num.Num().Int64()))
	}
	if b.num.Sign() < 0 {
		size := c.pow(c.rat(new(big.Rat).Neg(b.num)), e)
		if e.num.Denom().Cmp(big.NewInt(2)) == 0 {
			return c.mul(size, c.pow(c.sym(imaginary), c.mul(e, c.int(2))))
		}
		floor, frac := floorOf(e.num)
		if floor.Bit(0) == 1 {
			size = c.neg(size)
		}
		return c.mul(size, c.node(power, "", []*expr{c.int(-1), c.rat(frac)}))
	}
	return c.root(b.num, e.num)
}

// floorOf returns the integer part, rounded down, and the rest.
func floorOf(r *big.Rat) (*big.Int, *big.Rat) {
	floor := new(big.Int).Div(r.Num(), r.Denom()) // Euclidean: the denominator is positive
	return floor, new(big.Rat).Sub(r, new(big.Rat).SetInt(floor))
}

// root returns a fractional power of a positive number.
func (c *calc) root(b, e *big.Rat) *expr {
	if e.Num().BitLen() > 10 || e.Denom().BitLen() > 10 {
		c.fault("exponent %s is too large", shorten(e.RatString()))
	}
	coef := intRat(1)
	var atoms []*expr
	for i, n := range []*big.Int{b.Num(), b.Denom()} {
		for _, f := range c.primes(n) {
			all := c.times(e, intRat(int64(1-2*i)*f.times))
			floor, frac := floorOf(all)
			coef = c.times(coef, c.raise(new(big.Rat).SetInt(f.p), floor.Int64()))
			if frac.Sign() != 0 {
				atoms = append(atoms, c.node(power, "", []*expr{c.rat(new(big.Rat).SetInt(f.p)), c.rat(frac)}))
			}
		}
	}
	slices.SortFunc(atoms, func(a, b *expr) int { return strings.Compare(a.key, b.key) })
	if len(atoms) == 0 {
		return c.rat(coef)
	}
	rest := atoms[0]
	if len(atoms) > 1 {
		rest = c.node(product, "", atoms)
	}
	return c.scaleTerm(coef, rest)
}

// factorOf is a divisor and its multiplicity.
type factorOf struct {
	p     *big.Int
	times int64
}

// trial is the limit of trial division. A larger remainder is only checked for
// being a power.
const trial = 1000

// primes factors a positive number by trial division.
func (c *calc) primes(n *big.Int) []factorOf {
	n = new(big.Int).Set(n)
	var out []factorOf
	q, r := new(big.Int), new(big.Int)
	for d := int64(2); d < trial && n.BitLen() > 1; d++ {
		p := big.NewInt(d)
		c.step(1 + n.BitLen()/64)
		times := int64(0)
		for {
			if q.QuoRem(n, p, r); r.Sign() != 0 {
				break
			}
			n.Set(q)
			times++
			c.step(1 + n.BitLen()/64)
		}
		if times > 0 {
			out = append(out, factorOf{p, times})
		}
	}
	if n.BitLen() <= 1 {
		return out
	}
	for k := int64(2); k <= int64(n.BitLen())/9; k++ { // divisors exceed 2^9
		if p, ok := c.exactRoot(n, k); ok {
			for _, f := range c.primes(p) {
				out = append(out, factorOf{f.p, f.times * k})
			}
			return out
		}
	}
	return append(out, factorOf{n, 1})
}

// exactRoot returns the k-th root of n if it is an integer.
func (c *calc) exactRoot(n *big.Int, k int64) (*big.Int, bool) {
	x := new(big.Int).Lsh(big.NewInt(1), uint(int64(n.BitLen())/k+1))
	if k == 2 {
		x.Sqrt(n)
		return x, new(big.Int).Mul(x, x).Cmp(n) == 0
	}
	kk, less := big.NewInt(k), big.NewInt(k-1)
	for { // Newton from above
		c.step(8 + int(k)*n.BitLen()/256)
		y := new(big.Int).Exp(x, less, nil)
		y.Quo(n, y)
		y.Add(y, new(big.Int).Mul(x, less)).Quo(y, kk)
		if y.Cmp(x) >= 0 {
			return x, new(big.Int).Exp(x, kk, nil).Cmp(n) == 0
		}
		x = y
	}
}

// content returns the positive common divisor of the coefficients of a sum.
func (c *calc) content(e *expr) *big.Rat {
	num, den := new(big.Int), big.NewInt(1)
	for _, t := range e.args {
		k, _ := c.split(t)
		num.GCD(nil, nil, num, new(big.Int).Abs(k.Num()))
		g := new(big.Int).GCD(nil, nil, den, k.Denom())
		den.Mul(den, new(big.Int).Quo(k.Denom(), g))
		c.step(2 + den.BitLen()/64)
	}
	return c.fits(new(big.Rat).SetFrac(num, den))
}

// shorten truncates a text for a message.
func shorten(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
