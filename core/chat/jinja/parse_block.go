package jinja

import (
	"fmt"
	"slices"
)

// The grammar of blocks: text and tags.

// blocks reads text and tags up to one of the named tags, which is not
// consumed.
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

// end consumes {% name %}.
func (p *parser) end(name string) error {
	if p.peek().kind != tokenBlockBegin {
		return p.fail("missing %s", name)
	}
	p.next()
	if err := p.expect(tokenName, name); err != nil {
		return err
	}
	return p.expect(tokenBlockEnd, "")
}

// statement reads a tag after its {%, and its body.
func (p *parser) statement() (stmt, error) {
	line := p.peek().line
	name := p.next()
	if name.kind != tokenName {
		return nil, p.fail("missing block name")
	}
	switch name.text {
	case "if":
		return p.ifStmt(line)
	case "for":
		return p.forStmt(line)
	case "set":
		return p.setStmt(line)
	case "macro":
		return p.macroStmt()
	case "call":
		return p.callStmt(line)
	case "filter":
		return p.filterBlock(line)
	case "break", "continue":
		if p.loops == 0 {
			return nil, p.fail("%s outside of a loop", name.text)
		}
		return loopStmt{name.text}, p.expect(tokenBlockEnd, "")
	case "generation": // marks an assistant's output without changing the text
		return p.block("endgeneration")
	}
	return nil, fmt.Errorf("%w: line %d: unsupported block %q", ErrSyntax, line, name.text)
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
			return nil, p.fail("missing endif")
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

// targets reads the names of an assignment or a loop.
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

func (p *parser) macroStmt() (stmt, error) {
	m := &macroStmt{name: p.peek().text}
	if p.peek().kind != tokenName {
		return nil, p.unexpected()
	}
	p.next()
	if err := p.expect(tokenOp, "("); err != nil {
		return nil, err
	}
	return m, p.macroBody(m, "endmacro")
}

// callStmt reads a call block.
func (p *parser) callStmt(line int) (stmt, error) {
	body := &macroStmt{name: "caller"}
	if p.op("(") {
		if err := p.parameters(body); err != nil {
			return nil, err
		}
	}
	e, err := p.ternary()
	if err != nil {
		return nil, err
	}
	call, ok := e.(*callExpr)
	if !ok {
		return nil, p.fail("call without a macro call")
	}
	return &callStmt{call, body, line}, p.rest(body, "endcall")
}

// macroBody reads the parameters of a macro after their opening bracket, and
// its body.
func (p *parser) macroBody(m *macroStmt, end string) error {
	if err := p.parameters(m); err != nil {
		return err
	}
	return p.rest(m, end)
}

// rest reads a macro's body from the end of its tag on, and records uses of
// caller, varargs and kwargs.
func (p *parser) rest(m *macroStmt, end string) error {
	if err := p.expect(tokenBlockEnd, ""); err != nil {
		return err
	}
	loops, outer := p.loops, p.macro
	p.loops, p.macro = 0, m
	var err error
	m.body, err = p.blocks(end)
	p.loops, p.macro = loops, outer
	if outer != nil { // a use in an inner macro counts
		outer.caller, outer.varargs, outer.kwargs = outer.caller || m.caller, outer.varargs || m.varargs, outer.kwargs || m.kwargs
	}
	if err != nil {
		return err
	}
	return p.end(end)
}

// parameters reads the parameters of a macro up to the closing bracket.
func (p *parser) parameters(m *macroStmt) error {
	for !p.op(")") {
		if len(m.params) > 0 {
			if err := p.expect(tokenOp, ","); err != nil {
				return err
			}
		}
		t := p.peek()
		if t.kind != tokenName || keyword(t.text) {
			return p.unexpected()
		}
		p.next()
		var absent expr
		if p.op("=") {
			var err error
			if absent, err = p.ternary(); err != nil {
				return err
			}
		} else if n := len(m.defaults); n > 0 && m.defaults[n-1] != nil {
			return p.fail("parameter %s without a default after one with a default", t.text)
		}
		m.params, m.defaults = append(m.params, t.text), append(m.defaults, absent)
	}
	return nil
}
