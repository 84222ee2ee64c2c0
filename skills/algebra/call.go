package algebra

import (
	"math/big"
	"slices"
)

// names maps what a text may call a function to its name.
var names = map[string]string{
	"sqrt": "sqrt", "√": "sqrt", "cbrt": "cbrt", "root": "root", "exp": "exp", "log": "log", "ln": "log", "log10": "log10", "log2": "log2", "lg": "log10",
	"sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan",
	"arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
	"abs": "abs", "floor": "floor", "ceil": "ceil", "ceiling": "ceil", "round": "round", "mod": "mod", "Mod": "mod",
	"gcd": "gcd", "lcm": "lcm", "min": "min", "max": "max", "Min": "min", "Max": "max", "factorial": "factorial", "binomial": "binomial", "comb": "binomial", "nCr": "binomial",
}

// arity returns the least and the largest number of arguments of a function.
func arity(name string) (least, most int) {
	switch name {
	case "gcd", "lcm", "min", "max":
		return 2, 64
	case "log":
		return 1, 2
	case "root", "mod", "binomial":
		return 2, 2
	}
	return 1, 1
}

// call applies a function.
func (c *calc) call(name string, a []*expr) *expr {
	if least, most := arity(name); len(a) < least || len(a) > most {
		c.fault("%s: want %d arguments, got %d", name, least, len(a))
	}
	x := a[0]
	switch name {
	case "sqrt":
		return c.sqrt(x)
	case "cbrt":
		return c.realRoot(x, 3)
	case "root":
		n, ok := a[1].small()
		if !ok || n < 1 || n > maxPower {
			c.fault("root(%s, %s): order must be an integer from 1 to 1024", show(x), show(a[1]))
		}
		return c.realRoot(x, n)
	case "exp":
		return c.pow(c.sym(euler), x)
	case "log":
		if len(a) == 2 {
			return c.div(c.log(x), c.log(a[1]))
		}
		return c.log(x)
	case "log10":
		return c.div(c.log(x), c.log(c.int(10)))
	case "log2":
		return c.div(c.log(x), c.log(c.int(2)))
	case "sin", "cos", "tan":
		return c.trig(name, x)
	case "asin", "acos", "atan", "sinh", "cosh", "tanh":
		return c.atZero(name, x)
	}
	if slices.ContainsFunc(a, func(e *expr) bool { return e.kind != number }) {
		return c.open(name, a)
	}
	return c.evalNumbers(name, a)
}

// open returns a function of unknowns unevaluated, floorOf from signs, factors
// and rounding.
func (c *calc) open(name string, a []*expr) *expr {
	if name == "abs" {
		k, rest := c.split(a[0])
		if v, ok := decimal(a[0], nil); ok && len(unknowns(a[0])) == 0 && imag(v) == 0 {
			if real(v) < 0 {
				return c.neg(a[0])
			}
			return a[0]
		}
		if !unitSize(k) || k.Sign() < 0 {
			return c.mul(c.rat(new(big.Rat).Abs(k)), c.node(function, "abs", []*expr{rest}))
		}
	}
	if v, ok := decimal(c.node(function, name, a), nil); ok && imag(v) == 0 && (name == "floor" || name == "ceil" || name == "round") && real(v) > -1e15 && real(v) < 1e15 {
		return c.int(int64(real(v)))
	}
	return c.node(function, name, a)
}

// realRoot returns the real n-th root, or the principal one if there is no
// real one.
func (c *calc) realRoot(x *expr, n int64) *expr {
	if k, rest := c.split(x); n%2 == 1 && k.Sign() < 0 {
		return c.neg(c.pow(c.mul(c.rat(new(big.Rat).Neg(k)), rest), c.rat(big.NewRat(1, n))))
	}
	return c.pow(x, c.rat(big.NewRat(1, n)))
}

// log returns the natural logarithm; for a positive number, as a sum over its
// primes.
func (c *calc) log(x *expr) *expr {
	switch {
	case x.is(0):
		c.fault("log(0) has no value")
	case x.is(1):
		return c.int(0)
	case x.kind == symbol && x.name == euler:
		return c.int(1)
	case x.kind == power && x.args[0].kind == symbol && x.args[0].name == euler && x.args[1].kind == number:
		return x.args[1]
	case x.kind == power && x.args[0].kind == number && x.args[0].num.Sign() > 0 && x.args[1].kind == number:
		return c.mul(x.args[1], c.log(x.args[0]))
	case x.kind != number || x.num.Sign() < 0:
		return c.node(function, "log", []*expr{x})
	}
	var terms []*expr
	for i, n := range []*big.Int{x.num.Num(), x.num.Denom()} {
		for _, f := range c.primes(n) {
			atom := c.node(function, "log", []*expr{c.rat(new(big.Rat).SetInt(f.p))})
			terms = append(terms, c.mul(c.int(int64(1-2*i)*f.times), atom))
		}
	}
	return c.add(terms...)
}

// trig evaluates sin, cos or tan at multiples of pi/12 with simple values, and
// normalizes the sign of the argument.
func (c *calc) trig(name string, x *expr) *expr {
	k, rest := c.split(x)
	if x.is(0) || rest.kind == symbol && rest.name == pi {
		if r := c.angle(name, k); r != nil {
			return r
		}
	}
	if k.Sign() < 0 {
		f := c.node(function, name, []*expr{c.neg(x)})
		if name == "cos" {
			return f
		}
		return c.neg(f)
	}
	return c.node(function, name, []*expr{x})
}

// angle returns sin, cos or tan of k*pi, or nil if it has no simple value.
func (c *calc) angle(name string, k *big.Rat) *expr {
	twelfths := new(big.Rat).Mul(k, intRat(12))
	if !twelfths.IsInt() {
		return nil
	}
	n := int(new(big.Int).Mod(twelfths.Num(), big.NewInt(24)).Int64())
	if name == "tan" {
		s, co := c.angle("sin", k), c.angle("cos", k)
		if s == nil || co == nil {
			return nil
		}
		if co.is(0) {
			c.fault("tan(%s*pi) has no value", shorten(k.RatString()))
		}
		return c.div(s, co)
	}
	if name == "cos" {
		n = (n + 6) % 24
	}
	sign := int64(1)
	if n >= 12 {
		n, sign = n-12, -1
	}
	if n > 6 {
		n = 12 - n
	}
	half := big.NewRat(sign, 2)
	switch n {
	case 0:
		return c.int(0)
	case 2:
		return c.rat(half)
	case 3:
		return c.mul(c.rat(half), c.sqrt(c.int(2)))
	case 4:
		return c.mul(c.rat(half), c.sqrt(c.int(3)))
	case 6:
		return c.int(sign)
	}
	return nil
}

// atZero evaluates some functions at 0 and 1.
func (c *calc) atZero(name string, x *expr) *expr {
	switch {
	case x.is(0) && name == "cosh":
		return c.int(1)
	case x.is(0) && name == "acos":
		return c.mul(c.rat(big.NewRat(1, 2)), c.sym(pi))
	case x.is(0):
		return x
	case x.is(1) && name == "acos":
		return c.int(0)
	case x.is(1) && name == "asin":
		return c.mul(c.rat(big.NewRat(1, 2)), c.sym(pi))
	case x.is(1) && name == "atan":
		return c.mul(c.rat(big.NewRat(1, 4)), c.sym(pi))
	}
	return c.node(function, name, []*expr{x})
}

// evalNumbers applies a function to numbers.
func (c *calc) evalNumbers(name string, a []*expr) *expr {
	x := a[0].num
	switch name {
	case "abs":
		return c.rat(new(big.Rat).Abs(x))
	case "floor":
		n, _ := floorOf(x)
		return c.rat(new(big.Rat).SetInt(n))
	case "ceil":
		n, _ := floorOf(new(big.Rat).Neg(x))
		return c.rat(new(big.Rat).SetInt(n.Neg(n)))
	case "round": // halves away from zero
		n, _ := floorOf(new(big.Rat).Add(new(big.Rat).Abs(x), big.NewRat(1, 2)))
		if x.Sign() < 0 {
			n.Neg(n)
		}
		return c.rat(new(big.Rat).SetInt(n))
	case "min", "max":
		best := a[0]
		for _, e := range a[1:] {
			if d := e.num.Cmp(best.num); d < 0 && name == "min" || d > 0 && name == "max" {
				best = e
			}
		}
		return best
	case "mod":
		q := c.over(x, a[1].num)
		floor, _ := floorOf(q)
		return c.rat(new(big.Rat).Sub(x, c.times(a[1].num, new(big.Rat).SetInt(floor))))
	}
	return c.integers(name, a)
}

// integers applies a function to integers.
func (c *calc) integers(name string, a []*expr) *expr {
	for _, e := range a {
		if !e.num.IsInt() {
			c.fault("%s: %s is not an integer", name, shorten(e.key))
		}
	}
	x := new(big.Int).Set(a[0].num.Num())
	switch name {
	case "gcd", "lcm":
		x.Abs(x)
		for _, e := range a[1:] {
			y := new(big.Int).Abs(e.num.Num())
			g := new(big.Int).GCD(nil, nil, x, y)
			c.step(1 + x.BitLen()/8)
			if name == "gcd" || g.Sign() == 0 {
				x = g
				continue
			}
			x = c.fits(new(big.Rat).SetInt(new(big.Int).Mul(x, y.Quo(y, g)))).Num()
		}
		return c.rat(new(big.Rat).SetInt(x))
	}
	n, ok := a[0].small()
	if !ok || n < 0 || n > maxPower {
		c.fault("%s of %s: want 0 to %d", name, shorten(a[0].key), maxPower)
	}
	k := n
	if name == "binomial" {
		if k, ok = a[1].small(); !ok || k < 0 || k > n {
			return c.int(0)
		}
		c.step(int(n) * 8)
		return c.rat(new(big.Rat).SetInt(new(big.Int).Binomial(n, k)))
	}
	c.step(int(n) * 8)
	return c.rat(new(big.Rat).SetInt(new(big.Int).MulRange(1, n)))
}
