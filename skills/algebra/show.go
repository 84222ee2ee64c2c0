package algebra

import (
	"math/big"
	"slices"
	"strings"
)

// Binding strengths of formatted text.
const (
	asSum = iota
	asProduct
	asPower
	asOperand
)

// show formats an expression so that parse reads it back: 2*x^2 + sqrt(3)/2.
func show(e *expr) string {
	s, _ := write(e)
	return s
}

// write returns the text of an expression and its binding strength.
func write(e *expr) (string, int) {
	switch e.kind {
	case number:
		switch {
		case e.num.Sign() < 0:
			return e.num.RatString(), asSum
		case e.num.IsInt():
			return e.num.RatString(), asOperand
		}
		return e.num.RatString(), asProduct
	case symbol:
		return e.name, asOperand
	case function:
		args := make([]string, len(e.args))
		for i, a := range e.args {
			args[i] = show(a)
		}
		return e.name + "(" + strings.Join(args, ", ") + ")", asOperand
	case sum:
		return writeSum(e), asSum
	}
	return writeProduct(e)
}

func within(e *expr, least int) string {
	s, strength := write(e)
	if strength < least {
		return "(" + s + ")"
	}
	return s
}

// writeSum formats terms of high degree first.
func writeSum(e *expr) string {
	terms := slices.Clone(e.args)
	degrees := make(map[*expr]*big.Rat, len(terms))
	for _, t := range terms {
		degrees[t] = degree(t)
	}
	slices.SortStableFunc(terms, func(a, b *expr) int {
		if d := degrees[b].Cmp(degrees[a]); d != 0 {
			return d
		}
		return byPowers(a, b)
	})
	if negative(terms[0]) { // sqrt(2) - 1 instead of -1 + sqrt(2)
		for i, t := range terms {
			if degrees[t].Cmp(degrees[terms[0]]) == 0 && !negative(t) {
				terms = slices.Insert(slices.Delete(terms, i, i+1), 0, t)
				break
			}
		}
	}
	var b strings.Builder
	for i, t := range terms {
		s, _ := write(t)
		switch {
		case i == 0:
		case s[0] == '-':
			b.WriteString(" - ")
			s = s[1:]
		default:
			b.WriteString(" + ")
		}
		b.WriteString(s)
	}
	return b.String()
}

// negative reports whether a term is formatted with a minus.
func negative(e *expr) bool {
	first := factors(e)[0]
	return first.kind == number && first.num.Sign() < 0
}

// degree returns the sum of the exponents of the unknowns of a term.
func degree(e *expr) *big.Rat {
	total := new(big.Rat)
	for _, f := range factors(e) {
		switch {
		case f.kind == symbol && len(unknowns(f)) > 0:
			total.Add(total, intRat(1))
		case f.kind == power && f.args[1].kind == number && len(unknowns(f.args[0])) > 0:
			total.Add(total, f.args[1].num)
		}
	}
	return total
}

// factors returns the factors of a term.
func factors(e *expr) []*expr {
	if e.kind == product {
		return e.args
	}
	return []*expr{e}
}

// byPowers orders x^2 before x*y before y^2, and numbers first.
func byPowers(a, b *expr) int {
	if (a.kind == number) != (b.kind == number) {
		if a.kind == number {
			return -1
		}
		return 1
	}
	for _, name := range unknowns(a, b) {
		if d := exponent(b, name).Cmp(exponent(a, name)); d != 0 {
			return d
		}
	}
	return strings.Compare(a.key, b.key)
}

// exponent returns the exponent of a symbol in a term.
func exponent(e *expr, name string) *big.Rat {
	for _, f := range factors(e) {
		if f.kind == symbol && f.name == name {
			return intRat(1)
		}
		if f.kind == power && f.args[0].kind == symbol && f.args[0].name == name && f.args[1].kind == number {
			return f.args[1].num
		}
	}
	return new(big.Rat)
}

// writeProduct formats factors with a negative exponent as the denominator and
// combines roots of numbers of one order.
func writeProduct(e *expr) (string, int) {
	coef := intRat(1)
	var above, below []*expr
	roots := map[string]*big.Int{} // by exponent
	exps := map[string]*big.Rat{}
	for _, f := range factors(e) {
		switch {
		case f.kind == number:
			coef = f.num
		case f.kind != power || f.args[1].kind != number:
			above = append(above, f)
		case f.args[0].kind == number && f.args[0].num.IsInt() && f.args[0].num.Sign() > 0:
			k := f.args[1].key
			if roots[k] == nil {
				roots[k], exps[k] = big.NewInt(1), f.args[1].num
			}
			roots[k] = new(big.Int).Mul(roots[k], f.args[0].num.Num())
		case f.args[1].num.Sign() < 0:
			below = append(below, &expr{kind: power, args: []*expr{f.args[0], {kind: number, num: new(big.Rat).Neg(f.args[1].num)}}})
		default:
			above = append(above, f)
		}
	}
	sign := ""
	if coef.Sign() < 0 {
		sign, coef = "-", new(big.Rat).Neg(coef)
	}
	var top, under []string
	if n := coef.Num(); n.Cmp(big.NewInt(1)) != 0 || len(above)+len(roots) == 0 {
		top = append(top, n.String())
	}
	for _, k := range sortedKeys(roots) {
		base := &expr{kind: number, num: new(big.Rat).SetInt(roots[k])}
		top = append(top, writePower(base, &expr{kind: number, num: exps[k]}))
	}
	if d := coef.Denom(); d.Cmp(big.NewInt(1)) != 0 {
		under = append(under, d.String())
	}
	if len(top)+len(under)+len(above)+len(below) == 1 && len(above) == 1 && sign == "" {
		return writePower(above[0].args[0], above[0].args[1]), asPower
	}
	order := func(a, b *expr) int { // names before sums
		if d := int(weight(a)) - int(weight(b)); d != 0 {
			return d
		}
		minus := strings.NewReplacer("-", "+", "+", "-") // x - 1 before x + 1
		return strings.Compare(minus.Replace(show(a)), minus.Replace(show(b)))
	}
	slices.SortStableFunc(above, order)
	slices.SortStableFunc(below, order)
	for _, f := range above {
		top = append(top, inProduct(f))
	}
	for _, f := range below {
		under = append(under, inProduct(f))
	}
	strength := asProduct
	if sign != "" {
		strength = asSum
	}
	text := sign + strings.Join(top, "*")
	switch len(under) {
	case 0:
		if strength == asProduct && len(top) == 1 {
			strength = asPower
		}
	case 1:
		text += "/" + under[0]
	default:
		text += "/(" + strings.Join(under, "*") + ")"
	}
	return text, strength
}

func weight(e *expr) kind {
	if e.kind == power {
		return weight(e.args[0])
	}
	if e.kind == symbol && e.name == imaginary {
		return product // after the names
	}
	if e.kind == sum {
		return function + 1
	}
	return e.kind
}

func inProduct(e *expr) string {
	if e.kind == power {
		return writePower(e.args[0], e.args[1])
	}
	return within(e, asPower)
}

func writePower(b, e *expr) string {
	switch {
	case e.kind == number && e.num.Cmp(big.NewRat(1, 2)) == 0:
		return "sqrt(" + show(b) + ")"
	case e.kind == number && e.num.Cmp(intRat(1)) == 0:
		return within(b, asPower)
	case b.kind == symbol && b.name == euler && e.kind != number:
		return "exp(" + show(e) + ")"
	}
	return within(b, asOperand) + "^" + within(e, asOperand)
}
