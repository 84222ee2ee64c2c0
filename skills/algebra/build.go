package algebra

import "math/big"

// build returns the expression of a tree.
func (c *calc) build(t *tree) *expr {
	defer c.deeper()()
	args := make([]*expr, len(t.args))
	for i, a := range t.args {
		args[i] = c.build(a)
	}
	switch t.op {
	case "num":
		return c.rat(t.num)
	case "name":
		return c.constantOrSymbol(t.name)
	case "call":
		return c.call(t.name, args)
	case "neg":
		return c.neg(args[0])
	case "!":
		if args[0].kind != number {
			c.fault("factorial of %s: want an integer", shorten(show(args[0])))
		}
		return c.integers("factorial", args)
	case "%":
		return c.mul(args[0], c.rat(big.NewRat(1, 100)))
	case "+":
		return c.add(args...)
	case "-":
		return c.sub(args[0], args[1])
	case "*":
		return c.mul(args...)
	case "/":
		return c.div(args[0], args[1])
	case "^":
		return c.pow(args[0], args[1])
	}
	return c.call(t.op, args)
}

// constantOrSymbol returns a constant or an unknown.
func (c *calc) constantOrSymbol(name string) *expr {
	switch name {
	case "e", "E":
		return c.sym(euler)
	case "pi", "Pi", "PI":
		return c.sym(pi)
	case "i", "I":
		return c.sym(imaginary)
	}
	return c.sym(name)
}
