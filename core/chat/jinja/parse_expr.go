package jinja

import (
	"slices"
	"strconv"
)

// The grammar of expressions, from the loosest operator to the tightest.

// tuple reads one or more expressions separated by commas.
func (p *parser) tuple() (expr, error) {
	first, err := p.ternary()
	if err != nil || !p.is(tokenOp, ",") {
		return first, err
	}
	t := &listExpr{items: []expr{first}, tuple: true}
	for p.op(",") {
		switch k := p.peek(); {
		case k.kind == tokenVarEnd, k.kind == tokenBlockEnd, k.kind == tokenOp && k.text == ")":
			return t, nil
		}
		e, err := p.ternary()
		if err != nil {
			return nil, err
		}
		t.items = append(t.items, e)
	}
	return t, nil
}

// ternary reads "a if cond else b".
func (p *parser) ternary() (expr, error) {
	done, err := p.nest()
	if err != nil {
		return nil, err
	}
	defer done()
	e, err := p.or()
	for err == nil && p.word("if") {
		c := &condExpr{then: e}
		if c.cond, err = p.or(); err != nil {
			return nil, err
		}
		if p.word("else") {
			if c.otherwise, err = p.ternary(); err != nil {
				return nil, err
			}
		}
		e = c
	}
	return e, err
}

// binary reads operands with operators of one precedence between them.
func (p *parser) binary(operand func() (expr, error), kind tokenKind, ops ...string) (expr, error) {
	e, err := operand()
	for err == nil {
		t := p.peek()
		if t.kind != kind || !slices.Contains(ops, t.text) {
			return e, nil
		}
		p.next()
		var right expr
		right, err = operand()
		e = &binaryExpr{t.text, e, right, t.line}
	}
	return nil, err
}

func (p *parser) or() (expr, error)  { return p.binary(p.and, tokenName, "or") }
func (p *parser) and() (expr, error) { return p.binary(p.not, tokenName, "and") }

func (p *parser) not() (expr, error) {
	if t := p.peek(); p.word("not") {
		done, err := p.nest()
		if err != nil {
			return nil, err
		}
		defer done()
		e, err := p.not()
		return &unaryExpr{"not", e, t.line}, err
	}
	return p.compare()
}

// compare reads a chain of comparisons.
func (p *parser) compare() (expr, error) {
	e, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &compareExpr{first: e, line: p.peek().line}
	for {
		t := p.peek()
		op := ""
		switch {
		case t.kind == tokenOp && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, t.text):
			op = t.text
			p.next()
		case p.word("in"):
			op = "in"
		case t.kind == tokenName && t.text == "not" && p.tokens[p.pos+1].kind == tokenName && p.tokens[p.pos+1].text == "in":
			p.next()
			p.next()
			op = "not in"
		default:
			if len(c.ops) == 0 {
				return e, nil
			}
			return c, nil
		}
		right, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, right)
	}
}

func (p *parser) sum() (expr, error)     { return p.binary(p.concat, tokenOp, "+", "-") }
func (p *parser) concat() (expr, error)  { return p.binary(p.product, tokenOp, "~") }
func (p *parser) product() (expr, error) { return p.binary(p.power, tokenOp, "*", "/", "//", "%") }
func (p *parser) power() (expr, error) {
	return p.binary(func() (expr, error) { return p.unary(true) }, tokenOp, "**")
}

func (p *parser) unary(filters bool) (expr, error) {
	done, err := p.nest()
	if err != nil {
		return nil, err
	}
	defer done()
	t := p.peek()
	var e expr
	if p.op("-") || p.op("+") {
		if e, err = p.unary(false); err == nil {
			e = &unaryExpr{t.text, e, t.line}
		}
	} else if e, err = p.primary(); err == nil {
		e, err = p.postfix(e)
	}
	if err == nil && filters {
		e, err = p.filtersAndTests(e)
	}
	return e, err
}

func (p *parser) primary() (expr, error) {
	t := p.next()
	switch t.kind {
	case tokenString:
		for p.peek().kind == tokenString {
			t.text += p.next().text
		}
		return constExpr{t.text}, nil
	case tokenInt:
		base := 10
		if len(t.text) > 1 && t.text[1] > '9' {
			base = 0 // 0x, 0o or 0b
		}
		n, err := strconv.ParseInt(t.text, base, 64)
		if err != nil {
			return nil, p.fail("number %s too large", t.text)
		}
		return constExpr{n}, nil
	case tokenFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, p.fail("number %s too large", t.text)
		}
		return constExpr{f}, nil
	case tokenName:
		switch t.text {
		case "true", "True":
			return constExpr{true}, nil
		case "false", "False":
			return constExpr{false}, nil
		case "none", "None":
			return constExpr{nil}, nil
		}
		if !keyword(t.text) {
			p.macro.mention(t.text)
			return &nameExpr{t.text}, nil
		}
	case tokenOp:
		switch t.text {
		case "(":
			if p.op(")") {
				return &listExpr{tuple: true}, nil
			}
			e, err := p.tuple()
			if err != nil {
				return nil, err
			}
			return e, p.expect(tokenOp, ")")
		case "[":
			items, err := p.items("]")
			return &listExpr{items: items}, err
		case "{":
			return p.dict()
		}
	}
	p.pos--
	return nil, p.unexpected()
}

// items reads expressions separated by commas, up to a bracket.
func (p *parser) items(closing string) ([]expr, error) {
	var items []expr
	for !p.op(closing) {
		if len(items) > 0 {
			if err := p.expect(tokenOp, ","); err != nil {
				return nil, err
			}
			if p.op(closing) {
				break
			}
		}
		e, err := p.ternary()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return items, nil
}

func (p *parser) dict() (expr, error) {
	d := &dictExpr{line: p.peek().line}
	for !p.op("}") {
		if len(d.keys) > 0 {
			if err := p.expect(tokenOp, ","); err != nil {
				return nil, err
			}
			if p.op("}") {
				break
			}
		}
		key, err := p.ternary()
		if err != nil {
			return nil, err
		}
		if err := p.expect(tokenOp, ":"); err != nil {
			return nil, err
		}
		v, err := p.ternary()
		if err != nil {
			return nil, err
		}
		d.keys, d.values = append(d.keys, key), append(d.values, v)
	}
	return d, nil
}
