package algebra

import (
	"encoding/binary"
	"math/big"
	"strings"
)

// poly is a polynomial over the atoms of a ring with rational coefficients,
// keyed by the exponents, two bytes an atom; coefficients are not 0.
type poly map[string]*big.Rat

// ring holds the atoms of one calculation: unknowns, roots, functions.
type ring struct {
	c     *calc
	atoms []*expr
	dens  []int64 // an atom is base^(rest/den)
	at    map[string]int
	folds map[int]fold // replacements of powers of atoms
}

// fold replaces atom^power by value.
type fold struct {
	power int
	value poly
}

func (r *ring) bare() string { return strings.Repeat("\x00\x00", len(r.atoms)) }

func (r *ring) constant(v *big.Rat) poly {
	if v.Sign() == 0 {
		return poly{}
	}
	return poly{r.bare(): v}
}

// atom returns a power of an atom.
func (r *ring) atom(i, n int) poly {
	if n > maxPower {
		r.c.fault("power too high: got %d, limit %d", n, maxPower)
	}
	k := []byte(r.bare())
	binary.BigEndian.PutUint16(k[2*i:], uint16(n))
	return r.applyFolds(poly{string(k): intRat(1)})
}

// exp returns the exponent of an atom in a term.
func exp(k string, i int) int { return int(k[2*i])<<8 | int(k[2*i+1]) }

// isConstant returns the value of p and whether it has no atoms.
func (r *ring) isConstant(p poly) (*big.Rat, bool) {
	switch len(p) {
	case 0:
		return new(big.Rat), true
	case 1:
		v := p[r.bare()]
		return v, v != nil
	}
	return nil, false
}

func (r *ring) put(p poly, k string, v *big.Rat) {
	if old := p[k]; old != nil {
		v = r.c.plus(old, v)
	}
	if v.Sign() == 0 {
		delete(p, k)
		return
	}
	if _, ok := p[k]; !ok {
		if len(p) >= maxTerms {
			r.c.fault("more than %d terms", maxTerms)
		}
		r.c.hold(len(k) + 96)
	}
	p[k] = v
}

func (r *ring) add(a, b poly, k *big.Rat) poly { // a + k b
	out := make(poly, len(a)+len(b))
	for _, m := range sortedKeys(a) {
		r.put(out, m, a[m])
	}
	for _, m := range sortedKeys(b) {
		r.put(out, m, r.c.times(k, b[m]))
	}
	return out
}

func (r *ring) scale(a poly, k *big.Rat) poly { return r.add(poly{}, a, k) }

func (r *ring) mul(a, b poly) poly { return r.applyFolds(r.raw(a, b)) }

// raw multiplies without folding.
func (r *ring) raw(a, b poly) poly {
	out := poly{}
	bk := sortedKeys(b)
	for _, x := range sortedKeys(a) {
		for _, y := range bk {
			r.put(out, r.shift(x, y), r.c.times(a[x], b[y]))
		}
	}
	return out
}

// shift adds the exponents of two terms.
func (r *ring) shift(x, y string) string {
	k := []byte(x)
	for i := range r.atoms {
		n := exp(x, i) + exp(y, i)
		if n > 4*maxPower {
			r.c.fault("power too high: got %d, limit %d", n, maxPower)
		}
		binary.BigEndian.PutUint16(k[2*i:], uint16(n))
	}
	r.c.step(len(r.atoms))
	return string(k)
}

func (r *ring) pow(a poly, n int) poly {
	if n < 0 || n > maxPower {
		r.c.fault("power too high: got %d, limit %d", n, maxPower)
	}
	out := r.constant(intRat(1))
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			out = r.mul(out, a)
		}
		if n > 1 {
			a = r.mul(a, a)
		}
	}
	return out
}

// applyFolds applies the folds of the ring.
func (r *ring) applyFolds(p poly) poly {
	for again := len(r.folds) > 0; again; {
		again = false
		out := poly{}
		for _, k := range sortedKeys(p) {
			i := r.foldable(k)
			if i < 0 {
				r.put(out, k, p[k])
				continue
			}
			again = true
			f := r.folds[i]
			n := exp(k, i)
			rest := []byte(k)
			binary.BigEndian.PutUint16(rest[2*i:], uint16(n%f.power))
			value := r.constant(intRat(1))
			for range n / f.power {
				value = r.raw(value, f.value)
			}
			part := r.raw(poly{string(rest): p[k]}, value)
			for _, m := range sortedKeys(part) {
				r.put(out, m, part[m])
			}
		}
		p = out
	}
	return p
}

// foldable returns an atom of a term that can be folded, or -1.
func (r *ring) foldable(k string) int {
	for i := range r.atoms {
		if f, ok := r.folds[i]; ok && exp(k, i) >= f.power {
			return i
		}
	}
	return -1
}

// lead returns the last term in the order of the atoms.
func lead(p poly) string {
	best := ""
	for k := range p {
		if k > best || best == "" {
			best = k
		}
	}
	return best
}

// degree returns the degree of an atom in p.
func (p poly) degree(i int) int {
	d := 0
	for k := range p {
		d = max(d, exp(k, i))
	}
	return d
}

// quotient divides; ok is false if there is a remainder.
func (r *ring) quotient(a, b poly) (poly, bool) {
	lb := lead(b)
	out := poly{}
	for len(a) > 0 {
		la := lead(a)
		k := []byte(la)
		for i := range r.atoms {
			n := exp(la, i) - exp(lb, i)
			if n < 0 {
				return nil, false
			}
			binary.BigEndian.PutUint16(k[2*i:], uint16(n))
		}
		q := r.c.over(a[la], b[lb])
		r.put(out, string(k), q)
		r.c.step(len(a))
		a = r.add(a, r.raw(poly{string(k): intRat(1)}, b), new(big.Rat).Neg(q))
	}
	return out, true
}

// coefs returns the coefficients of p by the power of an atom.
func (r *ring) coefs(p poly, i int) []poly {
	out := make([]poly, p.degree(i)+1)
	for j := range out {
		out[j] = poly{}
	}
	for _, k := range sortedKeys(p) {
		rest := []byte(k)
		rest[2*i], rest[2*i+1] = 0, 0
		r.put(out[exp(k, i)], string(rest), p[k])
	}
	return out
}

// primitive returns p with coprime integer coefficients and a positive lead,
// and the number that it was divided by.
func (r *ring) primitive(p poly) (poly, *big.Rat) {
	if len(p) == 0 {
		return p, intRat(1)
	}
	num, den := new(big.Int), big.NewInt(1)
	for _, v := range p {
		num.GCD(nil, nil, num, new(big.Int).Abs(v.Num()))
		g := new(big.Int).GCD(nil, nil, den, v.Denom())
		den.Mul(den, new(big.Int).Quo(v.Denom(), g))
		r.c.step(2 + den.BitLen()/64)
		if den.BitLen() > maxBits {
			r.c.fault("a number has more than %d digits", maxBits*3/10)
		}
	}
	k := new(big.Rat).SetFrac(num, den)
	if p[lead(p)].Sign() < 0 {
		k.Neg(k)
	}
	return r.scale(p, r.c.over(intRat(1), k)), k
}

// gcd returns the primitive greatest common divisor.
func (r *ring) gcd(a, b poly) poly {
	defer r.c.deeper()()
	a, _ = r.primitive(a)
	b, _ = r.primitive(b)
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	v := -1
	for i := range r.atoms {
		if a.degree(i) > 0 || b.degree(i) > 0 {
			v = i
			break
		}
	}
	switch {
	case v < 0:
		return r.constant(intRat(1))
	case a.degree(v) == 0:
		return r.gcd(a, r.common(b, v))
	case b.degree(v) == 0:
		return r.gcd(r.common(a, v), b)
	}
	ca, cb := r.common(a, v), r.common(b, v)
	shared := r.gcd(ca, cb)
	a, _ = r.quotient(a, ca)
	b, _ = r.quotient(b, cb)
	if a.degree(v) < b.degree(v) {
		a, b = b, a
	}
	for b.degree(v) > 0 {
		rest := r.remainder(a, b, v)
		if len(rest) == 0 {
			out, _ := r.primitive(r.raw(shared, b))
			return out
		}
		a = b
		if b, _ = r.quotient(rest, r.common(rest, v)); b.degree(v) == 0 {
			break
		}
		b, _ = r.primitive(b)
	}
	return shared
}

// common returns the divisor of all coefficients by an atom.
func (r *ring) common(p poly, v int) poly {
	out := poly{}
	for _, q := range r.coefs(p, v) {
		if len(q) > 0 {
			out = r.gcd(out, q)
		}
		if _, ok := r.isConstant(out); ok && len(out) > 0 {
			break
		}
	}
	return out
}

// remainder returns the pseudo-remainder of a by b as polynomials in an atom.
func (r *ring) remainder(a, b poly, v int) poly {
	db := b.degree(v)
	lb := r.coefs(b, v)[db]
	for len(a) > 0 && a.degree(v) >= db {
		da := a.degree(v)
		la := r.coefs(a, v)[da]
		shift := []byte(r.bare())
		binary.BigEndian.PutUint16(shift[2*v:], uint16(da-db))
		a = r.add(r.raw(a, lb), r.raw(r.raw(la, poly{string(shift): intRat(1)}), b), intRat(-1))
		r.c.step(len(a) + 1)
	}
	return a
}

// derivative differentiates by an atom.
func (r *ring) derivative(p poly, v int) poly {
	out := poly{}
	for _, k := range sortedKeys(p) {
		if n := exp(k, v); n > 0 {
			m := []byte(k)
			binary.BigEndian.PutUint16(m[2*v:], uint16(n-1))
			r.put(out, string(m), r.c.times(p[k], intRat(int64(n))))
		}
	}
	return out
}

// expr returns p as an expression.
func (r *ring) expr(p poly) *expr {
	var terms []*expr
	for _, k := range sortedKeys(p) {
		list := []*expr{r.c.rat(p[k])}
		for i, a := range r.atoms {
			if n := exp(k, i); n > 0 {
				list = append(list, r.c.pow(a, r.c.int(int64(n))))
			}
		}
		terms = append(terms, r.c.mul(list...))
	}
	return r.c.add(terms...)
}
