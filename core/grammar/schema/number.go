package schema

import (
	"mm-abi.org/mm/core/grammar/automaton"
)

// digits is the number of decimal digits that a double preserves.
const digits = 15

// fraction is the maximum number of digits after the point.
const fraction = 9

// number adds numbers, of 15 digits so that rounding by a reader cannot cross a
// bound.
func (c *compiler) number(a alternative, kind types, from, to int32) {
	var lo, hi automaton.Bound
	var multiples []multiple
	for _, n := range a.nodes {
		lo, hi = higher(lo, n.lo), lower(hi, n.hi)
		multiples = append(multiples, n.multiples...)
	}
	integer, broken := kind == integral, kind == fractional
	for _, m := range multiples {
		integer = integer || m.places == 0
	}
	size := automaton.Digits{Integer: digits, Fraction: fraction, All: digits}
	if integer {
		size.Fraction = 0
	}
	for _, b := range []automaton.Bound{lo, hi} {
		if b.At == nil {
			continue
		}
		n := len(b.At.FloatString(0))
		if !integer && n+places(b) > digits {
			c.fault(c.of(a), "", "bound of more than %d digits of a number that may have a fraction", digits)
			return
		}
		size.Integer = min(max(size.Integer, n), 200)
	}
	d, err := automaton.Decimals(lo, hi, size)
	for _, m := range multiples {
		var of *automaton.DFA
		if of, err = multipleOf(m, err); err == nil {
			d, err = automaton.Product([]*automaton.DFA{d, of}, automaton.All)
		}
	}
	if broken && err == nil {
		var of *automaton.DFA
		if of, err = c.pattern(`[.][0-9]*[1-9]`); err == nil {
			d, err = automaton.Product([]*automaton.DFA{d, of}, automaton.All)
		}
	}
	if err != nil {
		c.fault(c.of(a), "", "its bounds and multipleOf together: %v", err)
		return
	}
	if d.Empty() {
		c.hint(c.of(a), "no number is within its bounds")
		return
	}
	begin := c.b.Node()
	c.b.Empty(from, begin)
	power := c.power(!integer && !broken && lo.At == nil && hi.At == nil && multiples == nil, to)
	d.Build(&c.b, begin, automaton.Plain, func(at int32, _ int) {
		c.b.Empty(at, to)
		if power >= 0 {
			c.b.Empty(at, power)
		}
	})
}

func multipleOf(m multiple, err error) (*automaton.DFA, error) {
	if err != nil {
		return nil, err
	}
	return automaton.Multiples(m.of, m.places)
}

// places returns the number of digits of a bound after the point.
func places(b automaton.Bound) int {
	n, exact := b.At.FloatPrec()
	if !exact {
		return digits
	}
	return n
}

// power returns a node from which an exponent of one or two digits leads to
// another, or -1 if disabled.
func (c *compiler) power(enabled bool, to int32) int32 {
	if !enabled {
		return -1
	}
	at, sign, first, second := c.b.Node(), c.b.Node(), c.b.Node(), c.b.Node()
	c.b.Bytes(at, 'e', 'e', sign)
	c.b.Bytes(at, 'E', 'E', sign)
	c.b.Bytes(sign, '+', '+', first)
	c.b.Bytes(sign, '-', '-', first)
	c.b.Empty(sign, first)
	c.b.Bytes(first, '0', '9', second)
	c.b.Empty(second, to)
	c.b.Bytes(second, '0', '9', to)
	return at
}
