// Package algebra implements the tool sympy-lite: school algebra in exact
// numbers.
//
// A text is parsed (parse.go) and built into an expression in normal form
// (expr.go, power.go, call.go), which show.go formats. To multiply out, divide
// or cancel, an expression becomes a quotient of polynomials (ratio.go) over
// atoms: unknowns, roots and functions (poly.go). Divisors of polynomials are
// guessed from their roots in double precision and proved by division
// (factor.go). An equation is a polynomial in one atom, which is then inverted
// (solve.go); systems are solved by substitution (system.go). Units have their
// own arithmetic (unit.go, units.go).
//
// Every text is untrusted: sizes are checked before a number or a polynomial
// is computed, and all work is charged to the call.
package algebra

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"

	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
)

// Tool is the function of the skill sympy-lite: {"expr": text, "op": text} to
// {"result": value}.
//
//	simplify     one number or text; for a comparison of numbers, whether it holds
//	expand       multiplied out
//	factor       a product; of an integer, its prime factors
//	eval         in decimals, 15 digits
//	solve [x,y]  the solutions of one equation, "all" if every number is one;
//	             of several equations {"x":…,"y":…}, or a list of such objects
//	diff [x [n]] the derivative
//	units        whether terms that are added or compared have the same dimension
//	convert UNIT the number in that unit
//
// An integer is a JSON number, a fraction is "7/2", or 3.5 if the question has
// a decimal point; anything else is text.
func Tool(call *builtin.Call) (any, error) {
	var args struct{ Expr, Op string }
	if err := json.Unmarshal(call.Args, &args); err != nil {
		return nil, sandbox.Faultf(sandbox.Args, "reading the arguments: %v", err)
	}
	result, err := Answer(call, args.Expr, args.Op)
	if err != nil {
		return nil, err
	}
	return map[string]any{"result": result}, nil
}

// Answer performs an operation of [Tool] and charges m for it.
func Answer(m meter, text, op string) (result any, err error) {
	c := &calc{m: m}
	err = attempt(func() { result = c.answer(text, strings.TrimSpace(op)) })
	return result, err
}

func (c *calc) answer(text, op string) any {
	word, rest, _ := strings.Cut(op, " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "units":
		return c.consistent(text)
	case "convert":
		return c.convert(text, strings.TrimSpace(strings.TrimPrefix(rest, "to ")))
	}
	clauses, point := c.parse(text, false)
	switch word {
	case "solve":
		return c.answerSolve(clauses, strings.TrimSpace(strings.TrimPrefix(rest, "for ")), point)
	case "simplify", "expand", "factor", "eval":
		if rest != "" {
			c.fault("unexpected argument of %s: %q", word, shorten(rest))
		}
	case "diff":
	default:
		c.fault("unknown op %q: want simplify, expand, factor, eval, solve, diff, units or convert UNIT", shorten(op))
	}
	clauses = c.substitute(clauses)
	if q := clauses[0]; q.sign != "" {
		return c.relation(q, word)
	}
	e := c.build(clauses[0].left)
	switch word {
	case "simplify":
		return result(c.simplify(e), point)
	case "expand":
		return result(c.expand(e), point)
	case "factor":
		if e.kind == number && e.num.IsInt() && e.num.Num().BitLen() > 1 {
			return c.primeText(e.num.Num())
		}
		return result(c.factor(e), point)
	case "diff":
		return result(c.answerDiff(e, rest), point)
	}
	return c.evaluate(e)
}

// substitute replaces names in the first clause by the values after it, as in
// "x^2, x = 3".
func (c *calc) substitute(list []clause) []clause {
	if len(list) == 1 {
		return list
	}
	for _, q := range list[1:] {
		if q.sign != "=" && q.sign != "==" || q.left.op != "name" {
			c.fault("want one expression, optionally followed by values such as x = 3")
		}
		list[0].left = replace(list[0].left, q.left.name, q.right)
		if list[0].right != nil {
			list[0].right = replace(list[0].right, q.left.name, q.right)
		}
		c.step(64)
	}
	return list[:1]
}

func replace(t *tree, name string, by *tree) *tree {
	if t.op == "name" && t.name == name {
		return by
	}
	out := *t
	out.args = make([]*tree, len(t.args))
	for i, a := range t.args {
		out.args[i] = replace(a, name, by)
	}
	return &out
}

// relation decides a comparison of numbers, or simplifies both sides.
func (c *calc) relation(q clause, op string) any {
	a, b := c.build(q.left), c.build(q.right)
	if op != "simplify" && op != "eval" {
		c.fault("%s needs an expression, got a comparison", op)
	}
	if holds, ok := c.compare(q.sign, a, b); ok {
		return holds
	}
	return show(c.simplify(a)) + " " + q.sign + " " + show(c.simplify(b))
}

// result returns an expression as a JSON value.
func result(e *expr, point bool) any {
	if e.kind != number {
		return show(e)
	}
	if e.num.IsInt() {
		return json.Number(e.num.Num().String())
	}
	if point {
		d := formatRat(e.num)
		if back, ok := new(big.Rat).SetString(string(d)); ok && back.Cmp(e.num) == 0 {
			return d
		}
	}
	return e.num.RatString()
}

// evaluate returns a value in decimals.
func (c *calc) evaluate(e *expr) any {
	e = c.rebuild(e, func(a *expr) *expr { return a })
	if e.kind == number {
		return formatRat(e.num)
	}
	if names := unknowns(e); len(names) > 0 {
		c.fault("%s has no value", strings.Join(names, ", "))
	}
	v, ok := decimal(e, nil)
	if !ok {
		c.fault("%s has no value in decimals", shorten(show(e)))
	}
	return approximate(v)
}

func (c *calc) answerDiff(e *expr, rest string) *expr {
	words := strings.Fields(rest)
	times := 1
	if len(words) > 1 {
		n, err := strconv.Atoi(words[1])
		if err != nil || n < 1 || n > 8 || len(words) > 2 {
			c.fault("diff %q: want a name and an order from 1 to 8", shorten(rest))
		}
		times = n
	}
	var x string
	switch names := unknowns(e); {
	case len(words) > 0:
		x = c.name(words[0])
	case len(names) == 1:
		x = names[0]
	case len(names) == 0:
		return c.int(0)
	case e.has("x"):
		x = "x"
	default:
		c.fault("ambiguous variable: %s; want for example diff %s", strings.Join(names, ", "), names[0])
	}
	for range times {
		e = c.simplify(c.diff(e, x))
	}
	return e
}

// name parses the name of an unknown.
func (c *calc) name(s string) string {
	list, _ := c.parse(s, false)
	e := c.build(list[0].left)
	if len(list) != 1 || list[0].sign != "" || e.kind != symbol || len(unknowns(e)) != 1 {
		c.fault("%q is not the name of an unknown", shorten(s))
	}
	return e.name
}

// answerSolve solves for the names in rest, by default for all unknowns.
func (c *calc) answerSolve(clauses []clause, rest string, point bool) any {
	var eqs []*expr
	for _, q := range clauses {
		e := c.build(q.left)
		switch q.sign {
		case "=", "==":
			e = c.sub(e, c.build(q.right))
		case "":
		default:
			c.fault("%q: inequalities are not supported", q.sign)
		}
		eqs = append(eqs, e)
	}
	names := unknowns(eqs...)
	if rest != "" {
		names = nil
		for _, s := range strings.FieldsFunc(rest, func(r rune) bool { return r == ',' || r == ' ' }) {
			if names = append(names, c.name(s)); len(names) > maxNames {
				c.fault("more than %d unknowns", maxNames)
			}
		}
	}
	switch {
	case len(names) > maxNames:
		c.fault("more than %d unknowns", maxNames)
	case len(eqs) == 1 && len(names) == 0:
		if c.simplify(eqs[0]).is(0) {
			return "all"
		}
		return []any{}
	case len(eqs) == 1 && len(names) == 1:
		return solutions(c.solve(eqs[0], names[0]), point)
	case len(eqs) == 1 && rest == "" && eqs[0].has("x"):
		return solutions(c.solve(eqs[0], "x"), point)
	case len(eqs) == 1:
		c.fault("ambiguous unknown: %s; want for example solve %s", strings.Join(names, ", "), names[0])
	}
	list := []any{}
	for _, s := range c.system(eqs, names) {
		if !c.satisfies(eqs, s) {
			continue
		}
		o := map[string]any{}
		for name, e := range s {
			o[name] = result(e, point)
		}
		list = append(list, o)
	}
	if len(list) == 1 {
		return list[0]
	}
	return list
}

func solutions(s solution, point bool) any {
	if s.every {
		return "all"
	}
	list := []any{}
	for _, v := range s.values {
		if v.exact != nil {
			list = append(list, result(v.exact, point))
		} else {
			list = append(list, approximate(v.near))
		}
	}
	return list
}
