package algebra

import (
	"math/big"
	"math/cmplx"
	"slices"
)

// value is a solution: exact, or decimal if exact is nil.
type value struct {
	exact *expr
	near  complex128
}

// solution holds the solutions of an equation.
type solution struct {
	every  bool // number is a solution
	values []value
}

// solve returns the values of x for which e is 0.
func (c *calc) solve(e *expr, x string) solution {
	s := c.zeros(e, x, 0)
	if s.every {
		return s
	}
	kept := s.values[:0]
	seen := map[string]bool{}
	for _, v := range s.values {
		if v.exact != nil && seen[v.exact.key] || !c.proves(e, x, v) {
			continue
		}
		if v.exact != nil {
			seen[v.exact.key] = true
		}
		kept = append(kept, v)
	}
	slices.SortStableFunc(kept, func(a, b value) int {
		va, okA := a.at(nil)
		vb, okB := b.at(nil)
		if !okA || !okB {
			return 0
		}
		return inOrder(clean(va), clean(vb))
	})
	return solution{values: kept}
}

// clean removes an imaginary part that is rounding noise.
func clean(v complex128) complex128 {
	if s := cmplx.Abs(v); imag(v) < 1e-12*s && imag(v) > -1e-12*s {
		return complex(real(v), 0)
	}
	return v
}

func (v value) at(env map[string]complex128) (complex128, bool) {
	if v.exact == nil {
		return v.near, true
	}
	return decimal(v.exact, env)
}

// proves reports whether a solution satisfies the equation in double
// precision; other unknowns get arbitrary values.
func (c *calc) proves(e *expr, x string, v value) bool {
	env := arbitrary(unknowns(e))
	at, ok := v.at(env)
	if !ok {
		return false
	}
	env[x] = at
	return c.vanishes(e, env)
}

// satisfies reports whether a solution of a system makes each equation 0, in
// double precision: one that divides by 0 is not a solution.
func (c *calc) satisfies(eqs []*expr, s map[string]*expr) bool {
	env := arbitrary(unknowns(eqs...))
	for name, e := range s {
		v, ok := decimal(e, env)
		if !ok {
			return false
		}
		env[name] = v
	}
	return !slices.ContainsFunc(eqs, func(e *expr) bool { return !c.vanishes(e, env) })
}

// arbitrary assigns values to unknowns.
func arbitrary(names []string) map[string]complex128 {
	env := map[string]complex128{}
	for i, name := range names {
		env[name] = complex(1.37+0.61*float64(i), 0)
	}
	return env
}

// vanishes reports whether e is 0 in env, but for rounding.
func (c *calc) vanishes(e *expr, env map[string]complex128) bool {
	terms := []*expr{e}
	if e.kind == sum {
		terms = e.args
	}
	size, total := 0.0, complex128(0)
	for _, t := range terms {
		y, ok := decimal(t, env)
		if !ok {
			return false
		}
		total += y
		size += cmplx.Abs(y)
	}
	c.step(len(terms) * 16)
	return cmplx.Abs(total) <= 1e-7*size || size < 1e-12
}

// zeros returns candidates; solve keeps those that are right.
func (c *calc) zeros(e *expr, x string, round int) solution {
	defer c.deeper()()
	if round > 6 {
		c.fault("this kind of equation is not supported")
	}
	r := c.newRing(e)
	num := r.reduce(r.ratio(e)).num
	var on []int // atoms with x
	for i, a := range r.atoms {
		if a.has(x) && num.degree(i) > 0 {
			on = append(on, i)
		}
	}
	switch len(on) {
	case 0:
		return solution{every: len(num) == 0}
	case 1:
		a := r.atoms[on[0]]
		values := c.polynomial(r, r.coefs(num, on[0]))
		if a.kind == symbol {
			return solution{values: values}
		}
		var out []value
		for _, v := range values {
			out = append(out, c.invert(a, v, x, round)...)
		}
		return solution{values: out}
	}
	for i := len(on) - 1; i >= 0; i-- {
		k := on[i]
		f, ok := r.folds[k]
		if a := r.atoms[k]; a.kind == function && a.name == "abs" {
			u := r.ratio(c.pow(a.args[0], c.int(2)))
			f, ok = fold{2, u.num}, len(u.den) == 1
		}
		if !ok || f.power != 2 {
			continue
		}
		// A + B s = 0 has its solutions among those of A^2 - B^2 s^2.
		cs := r.coefs(num, k)
		for len(cs) < 3 {
			cs = append(cs, poly{})
		}
		a := r.add(cs[0], r.mul(cs[2], f.value), intRat(1))
		free := r.add(r.mul(a, a), r.mul(r.mul(cs[1], cs[1]), f.value), intRat(-1))
		if len(cs) > 3 {
			break
		}
		return c.zeros(r.expr(free), x, round+1)
	}
	c.fault("this kind of equation is not supported")
	return solution{}
}

// invert solves a = v for x.
func (c *calc) invert(a *expr, v value, x string, round int) []value {
	if v.exact == nil {
		c.fault("this kind of equation is not supported")
	}
	y := v.exact
	var inner, back *expr
	switch {
	case a.kind == power && !a.args[1].has(x):
		if a.args[1].kind == number && a.args[1].num.Cmp(big.NewRat(1, 2)) == 0 {
			if w, ok := decimal(y, nil); ok && imag(w) == 0 && real(w) < 0 {
				return nil // a square root is not negative
			}
		}
		inner, back = a.args[0], c.pow(y, c.div(c.int(1), a.args[1]))
	case a.kind == power && !a.args[0].has(x):
		if w, ok := decimal(y, nil); y.is(0) || ok && imag(w) == 0 && real(w) < 0 {
			return nil // a real power is positive
		}
		inner, back = a.args[1], c.div(c.log(y), c.log(a.args[0]))
	case a.kind == function && len(a.args) == 1:
		inner = a.args[0]
		switch a.name {
		case "log":
			back = c.pow(c.sym(euler), y)
		case "abs":
			if w, ok := decimal(y, nil); ok && (imag(w) != 0 || real(w) < 0) {
				return nil
			}
			both := c.zeros(c.sub(inner, y), x, round+1).values
			return append(both, c.zeros(c.add(inner, y), x, round+1).values...)
		case "asin":
			back = c.call("sin", []*expr{y})
		case "acos":
			back = c.call("cos", []*expr{y})
		case "atan":
			back = c.call("tan", []*expr{y})
		}
	}
	if back == nil {
		c.fault("equations with %s are not supported", shorten(show(a)))
	}
	return c.zeros(c.sub(inner, back), x, round+1).values
}

// polynomial returns the roots of a polynomial with coefficients in a ring,
// the constant first.
func (c *calc) polynomial(r *ring, cs []poly) []value {
	var out []value
	for len(cs) > 1 && len(cs[0]) == 0 {
		out = append(out, value{exact: c.int(0)})
		cs = cs[1:]
	}
	n := len(cs) - 1
	if n > maxDegree {
		c.fault("degree too high: got %d, limit %d", n, maxDegree)
	}
	line := newLine(c)
	p := poly{}
	for i, q := range cs {
		k, ok := r.isConstant(q)
		if !ok {
			return append(out, c.general(r, cs)...)
		}
		if k.Sign() != 0 {
			p[lineKey(i)] = k
		}
	}
	p, _ = line.primitive(p)
	for _, d := range line.divisors(p) {
		var es []*expr
		for _, q := range line.coefs(d.p, 0) {
			k, _ := line.isConstant(q)
			es = append(es, c.rat(k))
		}
		out = append(out, c.irreducibleRoots(es)...)
	}
	return out
}

// general solves for coefficients that are not rational numbers.
func (c *calc) general(r *ring, cs []poly) []value {
	es := make([]*expr, len(cs))
	for i, q := range cs {
		es[i] = r.expr(q)
	}
	switch len(es) - 1 {
	case 0:
		return nil
	case 1:
		return []value{{exact: c.simplify(c.neg(c.div(es[0], es[1])))}}
	case 2:
		return c.quadratic(es)
	}
	return c.inDecimals(es)
}

// quadratic returns both roots of c0 + c1 x + c2 x^2.
func (c *calc) quadratic(es []*expr) []value {
	d := c.simplify(c.sub(c.pow(es[1], c.int(2)), c.mul(c.int(4), es[0], es[2])))
	root := c.sqrt(d)
	var out []value
	for _, sign := range []int64{-1, 1} {
		top := c.add(c.neg(es[1]), c.mul(c.int(sign), root))
		out = append(out, value{exact: c.simplify(c.expand(c.div(top, c.mul(c.int(2), es[2]))))})
	}
	return out
}

// irreducibleRoots returns the roots of an irreducible polynomial: exact up to
// degree 2, for x^3 = a and for x^4 + a x^2 = b.
func (c *calc) irreducibleRoots(es []*expr) []value {
	n := len(es) - 1
	switch {
	case n == 1:
		return []value{{exact: c.neg(c.div(es[0], es[1]))}}
	case n == 2:
		return c.quadratic(es)
	case n == 3 && es[1].is(0) && es[2].is(0):
		root := c.realRoot(c.neg(c.div(es[0], es[3])), 3)
		out := []value{{exact: root}}
		for _, sign := range []int64{-1, 1} {
			turn := c.add(c.int(-1), c.mul(c.int(sign), c.sym(imaginary), c.sqrt(c.int(3))))
			out = append(out, value{exact: c.expand(c.mul(c.rat(big.NewRat(1, 2)), root, turn))})
		}
		return out
	case n == 4 && es[1].is(0) && es[3].is(0):
		var out []value
		for _, y := range c.quadratic([]*expr{es[0], es[2], es[4]}) {
			v, ok := decimal(y.exact, nil)
			if !ok || clean(v) != complex(real(v), 0) {
				return c.inDecimals(es)
			}
			root := c.sqrt(y.exact)
			if real(v) < 0 {
				root = c.mul(c.sym(imaginary), c.sqrt(c.neg(y.exact)))
			}
			out = append(out, value{exact: c.neg(root)}, value{exact: root})
		}
		return out
	}
	return c.inDecimals(es)
}

// inDecimals returns the roots in double precision.
func (c *calc) inDecimals(es []*expr) []value {
	coefs := make([]complex128, len(es))
	for i, e := range es {
		v, ok := decimal(e, nil)
		if !ok {
			c.fault("equations of degree %d with more than one unknown are not supported", len(es)-1)
		}
		coefs[i] = v
	}
	var out []value
	for _, z := range c.roots(coefs) {
		out = append(out, value{near: z})
	}
	if out == nil {
		c.fault("no roots found")
	}
	return out
}
