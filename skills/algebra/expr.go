package algebra

import (
	"math/big"
	"slices"
	"strings"
)

// kind is the kind of a node of an expression.
type kind byte

const (
	number kind = iota
	symbol
	sum      // two terms or more, all different, none a sum
	product  // an optional number, then sorted factors, none a product
	power    // base, exponent
	function // name, arguments
)

// expr is an expression in normal form: equal terms and equal bases are
// collected, and numbers are computed. It is immutable.
type expr struct {
	kind kind
	num  *big.Rat
	name string // of a symbol or function
	args []*expr
	key  string // equal if the expressions are
}

// Names of the constants e, pi and i.
const (
	euler     = "e"
	pi        = "pi"
	imaginary = "i"
)

func (c *calc) node(k kind, name string, args []*expr) *expr {
	var b strings.Builder
	b.WriteString("(" + string("nsapwf"[k]) + name)
	size := 0
	for _, a := range args {
		size += len(a.key) + 1
	}
	c.hold(size + 64)
	c.step(1 + size/16)
	for _, a := range args {
		b.WriteString(" " + a.key)
	}
	b.WriteString(")")
	return &expr{kind: k, name: name, args: args, key: b.String()}
}

func (c *calc) rat(r *big.Rat) *expr {
	c.hold(64 + r.Num().BitLen()/4 + r.Denom().BitLen()/4)
	c.fits(r)
	return &expr{kind: number, num: r, key: r.RatString()}
}

func (c *calc) int(n int64) *expr { return c.rat(intRat(n)) }

func (c *calc) sym(name string) *expr {
	c.hold(64)
	return &expr{kind: symbol, name: name, key: name}
}

func (e *expr) is(n int64) bool {
	return e.kind == number && e.num.IsInt() && e.num.Num().IsInt64() && e.num.Num().Int64() == n
}

// small returns an integer within int64.
func (e *expr) small() (int64, bool) {
	if e.kind != number || !e.num.IsInt() || !e.num.Num().IsInt64() {
		return 0, false
	}
	return e.num.Num().Int64(), true
}

// split returns the coefficient of a term and the rest.
func (c *calc) split(e *expr) (*big.Rat, *expr) {
	if e.kind == number {
		return e.num, c.int(1)
	}
	if e.kind != product || e.args[0].kind != number {
		return intRat(1), e
	}
	rest := e.args[1:]
	if len(rest) == 1 {
		return e.args[0].num, rest[0]
	}
	return e.args[0].num, c.node(product, "", rest)
}

// add returns the sum of terms.
func (c *calc) add(terms ...*expr) *expr {
	defer c.deeper()()
	constant := new(big.Rat)
	coefs := map[string]*big.Rat{}
	rests := map[string]*expr{}
	var take func(e *expr)
	take = func(e *expr) {
		switch e.kind {
		case number:
			constant = c.plus(constant, e.num)
		case sum:
			for _, a := range e.args {
				take(a)
			}
		default:
			n, rest := c.split(e)
			if old := coefs[rest.key]; old != nil {
				n = c.plus(old, n)
			}
			coefs[rest.key], rests[rest.key] = n, rest
		}
	}
	for _, t := range terms {
		take(t)
	}
	var out []*expr
	for _, k := range sortedKeys(coefs) {
		if coefs[k].Sign() != 0 {
			out = append(out, c.scaleTerm(coefs[k], rests[k]))
		}
	}
	if constant.Sign() != 0 || len(out) == 0 {
		out = append(out, c.rat(constant))
	}
	if len(out) == 1 {
		return out[0]
	}
	if len(out) > maxTerms {
		c.fault("more than %d terms", maxTerms)
	}
	return c.node(sum, "", out)
}

// scaleTerm multiplies a term without a coefficient by n.
func (c *calc) scaleTerm(n *big.Rat, rest *expr) *expr {
	switch {
	case n.Cmp(intRat(1)) == 0:
		return rest
	case rest.kind == number:
		return c.rat(c.times(n, rest.num))
	case rest.kind == product:
		return c.node(product, "", append([]*expr{c.rat(n)}, rest.args...))
	}
	return c.node(product, "", []*expr{c.rat(n), rest})
}

// mul returns the product of factors.
func (c *calc) mul(factors ...*expr) *expr {
	defer c.deeper()()
	coef := intRat(1)
	bases := map[string]*expr{}
	exps := map[string][]*expr{}
	var take func(e *expr)
	take = func(e *expr) {
		switch e.kind {
		case number:
			coef = c.times(coef, e.num)
		case product:
			for _, a := range e.args {
				take(a)
			}
		case power:
			b := e.args[0]
			bases[b.key], exps[b.key] = b, append(exps[b.key], e.args[1])
		default:
			bases[e.key], exps[e.key] = e, append(exps[e.key], c.int(1))
		}
	}
	for _, f := range factors {
		take(f)
	}
	if coef.Sign() == 0 {
		return c.int(0)
	}
	var rest []*expr
	for _, k := range sortedKeys(bases) {
		p := c.pow(bases[k], c.add(exps[k]...))
		list := []*expr{p}
		if p.kind == product {
			list = p.args
		}
		for _, f := range list {
			if f.kind == number {
				coef = c.times(coef, f.num)
			} else {
				rest = append(rest, f)
			}
		}
	}
	if len(rest) == 0 {
		return c.rat(coef)
	}
	one := coef.Cmp(intRat(1)) == 0
	if len(rest) == 1 {
		if one {
			return rest[0]
		}
		if rest[0].kind == sum { // 2(x+1) is 2x+2
			terms := make([]*expr, len(rest[0].args))
			for i, t := range rest[0].args {
				n, r := c.split(t)
				terms[i] = c.scaleTerm(c.times(coef, n), r)
			}
			return c.add(terms...)
		}
	}
	slices.SortFunc(rest, func(a, b *expr) int { return strings.Compare(a.key, b.key) })
	if !one {
		rest = append([]*expr{c.rat(coef)}, rest...)
	}
	return c.node(product, "", rest)
}

func (c *calc) neg(e *expr) *expr    { return c.mul(c.int(-1), e) }
func (c *calc) sub(a, b *expr) *expr { return c.add(a, c.neg(b)) }
func (c *calc) div(a, b *expr) *expr { return c.mul(a, c.pow(b, c.int(-1))) }
func (c *calc) sqrt(e *expr) *expr   { return c.pow(e, c.rat(big.NewRat(1, 2))) }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// has reports whether a symbol occurs in an expression.
func (e *expr) has(name string) bool {
	if e.kind == symbol {
		return e.name == name
	}
	return slices.ContainsFunc(e.args, func(a *expr) bool { return a.has(name) })
}

// unknowns returns the sorted symbols that are not constants.
func unknowns(list ...*expr) []string {
	seen := map[string]bool{}
	var visit func(e *expr)
	visit = func(e *expr) {
		if e.kind == symbol && e.name != euler && e.name != pi && e.name != imaginary {
			seen[e.name] = true
		}
		for _, a := range e.args {
			visit(a)
		}
	}
	for _, e := range list {
		visit(e)
	}
	return sortedKeys(seen)
}

// rebuild returns the expression with f applied to its arguments.
func (c *calc) rebuild(e *expr, f func(*expr) *expr) *expr {
	defer c.deeper()()
	if len(e.args) == 0 {
		return e
	}
	args := make([]*expr, len(e.args))
	for i, a := range e.args {
		args[i] = f(a)
	}
	switch e.kind {
	case sum:
		return c.add(args...)
	case product:
		return c.mul(args...)
	case power:
		return c.pow(args[0], args[1])
	}
	return c.call(e.name, args)
}

// put replaces a symbol by a value.
func (c *calc) put(e *expr, name string, value *expr) *expr {
	if e.kind == symbol && e.name == name {
		return value
	}
	return c.rebuild(e, func(a *expr) *expr { return c.put(a, name, value) })
}
