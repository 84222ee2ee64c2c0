package algebra

import (
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// divisor is a polynomial and its multiplicity as a divisor.
type divisor struct {
	p poly
	n int
}

// factor writes an expression as a product of polynomials that are irreducible
// over the rationals, as far as divisors are found.
func (c *calc) factor(e *expr) *expr {
	r := c.newRing(e)
	q := r.reduce(r.ratio(e))
	num, k := r.primitive(q.num)
	out := []*expr{c.rat(k)}
	for i, p := range []poly{num, q.den} {
		for _, d := range r.divisors(p) {
			out = append(out, c.pow(r.expr(d.p), c.int(int64(d.n*(1-2*i)))))
		}
	}
	if len(q.num) == 0 {
		return c.int(0)
	}
	return c.keepCoefficient(out)
}

// keepCoefficient returns a product that keeps a number before a sum.
func (c *calc) keepCoefficient(list []*expr) *expr {
	e := c.mul(list[1:]...)
	if e.kind == sum && !list[0].is(1) {
		return c.node(product, "", []*expr{list[0], e})
	}
	return c.mul(list[0], e)
}

// primeText formats an integer as a product of prime powers.
func (c *calc) primeText(n *big.Int) string {
	var list []string
	for _, f := range c.primes(new(big.Int).Abs(n)) {
		if !f.p.ProbablyPrime(8) {
			c.fault("%s has several divisors over %d, which are not searched for", shorten(n.String()), trial)
		}
		p := f.p.String()
		if f.times > 1 {
			p += "^" + strconv.FormatInt(f.times, 10)
		}
		list = append(list, p)
	}
	text := strings.Join(list, "*")
	if n.Sign() < 0 {
		text = "-" + text
	}
	return text
}

// divisors factors a primitive polynomial.
func (r *ring) divisors(p poly) []divisor {
	var out []divisor
	for i := range r.atoms {
		least := math.MaxInt
		for k := range p {
			least = min(least, exp(k, i))
		}
		if least > 0 {
			a := []byte(r.bare())
			binary.BigEndian.PutUint16(a[2*i:], uint16(least))
			p, _ = r.quotient(p, poly{string(a): intRat(1)})
			binary.BigEndian.PutUint16(a[2*i:], 1)
			out = append(out, divisor{poly{string(a): intRat(1)}, least})
		}
	}
	return append(out, r.squares(p)...)
}

// squares splits p by the multiplicity of its divisors (Yun 1976), and each
// part further.
func (r *ring) squares(p poly) []divisor {
	defer r.c.deeper()()
	v := r.first(p)
	if v < 0 {
		return nil
	}
	var out []divisor
	common := r.common(p, v)
	if _, ok := r.isConstant(common); !ok {
		out = r.squares(common)
		p, _ = r.quotient(p, common)
	}
	d := r.derivative(p, v)
	g := r.gcd(p, d)
	b, _ := r.quotient(p, g)
	q, _ := r.quotient(d, g)
	q = r.add(q, r.derivative(b, v), intRat(-1))
	for n := 1; ; n++ {
		if _, ok := r.isConstant(b); ok {
			return out
		}
		a := r.gcd(b, q)
		if _, ok := r.isConstant(a); !ok {
			for _, f := range r.irreducible(a) {
				out = append(out, divisor{f, n})
			}
		}
		b, _ = r.quotient(b, a)
		q, _ = r.quotient(q, a)
		q = r.add(q, r.derivative(b, v), intRat(-1))
	}
}

// first returns an atom of p, or -1.
func (r *ring) first(p poly) int {
	for i := range r.atoms {
		if p.degree(i) > 0 {
			return i
		}
	}
	return -1
}

// Limits of the search for divisors.
const (
	maxImage = 48   // degree
	maxTries = 8000 // sets of roots or divisors tried
)

// irreducible factors a square-free polynomial. Several atoms become powers of
// one (Kronecker), whose divisors are combined.
func (r *ring) irreducible(p poly) []poly {
	var atoms, degrees []int
	image := 1
	for i := range r.atoms {
		if d := p.degree(i); d > 0 {
			atoms, degrees = append(atoms, i), append(degrees, d)
			if image *= d + 1; image > maxImage+1 {
				return []poly{p}
			}
		}
	}
	if len(atoms) == 1 {
		return r.univariate(p, atoms[0])
	}
	line := newLine(r.c)
	flat := poly{}
	for k, v := range p {
		n, step := 0, 1
		for j, i := range atoms {
			n, step = n+step*exp(k, i), step*(degrees[j]+1)
		}
		flat[lineKey(n)] = v
	}
	flat, _ = line.primitive(flat)
	var parts []poly
	for _, d := range line.divisors(flat) {
		for range d.n {
			parts = append(parts, d.p)
		}
	}
	back := func(q poly) poly {
		out := poly{}
		for k, v := range q {
			n := exp(k, 0)
			m := []byte(r.bare())
			for j, i := range atoms {
				binary.BigEndian.PutUint16(m[2*i:], uint16(n%(degrees[j]+1)))
				n /= degrees[j] + 1
			}
			out[string(m)] = v
		}
		out, _ = r.primitive(out)
		return out
	}
	return r.assemble(p, len(parts), func(set []int) poly {
		q := line.constant(intRat(1))
		for _, i := range set {
			q = line.raw(q, parts[i])
		}
		return back(q)
	})
}

// newLine returns a ring of one atom.
func newLine(c *calc) *ring {
	return &ring{c: c, atoms: []*expr{c.sym("x")}}
}

// lineKey returns the key of the n-th power of the atom of a line.
func lineKey(n int) string {
	return string([]byte{byte(n >> 8), byte(n)})
}

// assemble finds divisors of p among the products of n parts, the smallest
// sets first; product returns the product of a set, or nil.
func (r *ring) assemble(p poly, n int, product func(set []int) poly) []poly {
	left := make([]int, n)
	for i := range left {
		left[i] = i
	}
	var out []poly
	tries := 0
	for size := 1; 2*size <= len(left); {
		found := false
		subsets(left, size, func(set []int) bool {
			if tries++; tries > maxTries {
				return false
			}
			r.c.step(16)
			q := product(set)
			if q == nil {
				return true
			}
			if _, constant := r.isConstant(q); constant {
				return true
			}
			rest, ok := r.quotient(p, q)
			if !ok {
				return true
			}
			out = append(out, q)
			p, _ = r.primitive(rest)
			left = without(left, set)
			found = true
			return false
		})
		if tries > maxTries {
			break
		}
		if !found {
			size++
		}
	}
	if _, constant := r.isConstant(p); !constant {
		out = append(out, p)
	}
	return out
}

func without(list, removed []int) []int {
	var out []int
	j := 0
	for _, v := range list {
		if j < len(removed) && removed[j] == v {
			j++
			continue
		}
		out = append(out, v)
	}
	return out
}

// subsets calls f with each set of a size, in order, until f returns false.
func subsets(list []int, size int, f func([]int) bool) {
	set := make([]int, size)
	var walk func(from, at int) bool
	walk = func(from, at int) bool {
		if at == size {
			return f(set)
		}
		for i := from; i <= len(list)-(size-at); i++ {
			set[at] = list[i]
			if !walk(i+1, at+1) {
				return false
			}
		}
		return true
	}
	walk(0, 0)
}

// univariate factors a square-free polynomial of one atom: sets of roots whose
// product has integer coefficients are guessed in double precision and proved
// by division.
func (r *ring) univariate(p poly, v int) []poly {
	n := p.degree(v)
	if n < 2 || n > maxImage {
		return []poly{p}
	}
	var coefs []complex128
	for _, q := range r.coefs(p, v) {
		k, _ := r.isConstant(q)
		f, _ := k.Float64()
		coefs = append(coefs, complex(f, 0))
	}
	roots := r.c.roots(coefs)
	if roots == nil {
		return []poly{p}
	}
	first := coefs[n]
	return r.assemble(p, n, func(set []int) poly {
		q := []complex128{first}
		for _, i := range set {
			next := make([]complex128, len(q)+1)
			for j, k := range q {
				next[j+1] += k
				next[j] -= k * roots[i]
			}
			q = next
		}
		out := poly{}
		for j, k := range q {
			n := math.Round(real(k))
			if math.Abs(imag(k)) > 0.01 || math.Abs(real(k)-n) > 0.01 || math.Abs(n) > 1<<50 {
				return nil
			}
			if n != 0 {
				m := []byte(r.bare())
				binary.BigEndian.PutUint16(m[2*v:], uint16(j))
				out[string(m)] = new(big.Rat).SetFloat64(n)
			}
		}
		out, _ = r.primitive(out)
		return out
	})
}
