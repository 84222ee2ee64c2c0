package algebra

// system solves equations, each an expression equal to 0, for unknowns by
// substitution: linear ones always, others if that leads to one unknown at a
// time. An unknown missing from a solution is free.
func (c *calc) system(eqs []*expr, names []string) []map[string]*expr {
	defer c.deeper()()
	var left []*expr
	for _, e := range eqs {
		r := c.newRing(e)
		e = r.expr(r.reduce(r.ratio(e)).num)
		if e.is(0) {
			continue
		}
		if !hasAny(e, names) {
			return nil
		}
		left = append(left, e)
	}
	if len(left) == 0 {
		return []map[string]*expr{{}}
	}
	at, name, value := c.linear(left, names)
	values := []*expr{value}
	if value == nil {
		at, name, values = c.alone(left, names)
	}
	var out []map[string]*expr
	for _, v := range values {
		var rest []*expr
		for i, e := range left {
			if i != at {
				rest = append(rest, c.put(e, name, v))
			}
		}
		for _, s := range c.system(rest, names) {
			w := v
			for _, other := range sortedKeys(s) {
				w = c.put(w, other, s[other])
			}
			s[name] = c.simplify(c.expand(w))
			if out = append(out, s); len(out) > maxTerms/100 {
				c.fault("more than %d solutions", maxTerms/100)
			}
		}
	}
	return out
}

func hasAny(e *expr, names []string) bool {
	for _, n := range names {
		if e.has(n) {
			return true
		}
	}
	return false
}

// linear finds an equation that is linear in an unknown and returns its index,
// the unknown and its value, which is nil if there is none.
func (c *calc) linear(eqs []*expr, names []string) (int, string, *expr) {
	for i, e := range eqs {
		r := c.newRing(e)
		p := r.ratio(e).num
		for _, name := range names {
			v, ok := r.at[name]
			if !ok || p.degree(v) != 1 || c.inside(r, v, name) {
				continue
			}
			cs := r.coefs(p, v)
			if k := r.expr(cs[1]); !hasAny(k, names) {
				return i, name, c.simplify(c.neg(c.div(r.expr(cs[0]), k)))
			}
		}
	}
	return 0, "", nil
}

// inside reports whether a symbol occurs in another atom as well.
func (c *calc) inside(r *ring, v int, name string) bool {
	for i, a := range r.atoms {
		if i != v && a.has(name) {
			return true
		}
	}
	return false
}

// alone finds an equation in one unknown, and solves it.
func (c *calc) alone(eqs []*expr, names []string) (int, string, []*expr) {
	for i, e := range eqs {
		only, n := "", 0
		for _, name := range names {
			if e.has(name) {
				only, n = name, n+1
			}
		}
		if n != 1 {
			continue
		}
		var out []*expr
		for _, v := range c.solve(e, only).values {
			if v.exact == nil {
				c.fault("systems whose solutions have no simple form are not supported")
			}
			out = append(out, v.exact)
		}
		return i, only, out
	}
	c.fault("this kind of system is not supported")
	return 0, "", nil
}
