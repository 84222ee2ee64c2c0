package jinja

import (
	"fmt"
	"slices"
	"strconv"
)

// parser turns tokens into statements and expressions, by the grammar and the
// precedence of Jinja.
type parser struct {
	tokens []token
	pos    int
	depth  int
	loops  int // around the statement that is read
}

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokenEOF {
		p.pos++
	}
	return t
}

func (p *parser) fail(format string, args ...any) error {
	return fmt.Errorf("%w: line %d: %s", ErrSyntax, p.peek().line, fmt.Sprintf(format, args...))
}

func (p *parser) unexpected() error {
	switch t := p.peek(); t.kind {
	case tokenEOF:
		return p.fail("unexpected end of the template")
	case tokenBlockEnd:
		return p.fail("unexpected end of a block")
	case tokenVarEnd:
		return p.fail("unexpected end of an expression")
	case tokenBlockBegin:
		if p.pos+1 < len(p.tokens) {
			return p.fail("unexpected block %s", p.tokens[p.pos+1].text)
		}
		return p.fail("unexpected block")
	default:
		return p.fail("unexpected %q", t.text)
	}
}

// nest counts a level of nesting; the function it gives takes it back.
func (p *parser) nest() (func(), error) {
	if p.depth++; p.depth > maxNesting {
		return nil, fmt.Errorf("%w (line %d)", ErrNesting, p.peek().line)
	}
	return func() { p.depth-- }, nil
}

// is reports whether the next token is an operator or a name.
func (p *parser) is(kind tokenKind, text string) bool {
	t := p.peek()
	return t.kind == kind && t.text == text
}

// accept takes an operator or a name if it is next.
func (p *parser) accept(kind tokenKind, text string) bool {
	if p.is(kind, text) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expect(kind tokenKind, text string) error {
	if !p.accept(kind, text) {
		return p.unexpected()
	}
	return nil
}

// op and word are accept for the two common kinds.
func (p *parser) op(text string) bool   { return p.accept(tokenOp, text) }
func (p *parser) word(text string) bool { return p.accept(tokenName, text) }

// blocks reads text and tags up to one of the named tags, which stays.
func (p *parser) blocks(until ...string) ([]stmt, error) {
	done, err := p.nest()
	if err != nil {
		return nil, err
	}
	defer done()
	var body []stmt
	for {
		switch t := p.peek(); t.kind {
		case tokenEOF:
			return body, nil
		case tokenText:
			p.next()
			body = append(body, textStmt{t.text})
		case tokenVarBegin:
			p.next()
			e, err := p.tuple()
			if err != nil {
				return nil, err
			}
			if err := p.expect(tokenVarEnd, ""); err != nil {
				return nil, err
			}
			body = append(body, outputStmt{e, t.line})
		case tokenBlockBegin:
			name := p.tokens[p.pos+1]
			if name.kind == tokenName && slices.Contains(until, name.text) {
				return body, nil
			}
			p.next()
			s, err := p.statement()
			if err != nil {
				return nil, err
			}
			body = append(body, s)
		default:
			return nil, p.unexpected()
		}
	}
}

// end takes {% name %}.
func (p *parser) end(name string) error {
	if p.peek().kind != tokenBlockBegin {
		return p.fail("a block lacks its %s", name)
	}
	p.next()
	if err := p.expect(tokenName, name); err != nil {
		return err
	}
	return p.expect(tokenBlockEnd, "")
}

// statement reads a tag whose {% has been taken, and its body.
func (p *parser) statement() (stmt, error) {
	line := p.peek().line
	name := p.next()
	if name.kind != tokenName {
		return nil, p.fail("a block has no name")
	}
	switch name.text {
	case "if":
		return p.ifStmt(line)
	case "for":
		return p.forStmt(line)
	case "set":
		return p.setStmt(line)
	case "macro":
		return p.macro()
	case "filter":
		return p.filterBlock(line)
	case "break", "continue":
		if p.loops == 0 {
			return nil, p.fail("%s outside of a loop", name.text)
		}
		return loopStmt{name.text}, p.expect(tokenBlockEnd, "")
	case "generation": // marks what an assistant says; it changes no text
		return p.block("endgeneration")
	}
	return nil, fmt.Errorf("%w: line %d: the block %q is not supported", ErrSyntax, line, name.text)
}

// block reads a body up to the named tag, and the tag.
func (p *parser) block(end string) (stmt, error) {
	if err := p.expect(tokenBlockEnd, ""); err != nil {
		return nil, err
	}
	body, err := p.blocks(end)
	if err != nil {
		return nil, err
	}
	return scopeStmt{body}, p.end(end)
}

func (p *parser) ifStmt(line int) (stmt, error) {
	s := &ifStmt{line: line}
	for {
		cond, err := p.tuple()
		if err != nil {
			return nil, err
		}
		if err := p.expect(tokenBlockEnd, ""); err != nil {
			return nil, err
		}
		body, err := p.blocks("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		s.conds, s.bodies = append(s.conds, cond), append(s.bodies, body)
		if p.peek().kind == tokenEOF {
			return nil, p.fail("if lacks its endif")
		}
		p.next()
		switch tag := p.next(); tag.text {
		case "elif":
			continue
		case "else":
			if err := p.expect(tokenBlockEnd, ""); err != nil {
				return nil, err
			}
			if s.otherwise, err = p.blocks("endif"); err != nil {
				return nil, err
			}
			return s, p.end("endif")
		}
		return s, p.expect(tokenBlockEnd, "")
	}
}

func (p *parser) forStmt(line int) (stmt, error) {
	s := &forStmt{line: line}
	var err error
	if s.targets, err = p.targets(); err != nil {
		return nil, err
	}
	if err := p.expect(tokenName, "in"); err != nil {
		return nil, err
	}
	if s.over, err = p.or(); err != nil { // a condition belongs to the loop
		return nil, err
	}
	if p.word("if") {
		if s.cond, err = p.tuple(); err != nil {
			return nil, err
		}
	}
	if err := p.expect(tokenBlockEnd, ""); err != nil {
		return nil, err
	}
	p.loops++
	s.body, err = p.blocks("else", "endfor")
	if p.loops--; err != nil {
		return nil, err
	}
	if p.peek().kind == tokenBlockBegin && p.tokens[p.pos+1].text == "else" {
		p.next()
		p.next()
		if err := p.expect(tokenBlockEnd, ""); err != nil {
			return nil, err
		}
		if s.otherwise, err = p.blocks("endfor"); err != nil {
			return nil, err
		}
	}
	return s, p.end("endfor")
}

// targets reads the names that an assignment or a loop gives values to.
func (p *parser) targets() ([]string, error) {
	paren := p.op("(")
	var names []string
	for {
		t := p.peek()
		if t.kind != tokenName || keyword(t.text) {
			return nil, p.unexpected()
		}
		p.next()
		names = append(names, t.text)
		if !p.op(",") {
			break
		}
	}
	if paren {
		return names, p.expect(tokenOp, ")")
	}
	return names, nil
}

func keyword(name string) bool {
	switch name {
	case "and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None":
		return true
	}
	return false
}

func (p *parser) setStmt(line int) (stmt, error) {
	s := &setStmt{line: line}
	var err error
	if s.targets, err = p.targets(); err != nil {
		return nil, err
	}
	if len(s.targets) == 1 && p.op(".") {
		s.attr = p.peek().text
		if err := p.expect(tokenName, s.attr); err != nil {
			return nil, err
		}
	}
	if p.op("=") {
		if s.value, err = p.tuple(); err != nil {
			return nil, err
		}
		return s, p.expect(tokenBlockEnd, "")
	}
	for p.op("|") {
		f, err := p.filter(nil)
		if err != nil {
			return nil, err
		}
		s.filters = append(s.filters, f)
	}
	if err := p.expect(tokenBlockEnd, ""); err != nil {
		return nil, err
	}
	if s.body, err = p.blocks("endset"); err != nil {
		return nil, err
	}
	return s, p.end("endset")
}

func (p *parser) filterBlock(line int) (stmt, error) {
	s := &filterStmt{line: line}
	for first := true; first || p.op("|"); first = false {
		f, err := p.filter(nil)
		if err != nil {
			return nil, err
		}
		s.filters = append(s.filters, f)
	}
	if err := p.expect(tokenBlockEnd, ""); err != nil {
		return nil, err
	}
	var err error
	if s.body, err = p.blocks("endfilter"); err != nil {
		return nil, err
	}
	return s, p.end("endfilter")
}

func (p *parser) macro() (stmt, error) {
	m := &macroStmt{name: p.peek().text}
	if p.peek().kind != tokenName {
		return nil, p.unexpected()
	}
	p.next()
	if err := p.expect(tokenOp, "("); err != nil {
		return nil, err
	}
	for !p.op(")") {
		if len(m.params) > 0 {
			if err := p.expect(tokenOp, ","); err != nil {
				return nil, err
			}
		}
		t := p.peek()
		if t.kind != tokenName || keyword(t.text) {
			return nil, p.unexpected()
		}
		p.next()
		var absent expr
		if p.op("=") {
			var err error
			if absent, err = p.ternary(); err != nil {
				return nil, err
			}
		}
		m.params, m.defaults = append(m.params, t.text), append(m.defaults, absent)
	}
	if err := p.expect(tokenBlockEnd, ""); err != nil {
		return nil, err
	}
	loops := p.loops
	p.loops = 0
	var err error
	m.body, err = p.blocks("endmacro")
	if p.loops = loops; err != nil {
		return nil, err
	}
	return m, p.end("endmacro")
}

// tuple reads one expression, or several with commas between.
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
		n, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			return nil, p.fail("the number %s is too large", t.text)
		}
		return constExpr{n}, nil
	case tokenFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, p.fail("the number %s is too large", t.text)
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

// items reads expressions with commas between, up to a bracket.
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
					return nil, p.fail("the number %s is too large", t.text)
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

// subscript reads what stands in square brackets: an index or a slice.
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
			return nil, p.fail("a subscript is empty")
		}
		return parts[0], nil
	}
	return &sliceExpr{parts}, nil
}

// arguments reads a call's arguments, brackets included.
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
		args.plain = append(args.plain, e)
	}
	return args, nil
}

// filtersAndTests reads what follows an expression behind | and is.
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

// filter reads a filter's name and arguments; the | has been taken.
func (p *parser) filter(e expr) (*filterExpr, error) {
	t := p.next()
	if t.kind != tokenName {
		p.pos--
		return nil, p.unexpected()
	}
	run := filterNamed(t.text)
	if run == nil {
		return nil, fmt.Errorf("%w: line %d: there is no filter %q", ErrSyntax, t.line, t.text)
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

// test reads a test's name and arguments; the is has been taken.
func (p *parser) test(e expr) (expr, error) {
	negate := p.word("not")
	t := p.next()
	run := testNamed(t.text)
	if t.kind != tokenName || run == nil {
		return nil, fmt.Errorf("%w: line %d: there is no test %q", ErrSyntax, t.line, t.text)
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
