package jinja

import (
	"fmt"
	"slices"
	"strconv"
)

// The grammar of what follows an expression: attributes, subscripts, calls,
// filters and tests.

// postfix reads attributes, subscripts and calls.
func (p *parser) postfix(e expr) (expr, error) {
	for {
		line := p.peek().line
		switch {
		case p.op("."):
			t := p.next()
			switch t.kind {
			case tokenName:
				e = &attrExpr{e, t.text, line}
			case tokenInt:
				n, err := strconv.ParseInt(t.text, 10, 64)
				if err != nil {
					return nil, p.fail("number %s too large", t.text)
				}
				e = &indexExpr{e, constExpr{n}, line}
			default:
				p.pos--
				return nil, p.unexpected()
			}
		case p.op("["):
			index, err := p.subscript()
			if err != nil {
				return nil, err
			}
			e = &indexExpr{e, index, line}
		case p.is(tokenOp, "("):
			args, err := p.arguments()
			if err != nil {
				return nil, err
			}
			e = &callExpr{e, args, line}
		default:
			return e, nil
		}
	}
}

// subscript reads an index or a slice in square brackets.
func (p *parser) subscript() (expr, error) {
	var parts [3]expr
	n, colons := 0, 0
	for !p.op("]") {
		if p.op(":") {
			if colons++; colons > 2 {
				return nil, p.unexpected()
			}
			n = colons
			continue
		}
		if parts[n] != nil {
			return nil, p.unexpected()
		}
		e, err := p.ternary()
		if err != nil {
			return nil, err
		}
		parts[n] = e
	}
	if colons == 0 {
		if parts[0] == nil {
			return nil, p.fail("empty subscript")
		}
		return parts[0], nil
	}
	return &sliceExpr{parts}, nil
}

// arguments reads a call's arguments with the brackets.
func (p *parser) arguments() (args arguments, err error) {
	if err := p.expect(tokenOp, "("); err != nil {
		return args, err
	}
	for first := true; !p.op(")"); first = false {
		if !first {
			if err := p.expect(tokenOp, ","); err != nil {
				return args, err
			}
			if p.op(")") {
				break
			}
		}
		if last, err := p.spread(&args); err != nil || last {
			if err != nil {
				return args, err
			}
			continue
		}
		if t := p.peek(); t.kind == tokenName && p.tokens[p.pos+1].kind == tokenOp && p.tokens[p.pos+1].text == "=" {
			p.next()
			p.next()
			e, err := p.ternary()
			if err != nil {
				return args, err
			}
			args.names, args.named = append(args.names, t.text), append(args.named, e)
			continue
		}
		e, err := p.ternary()
		if err != nil {
			return args, err
		}
		if args.list != nil || args.dict != nil || len(args.names) > 0 {
			return args, p.fail("positional argument after named ones")
		}
		args.plain = append(args.plain, e)
	}
	return args, nil
}

// spread reads *list or **dict if it is next, and reports whether it was.
func (p *parser) spread(args *arguments) (bool, error) {
	into := &args.list
	switch {
	case args.dict == nil && p.op("**"):
		into = &args.dict
	case args.list == nil && args.dict == nil && p.op("*"):
	default:
		return false, nil
	}
	e, err := p.ternary()
	*into = e
	return true, err
}

// filtersAndTests reads the filters and tests after an expression.
func (p *parser) filtersAndTests(e expr) (expr, error) {
	for {
		switch {
		case p.op("|"):
			f, err := p.filter(e)
			if err != nil {
				return nil, err
			}
			e = f
		case p.word("is"):
			t, err := p.test(e)
			if err != nil {
				return nil, err
			}
			e = t
		case p.is(tokenOp, "("):
			line := p.peek().line
			args, err := p.arguments()
			if err != nil {
				return nil, err
			}
			e = &callExpr{e, args, line}
		default:
			return e, nil
		}
	}
}

// filter reads a filter's name and arguments after the |.
func (p *parser) filter(e expr) (*filterExpr, error) {
	t := p.next()
	if t.kind != tokenName {
		p.pos--
		return nil, p.unexpected()
	}
	run := filterNamed(t.text)
	if run == nil {
		return nil, fmt.Errorf("%w: line %d: unknown filter %q", ErrSyntax, t.line, t.text)
	}
	f := &filterExpr{name: t.text, run: run, on: e, line: t.line}
	if p.is(tokenOp, "(") {
		var err error
		if f.args, err = p.arguments(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// test reads a test's name and arguments after is.
func (p *parser) test(e expr) (expr, error) {
	negate := p.word("not")
	t := p.next()
	run := testNamed(t.text)
	if t.kind != tokenName || run == nil {
		return nil, fmt.Errorf("%w: line %d: unknown test %q", ErrSyntax, t.line, t.text)
	}
	x := &testExpr{name: t.text, run: run, on: e, negate: negate, line: t.line}
	next := p.peek()
	switch {
	case next.kind == tokenOp && next.text == "(":
		var err error
		if x.args, err = p.arguments(); err != nil {
			return nil, err
		}
	case next.kind == tokenString, next.kind == tokenInt, next.kind == tokenFloat,
		next.kind == tokenOp && (next.text == "[" || next.text == "{"),
		next.kind == tokenName && !slices.Contains([]string{"else", "or", "and", "is", "if", "not", "in"}, next.text):
		arg, err := p.primary()
		if err != nil {
			return nil, err
		}
		if arg, err = p.postfix(arg); err != nil {
			return nil, err
		}
		x.args.plain = []expr{arg}
	}
	return x, nil
}
