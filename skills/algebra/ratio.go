package algebra

import "math/big"

// ratio is a quotient of polynomials; den is not 0.
type ratio struct{ num, den poly }

// parts collects the atoms of expressions. Roots of one base share an atom,
// whatever their orders.
type parts struct {
	c    *calc
	list []part
	at   map[string]int
}

// part is a future atom: base^(rest/den).
type part struct {
	base, rest *expr
	den        int64
}

// newRing returns a ring over the atoms of the expressions.
func (c *calc) newRing(list ...*expr) *ring {
	p := &parts{c: c, at: map[string]int{}}
	for _, e := range list {
		p.visit(e)
	}
	r := &ring{c: c, at: map[string]int{}, folds: map[int]fold{}}
	for _, k := range sortedKeys(p.at) {
		if len(r.atoms) == maxAtoms {
			c.fault("more than %d unknowns, roots and functions", maxAtoms)
		}
		q := p.list[p.at[k]]
		a := q.base
		if q.rest != nil {
			a = c.node(power, "", []*expr{q.base, c.mul(q.rest, c.rat(big.NewRat(1, q.den)))})
		}
		r.at[k] = len(r.atoms)
		r.atoms, r.dens = append(r.atoms, a), append(r.dens, q.den)
	}
	for _, k := range sortedKeys(p.at) {
		i, q := r.at[k], p.list[p.at[k]]
		switch {
		case q.base.kind == symbol && q.base.name == imaginary:
			r.folds[i] = fold{2, r.constant(intRat(-1))}
		case q.rest != nil && q.rest.is(1):
			if v := r.ratio(q.base); v.den != nil {
				if d, ok := r.isConstant(v.den); ok {
					r.folds[i] = fold{int(q.den), r.scale(v.num, c.over(intRat(1), d))}
				}
			}
		}
	}
	return r
}

// powerParts splits an exponent: base^e is the product of base^(k rest) over
// the terms of e.
func (c *calc) powerParts(e *expr) (ks []*big.Rat, rests []*expr) {
	terms := []*expr{e}
	if e.kind == sum {
		terms = e.args
	}
	for _, t := range terms {
		k, rest := c.split(t)
		ks, rests = append(ks, k), append(rests, rest)
	}
	return ks, rests
}

func atomKey(base, rest *expr) string { return base.key + "^" + rest.key }

func (p *parts) visit(e *expr) {
	defer p.c.deeper()()
	p.c.step(1)
	switch e.kind {
	case number:
		return
	case sum, product:
		for _, a := range e.args {
			p.visit(a)
		}
		return
	case power:
		if _, ok := e.args[1].small(); ok {
			p.visit(e.args[0])
			return
		}
		ks, rests := p.c.powerParts(e.args[1])
		for i, rest := range rests {
			if rest.is(1) && ks[i].IsInt() {
				p.visit(e.args[0])
				continue
			}
			p.keep(atomKey(e.args[0], rest), part{e.args[0], rest, ks[i].Denom().Int64()})
			if rest.is(1) {
				p.visit(e.args[0]) // a power of the root occurs in it
			}
		}
		return
	}
	p.keep(e.key, part{base: e, den: 1})
}

func (p *parts) keep(key string, q part) {
	if i, ok := p.at[key]; ok {
		old := p.list[i].den
		g := new(big.Int).GCD(nil, nil, big.NewInt(old), big.NewInt(q.den)).Int64()
		if q.den = old / g * q.den; q.den > maxPower {
			p.c.fault("a root of order %d is too high", q.den)
		}
		p.list[i].den = q.den
		return
	}
	if q.den > maxPower {
		p.c.fault("a root of order %d is too high", q.den)
	}
	p.at[key] = len(p.list)
	p.list = append(p.list, q)
}

// ratio converts an expression to the atoms of the ring.
func (r *ring) ratio(e *expr) ratio {
	defer r.c.deeper()()
	one := r.constant(intRat(1))
	switch e.kind {
	case number:
		return ratio{r.constant(e.num), one}
	case sum:
		out := ratio{poly{}, one}
		for _, a := range e.args {
			out = r.plus(out, r.ratio(a))
		}
		return out
	case product:
		out := ratio{one, one}
		for _, a := range e.args {
			f := r.ratio(a)
			out = ratio{r.mul(out.num, f.num), r.mul(out.den, f.den)}
		}
		return out
	case power:
		if n, ok := e.args[1].small(); ok {
			return r.power(r.ratio(e.args[0]), n)
		}
		out := ratio{one, one}
		ks, rests := r.c.powerParts(e.args[1])
		for i, rest := range rests {
			var f ratio
			if rest.is(1) && ks[i].IsInt() {
				f = r.power(r.ratio(e.args[0]), ks[i].Num().Int64())
			} else {
				key := atomKey(e.args[0], rest)
				n := new(big.Rat).Mul(ks[i], intRat(r.dens[r.at[key]]))
				f = r.power(ratio{r.atom(r.at[key], 1), one}, n.Num().Int64())
			}
			out = ratio{r.mul(out.num, f.num), r.mul(out.den, f.den)}
		}
		return out
	}
	return ratio{r.atom(r.at[e.key], 1), one}
}

func (r *ring) plus(a, b ratio) ratio {
	da, okA := r.isConstant(a.den)
	db, okB := r.isConstant(b.den)
	if okA && okB {
		return ratio{r.add(r.scale(a.num, r.c.over(intRat(1), da)), b.num, r.c.over(intRat(1), db)), r.constant(intRat(1))}
	}
	g := r.gcd(a.den, b.den)
	qa, _ := r.quotient(a.den, g)
	qb, _ := r.quotient(b.den, g)
	return ratio{r.add(r.mul(a.num, qb), r.mul(b.num, qa), intRat(1)), r.mul(a.den, qb)}
}

func (r *ring) power(a ratio, n int64) ratio {
	if n < 0 {
		if len(a.num) == 0 {
			r.c.fault("division by zero")
		}
		a, n = ratio{a.den, a.num}, -n
	}
	return ratio{r.pow(a.num, int(n)), r.pow(a.den, int(n))}
}

// reduce rationalizes square roots of numbers in the denominator, cancels
// common divisors and clears fractions in the denominator.
func (r *ring) reduce(a ratio) ratio {
	for i := range r.atoms {
		f, ok := r.folds[i]
		if _, constant := r.isConstant(f.value); !ok || f.power != 2 || !constant || a.den.degree(i) == 0 {
			continue
		}
		cs := r.coefs(a.den, i)
		conjugate := r.add(cs[0], r.mul(cs[1], r.atom(i, 1)), intRat(-1))
		a = ratio{r.mul(a.num, conjugate), r.mul(a.den, conjugate)}
	}
	if len(a.den) == 0 {
		r.c.fault("division by zero")
	}
	if len(a.num) == 0 {
		return ratio{poly{}, r.constant(intRat(1))}
	}
	g := r.gcd(a.num, a.den)
	num, _ := r.quotient(a.num, g)
	den, _ := r.quotient(a.den, g)
	den, kd := r.primitive(den)
	return ratio{r.scale(num, r.c.over(intRat(1), kd)), den}
}

// over returns a ratio as an expression: a sum if the denominator is a number.
func (r *ring) over(a ratio) *expr {
	if d, ok := r.isConstant(a.den); ok {
		return r.expr(r.scale(a.num, r.c.over(intRat(1), d)))
	}
	num, k := r.primitive(a.num)
	return r.c.mul(r.c.rat(k), r.c.div(r.extractAtoms(num), r.expr(a.den)))
}

// extractAtoms extracts the atoms that occur in every term of p.
func (r *ring) extractAtoms(p poly) *expr {
	out := r.c.int(1)
	for i := range r.atoms {
		least := maxPower * 4
		for k := range p {
			least = min(least, exp(k, i))
		}
		if least > 0 {
			a := r.atom(i, least)
			p, _ = r.quotient(p, a)
			out = r.c.mul(out, r.expr(a))
		}
	}
	return r.c.mul(out, r.expr(p))
}
