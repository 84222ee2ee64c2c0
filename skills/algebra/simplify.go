package algebra

import "math/big"

// simplify returns the shortest of several equal forms: e itself, one reduced
// fraction, and fractions with tangents and squares of cosines replaced.
func (c *calc) simplify(e *expr) *expr {
	best := e
	try := func(f func() *expr) {
		held := c.level
		var other *expr
		err := attempt(func() { other = f() })
		c.level = held
		if err != nil {
			c.alive()
			return
		}
		if len(show(other)) <= len(show(best)) {
			best = other
		}
	}
	if r := c.together(e, false); r != nil { // its faults are faults of the expression
		if len(show(r)) <= len(show(best)) {
			best = r
		}
	}
	if c.trigonometric(e) {
		try(func() *expr { return c.together(c.tangents(e), false) })
		try(func() *expr { return c.together(c.tangents(e), true) })
	}
	return best
}

// alive ends the calculation if its time or memory is used up.
func (c *calc) alive() { c.step(1 << 10); c.hold(0) }

// together returns an expression as one reduced fraction; if circle, cos(u)^2
// is 1 - sin(u)^2.
func (c *calc) together(e *expr, circle bool) *expr {
	r := c.newRing(e)
	if circle {
		for i, a := range r.atoms {
			if a.kind != function || a.name != "cos" {
				continue
			}
			if j, ok := r.at[c.call("sin", a.args).key]; ok {
				r.folds[i] = fold{2, r.add(r.constant(intRat(1)), r.atom(j, 2), intRat(-1))}
			}
		}
	}
	return r.over(r.reduce(r.ratio(e)))
}

func (c *calc) trigonometric(e *expr) bool {
	if e.kind == function && (e.name == "sin" || e.name == "cos" || e.name == "tan") {
		return true
	}
	for _, a := range e.args {
		if c.trigonometric(a) {
			return true
		}
	}
	return false
}

// tangents rewrites tan as sin/cos.
func (c *calc) tangents(e *expr) *expr {
	if e.kind == function && e.name == "tan" {
		return c.div(c.call("sin", e.args), c.call("cos", e.args))
	}
	return c.rebuild(e, c.tangents)
}

// expand multiplies out.
func (c *calc) expand(e *expr) *expr {
	r := c.newRing(e)
	q := r.ratio(e)
	if _, ok := r.isConstant(q.den); ok {
		return r.over(q)
	}
	q = r.reduce(q)
	var terms []*expr
	den := r.expr(q.den)
	for _, k := range sortedKeys(q.num) {
		terms = append(terms, c.div(r.expr(poly{k: q.num[k]}), den))
	}
	return c.add(terms...)
}

// diff returns the derivative of e by a symbol.
func (c *calc) diff(e *expr, x string) *expr {
	defer c.deeper()()
	if !e.has(x) {
		return c.int(0)
	}
	switch e.kind {
	case symbol:
		return c.int(1)
	case sum:
		return c.rebuild(e, func(a *expr) *expr { return c.diff(a, x) })
	case product:
		var terms []*expr
		for i, f := range e.args {
			if f.has(x) {
				rest := append(append([]*expr{c.diff(f, x)}, e.args[:i]...), e.args[i+1:]...)
				terms = append(terms, c.mul(rest...))
			}
		}
		return c.add(terms...)
	case power:
		b, n := e.args[0], e.args[1]
		var terms []*expr
		if b.has(x) {
			terms = append(terms, c.mul(n, c.pow(b, c.sub(n, c.int(1))), c.diff(b, x)))
		}
		if n.has(x) {
			terms = append(terms, c.mul(e, c.log(b), c.diff(n, x)))
		}
		return c.add(terms...)
	}
	u := e.args[0]
	return c.mul(c.outer(e.name, u), c.diff(u, x))
}

// outer returns the derivative of a function at u.
func (c *calc) outer(name string, u *expr) *expr {
	one, two := c.int(1), c.int(2)
	switch name {
	case "sin":
		return c.call("cos", []*expr{u})
	case "cos":
		return c.neg(c.call("sin", []*expr{u}))
	case "tan":
		return c.add(c.pow(c.call("tan", []*expr{u}), two), one)
	case "log":
		return c.div(one, u)
	case "asin":
		return c.div(one, c.sqrt(c.sub(one, c.pow(u, two))))
	case "acos":
		return c.neg(c.div(one, c.sqrt(c.sub(one, c.pow(u, two)))))
	case "atan":
		return c.div(one, c.add(one, c.pow(u, two)))
	case "sinh":
		return c.call("cosh", []*expr{u})
	case "cosh":
		return c.call("sinh", []*expr{u})
	case "tanh":
		return c.sub(one, c.pow(c.call("tanh", []*expr{u}), two))
	case "abs":
		return c.div(u, c.call("abs", []*expr{u}))
	}
	c.fault("the derivative of %s is not supported", name)
	return nil
}

// compare decides a relation between two numbers; ok is false if it cannot.
func (c *calc) compare(sign string, a, b *expr) (holds, ok bool) {
	d := c.simplify(c.sub(a, b))
	order := 0
	switch v, finite := decimal(d, nil); {
	case d.kind == number:
		order = d.num.Sign()
	case !finite || imag(v) != 0 || len(unknowns(d)) > 0 || real(v) > -1e-9 && real(v) < 1e-9:
		return false, false
	default:
		order = big.NewFloat(real(v)).Sign()
	}
	switch sign {
	case "=", "==":
		return order == 0, true
	case "!=", "≠":
		return order != 0, true
	case "<":
		return order < 0, true
	case "<=", "≤":
		return order <= 0, true
	case ">":
		return order > 0, true
	}
	return order >= 0, true
}
