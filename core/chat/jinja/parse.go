package jinja

import "fmt"

// parser builds statements and expressions by Jinja's grammar and precedence.
type parser struct {
	tokens []token
	pos    int
	depth  int
	loops  int        // around the current statement
	macro  *macroStmt // around the current statement
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
		return p.fail("unexpected end of template")
	case tokenBlockEnd:
		return p.fail("unexpected end of block")
	case tokenVarEnd:
		return p.fail("unexpected end of expression")
	case tokenBlockBegin:
		if p.pos+1 < len(p.tokens) {
			return p.fail("unexpected block %s", p.tokens[p.pos+1].text)
		}
		return p.fail("unexpected block")
	default:
		return p.fail("unexpected %q", t.text)
	}
}

// nest enters a level of nesting; the returned function leaves it.
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

// accept consumes an operator or a name if it is next.
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
