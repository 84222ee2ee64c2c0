package algebra

import (
	"math/big"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tree is a parsed expression.
type tree struct {
	op   string // "num", "name", "call", "neg", "!", "%" (percent), + - * / ^ mod
	num  *big.Rat
	name string
	args []*tree
}

// parser parses one text.
type parser struct {
	c     *calc
	text  string
	pos   int
	tight bool // "2 s" binds tighter than a division: 6 m / 2 s
	level int
	calls int  // depth of function arguments
	point bool // a number has a decimal point
}

// relations lists the signs between two expressions, longest first.
var relations = []string{"==", "<=", ">=", "!=", "=", "<", ">", "≤", "≥", "≠"}

// clause is a relation between two expressions, or one expression.
type clause struct {
	sign        string // "": left only
	left, right *tree
}

var spelled = strings.NewReplacer(" times ", "*", " plus ", "+", " minus ", "-", " divided by ", "/", "**", "^", "×", "*", "·", "*", "⋅", "*", "÷", "/", "−", "-", "–", "-", "π", " pi ", "²", "^2", "³", "^3", "\\cdot", "*", "\\times", "*")

// parse parses clauses separated by commas, semicolons or "and".
func (c *calc) parse(text string, tight bool) (list []clause, point bool) {
	if len(text) > maxText {
		c.fault("expression too long: got %d bytes, limit %d", len(text), maxText)
	}
	if !utf8.ValidString(text) {
		c.fault("expression is not valid UTF-8")
	}
	c.step(len(text))
	p := &parser{c: c, text: spelled.Replace(text), tight: tight}
	for {
		q := clause{left: p.sum()}
		if q.sign = p.accept(relations...); q.sign != "" {
			q.right = p.sum()
		}
		if list = append(list, q); len(list) > maxNames {
			c.fault("more than %d equations", maxNames)
		}
		if p.accept(",", ";", "and ") == "" {
			break
		}
	}
	if p.space(); p.pos < len(p.text) {
		c.fault("at %q: unexpected text, want an operator", shorten(p.text[p.pos:]))
	}
	return list, p.point
}

func (p *parser) space() {
	for p.pos < len(p.text) && strings.ContainsRune(" \t\r\n", rune(p.text[p.pos])) {
		p.pos++
	}
}

// accept consumes and returns the first of signs that comes next, "" if none
// does.
func (p *parser) accept(signs ...string) string {
	p.space()
	for _, s := range signs {
		if strings.HasPrefix(p.text[p.pos:], s) {
			p.pos += len(s)
			return s
		}
	}
	return ""
}

func (p *parser) peek() rune {
	p.space()
	r, size := utf8.DecodeRuneInString(p.text[p.pos:])
	if size == 0 {
		return 0
	}
	return r
}

func (p *parser) deeper() func() {
	if p.level++; p.level > maxLevel {
		p.c.fault("more than %d nested brackets and signs", maxLevel)
	}
	p.c.hold(128)
	p.c.step(8)
	return func() { p.level-- }
}

// sum: product {(+|-) product}
func (p *parser) sum() *tree {
	defer p.deeper()()
	t := p.product()
	for {
		op := p.accept("+", "-")
		if op == "" {
			return t
		}
		t = p.join(op, t, p.product())
	}
}

func (p *parser) join(op string, args ...*tree) *tree {
	p.c.hold(128)
	return &tree{op: op, args: args}
}

// product: signed {(*|/|%|) signed}
func (p *parser) product() *tree {
	t := p.signed()
	for {
		switch op := p.accept("*", "/", "%"); {
		case op == "%" && p.starts():
			t = p.join("mod", t, p.signed())
		case op == "%":
			t = p.join("%", t)
		case op != "":
			t = p.join(op, t, p.signed())
		case p.starts():
			t = p.join("*", t, p.power())
		default:
			return t
		}
	}
}

// starts reports whether an operand without a sign comes next.
func (p *parser) starts() bool {
	r := p.peek()
	if strings.HasPrefix(p.text[p.pos:], "and ") {
		return false
	}
	return r == '(' || r == '[' || r == '.' || r >= '0' && r <= '9' || nameRune(r)
}

func nameRune(r rune) bool {
	return unicode.IsLetter(r) || r == '_' || r == '√' || r == '°' || r == 'µ'
}

// signed: {+|-} power
func (p *parser) signed() *tree {
	defer p.deeper()()
	switch p.accept("+", "-") {
	case "+":
		return p.signed()
	case "-":
		return p.join("neg", p.signed())
	}
	t := p.power()
	if p.tight && t.op == "num" {
		for nameRune(p.peek()) && p.starts() {
			t = p.join("*", t, p.power())
		}
	}
	return t
}

// power: operand {!} [^ signed]
func (p *parser) power() *tree {
	t := p.operand()
	for strings.HasPrefix(p.text[p.pos:], "!") && !strings.HasPrefix(p.text[p.pos:], "!=") {
		p.pos++
		t = p.join("!", t)
	}
	if p.accept("^") != "" {
		return p.join("^", t, p.signed())
	}
	return t
}

func (p *parser) operand() *tree {
	defer p.deeper()()
	for _, pair := range []string{"()", "[]", "||"} {
		if p.accept(pair[:1]) != "" {
			t := p.sum()
			if p.accept(pair[1:]) == "" {
				p.c.fault("missing %q", pair[1:])
			}
			if pair == "||" {
				return &tree{op: "call", name: "abs", args: []*tree{t}}
			}
			return t
		}
	}
	switch r := p.peek(); {
	case r >= '0' && r <= '9' || r == '.':
		return p.number()
	case nameRune(r):
		return p.parseName()
	case r == 0:
		p.c.fault("unexpected end of expression, want a number or a name")
	}
	p.c.fault("at %q: want a number or a name", shorten(p.text[p.pos:]))
	return nil
}

// number: digits, a point, an exponent; thousands in groups of three.
func (p *parser) number() *tree {
	start := p.pos
	p.digits()
	for n := p.pos - start; n <= 3 && p.group(); {
		p.pos += 4
	}
	if p.pos < len(p.text) && p.text[p.pos] == '.' {
		p.pos++
		p.digits()
		p.point = true
	}
	digits := strings.ReplaceAll(p.text[start:p.pos], ",", "")
	if p.pos < len(p.text) && (p.text[p.pos] == 'e' || p.text[p.pos] == 'E') {
		at := p.pos
		p.pos++
		if p.pos < len(p.text) && (p.text[p.pos] == '-' || p.text[p.pos] == '+') {
			p.pos++
		}
		from := p.pos
		if p.digits(); p.pos == from {
			p.pos = at // the start of a name
		} else {
			if p.pos-from > 3 {
				p.c.fault("exponent of %s is too large", shorten(p.text[start:p.pos]))
			}
			digits += p.text[at:p.pos]
			p.point = true
		}
	}
	if len(digits) > maxBits/4 {
		p.c.fault("number too long: got %d digits", len(digits))
	}
	v, ok := new(big.Rat).SetString(digits)
	if !ok {
		p.c.fault("invalid number %q", shorten(digits))
	}
	return &tree{op: "num", num: p.c.fits(v)}
}

func (p *parser) digits() {
	for p.pos < len(p.text) && p.text[p.pos] >= '0' && p.text[p.pos] <= '9' {
		p.pos++
	}
}

// group reports whether a comma and exactly three digits come next.
func (p *parser) group() bool {
	s := p.text[p.pos:]
	if p.calls > 0 || len(s) < 4 || s[0] != ',' {
		return false
	}
	for i := 1; i < 4; i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) == 4 || s[4] < '0' || s[4] > '9'
}

// parseName: a symbol, or a function with its arguments
func (p *parser) parseName() *tree {
	start := p.pos
	for p.pos < len(p.text) {
		r, size := utf8.DecodeRuneInString(p.text[p.pos:])
		if !nameRune(r) && (p.pos == start || r < '0' || r > '9') {
			break
		}
		p.pos += size
		if r == '√' {
			break
		}
	}
	name := p.text[start:p.pos]
	if len(name) > 32 {
		p.c.fault("name %s is too long", shorten(name))
	}
	canonical := names[name]
	if canonical == "" || p.tight && p.peek() != '(' {
		return &tree{op: "name", name: name}
	}
	if p.accept("(") == "" {
		if !p.starts() {
			p.c.fault("missing argument of %s", name)
		}
		return &tree{op: "call", name: canonical, args: []*tree{p.bare()}}
	}
	var args []*tree
	p.calls++
	for {
		if args = append(args, p.sum()); len(args) > 64 {
			p.c.fault("%s has too many arguments", name)
		}
		if p.accept(",", ";") == "" {
			break
		}
	}
	p.calls--
	if p.accept(")") == "" {
		p.c.fault("missing %q after %s", ")", name)
	}
	return &tree{op: "call", name: canonical, args: args}
}

// bare parses the argument of a function without brackets: sin 2x.
func (p *parser) bare() *tree {
	t := p.power()
	for t.op == "num" && nameRune(p.peek()) && p.starts() {
		t = p.join("*", t, p.power())
	}
	return t
}
