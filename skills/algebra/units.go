package algebra

import (
	"encoding/json"
	"math/big"
)

// convert returns the number of a quantity in a unit.
func (c *calc) convert(text, to string) any {
	if to == "" {
		c.fault("missing unit, want for example convert km")
	}
	clauses, _ := c.parse(text, true)
	target, _ := c.parse(to, true)
	if len(clauses) != 1 || len(target) != 1 || clauses[0].sign != "" || target[0].sign != "" {
		c.fault("want one quantity and one unit")
	}
	if v, ok := c.temperature(clauses[0].left, target[0].left); ok {
		return v
	}
	q, u := c.quantity(clauses[0].left), c.quantity(target[0].left)
	if q.Dim != u.Dim {
		if v, ok := c.degrees(clauses[0].left, target[0].left, true); ok {
			return v
		}
		c.fault("%s is %s and %s is %s", shorten(text), q.Dim, shorten(to), u.Dim)
	}
	return formatRat(c.over(q.Size, u.Size))
}

// temperature converts between scales with different zeros, such as 20 °C.
func (c *calc) temperature(t, to *tree) (json.Number, bool) { return c.degrees(t, to, false) }

// degrees converts a number of degrees; if short, C and F are degrees too.
func (c *calc) degrees(t, to *tree, short bool) (json.Number, bool) {
	v, name, ok := c.plain(t)
	if !ok || to.op != "name" {
		return "", false
	}
	from, ok := scaleNamed(name, short)
	into, okInto := scaleNamed(to.name, short)
	if !ok || !okInto || from == kelvin && into == kelvin {
		return "", false
	}
	return formatRat(c.fits(convertScale(v, from, into))), true
}

// plain returns the number and the unit of a term such as -40 degC.
func (c *calc) plain(t *tree) (*big.Rat, string, bool) {
	if t.op == "neg" {
		v, name, ok := c.plain(t.args[0])
		if !ok {
			return nil, "", false
		}
		return new(big.Rat).Neg(v), name, true
	}
	if t.op != "*" || t.args[1].op != "name" {
		return nil, "", false
	}
	n := t.args[0]
	if n.op == "neg" {
		n = n.args[0]
	}
	if n.op != "num" {
		return nil, "", false
	}
	if n != t.args[0] {
		return new(big.Rat).Neg(n.num), t.args[1].name, true
	}
	return n.num, t.args[1].name, true
}

// consistent reports whether the terms of sums and comparisons have one
// dimension each.
func (c *calc) consistent(text string) bool {
	clauses, _ := c.parse(text, true)
	same := true
	for _, q := range clauses {
		left, ok := c.dimension(q.left)
		same = same && ok
		if q.right != nil {
			right, ok := c.dimension(q.right)
			same = same && ok && left == right
		}
	}
	return same
}

// dimension returns the dimension of a tree; ok is false if unlike terms are
// added in it.
func (c *calc) dimension(t *tree) (d dim, ok bool) {
	defer c.deeper()()
	c.step(4)
	switch t.op {
	case "+", "-", "mod":
		a, okA := c.dimension(t.args[0])
		b, okB := c.dimension(t.args[1])
		return a, okA && okB && a == b
	case "num":
		return d, true
	case "name":
		return c.unit(t.name).Dim, true
	case "neg", "%", "!":
		return c.dimension(t.args[0])
	case "*", "/":
		a, okA := c.dimension(t.args[0])
		b, okB := c.dimension(t.args[1])
		if t.op == "/" {
			b = b.Times(-1)
		}
		return c.checkDim(a.Plus(b)), okA && okB
	case "^":
		a, okA := c.dimension(t.args[0])
		return c.raiseDim(a, c.unitPower(t.args[1])), okA
	}
	c.fault("%s is not allowed with units", t.name)
	return d, false
}

// quantity evaluates a tree of numbers, units and + - * / ^.
func (c *calc) quantity(t *tree) quantity {
	defer c.deeper()()
	c.step(8)
	switch t.op {
	case "num":
		return quantity{Size: t.num}
	case "name":
		return c.unit(t.name)
	case "neg":
		q := c.quantity(t.args[0])
		return quantity{Size: new(big.Rat).Neg(q.Size), Dim: q.Dim}
	case "%":
		q := c.quantity(t.args[0])
		return quantity{Size: c.times(q.Size, big.NewRat(1, 100)), Dim: q.Dim}
	case "+", "-":
		a, b := c.quantity(t.args[0]), c.quantity(t.args[1])
		if a.Dim != b.Dim {
			c.fault("%s and %s cannot be added", a.Dim, b.Dim)
		}
		if t.op == "-" {
			b.Size = new(big.Rat).Neg(b.Size)
		}
		return quantity{Size: c.plus(a.Size, b.Size), Dim: a.Dim}
	case "*":
		a, b := c.quantity(t.args[0]), c.quantity(t.args[1])
		return quantity{Size: c.times(a.Size, b.Size), Dim: c.checkDim(a.Dim.Plus(b.Dim))}
	case "/":
		a, b := c.quantity(t.args[0]), c.quantity(t.args[1])
		return quantity{Size: c.over(a.Size, b.Size), Dim: c.checkDim(a.Dim.Plus(b.Dim.Times(-1)))}
	case "^":
		a, n := c.quantity(t.args[0]), c.unitPower(t.args[1])
		return quantity{Size: c.raise(a.Size, int64(n)), Dim: c.raiseDim(a.Dim, n)}
	}
	c.fault("%s is not allowed in a quantity", t.name)
	return quantity{}
}

func (c *calc) unit(name string) quantity {
	q, ok := findNamed(name)
	if !ok {
		c.fault("unknown unit %q", name)
	}
	return q
}

// unitPower returns the exponent of a unit.
func (c *calc) unitPower(t *tree) int {
	n, ok := c.build(t).small()
	if !ok || n < -64 || n > 64 {
		c.fault("exponent of a unit: want an integer from -64 to 64")
	}
	return int(n)
}

func (c *calc) raiseDim(d dim, n int) dim { return c.checkDim(d.Times(n)) }

// checkDim refuses dimensions with exponents beyond 64.
func (c *calc) checkDim(d dim) dim {
	for _, n := range d {
		if n < -64 || n > 64 {
			c.fault("exponent of a unit: got %d, want -64 to 64", n)
		}
	}
	return d
}
