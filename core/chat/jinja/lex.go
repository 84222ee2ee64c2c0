package jinja

import (
	"fmt"
	"strings"
	"unicode"
)

// tokenKind is the kind of a token.
type tokenKind uint8

const (
	tokenEOF tokenKind = iota
	tokenText
	tokenVarBegin   // {{
	tokenVarEnd     // }}
	tokenBlockBegin // {%
	tokenBlockEnd   // %}
	tokenName
	tokenString // text is the string's value
	tokenInt
	tokenFloat
	tokenOp
)

type token struct {
	kind tokenKind
	text string
	line int
}

// lexer splits a template into tokens and applies the white space rules: a
// minus sign strips all of it, a block or comment alone at the start of a line
// strips the blanks before it (lstrip_blocks), and one line break after a block
// or comment is dropped (trim_blocks).
type lexer struct {
	src    string
	pos    int
	line   int
	tokens []token
	fresh  bool // at the start of a line
	keep   bool // keep the white space around blocks (Syntax.Keep)
}

func trimLeft(s string) string  { return strings.TrimLeftFunc(s, unicode.IsSpace) }
func trimRight(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) }

func lex(src string, keep bool) ([]token, error) {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	if !keep {
		src = strings.TrimSuffix(src, "\n")
	}
	l := &lexer{src: src, line: 1, fresh: true, keep: keep}
	for l.pos < len(l.src) {
		if err := l.text(); err != nil {
			return nil, err
		}
	}
	l.emit(tokenEOF, "")
	return l.tokens, nil
}

func (l *lexer) emit(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, text, l.line})
}

func (l *lexer) fail(format string, args ...any) error {
	return fmt.Errorf("%w: line %d: %s", ErrSyntax, l.line, fmt.Sprintf(format, args...))
}

// advance moves by n bytes.
func (l *lexer) advance(n int) {
	l.line += strings.Count(l.src[l.pos:l.pos+n], "\n")
	l.pos += n
}

// text reads text up to the next tag, and the tag.
func (l *lexer) text() error {
	rest := l.src[l.pos:]
	at := 0
	for {
		i := strings.IndexByte(rest[at:], '{')
		if i < 0 || at+i+1 >= len(rest) {
			at = len(rest)
			break
		}
		at += i
		if c := rest[at+1]; c == '{' || c == '%' || c == '#' {
			break
		}
		at++
	}
	data := rest[:at]
	if at == len(rest) {
		l.data(data)
		l.advance(at)
		return nil
	}
	kind := rest[at+1]
	sign := byte(0)
	if at+2 < len(rest) {
		sign = rest[at+2]
	}
	switch {
	case sign == '-':
		data = trimRight(data)
	case sign != '+' && kind != '{' && !l.keep:
		if line := strings.LastIndexByte(data, '\n') + 1; (line > 0 || l.fresh) && trimLeft(data[line:]) == "" {
			data = data[:line]
		}
	}
	l.data(data)
	l.advance(at + 2)
	if sign == '-' || sign == '+' && kind != '{' {
		l.advance(1)
	}
	switch kind {
	case '#':
		return l.comment()
	case '{':
		l.emit(tokenVarBegin, "")
		return l.expression("}}", tokenVarEnd)
	}
	if l.raw() {
		return l.rawText()
	}
	l.emit(tokenBlockBegin, "")
	return l.expression("%}", tokenBlockEnd)
}

func (l *lexer) data(s string) {
	if s != "" {
		l.emit(tokenText, s)
	}
}

// comment skips {# … #}.
func (l *lexer) comment() error {
	i := strings.Index(l.src[l.pos:], "#}")
	if i < 0 {
		return l.fail("unclosed comment")
	}
	sign := byte(0)
	if i > 0 {
		sign = l.src[l.pos+i-1]
	}
	l.advance(i + 2)
	l.afterTag(sign, true)
	return nil
}

// afterTag applies the white space rules after a tag. sign is the character
// before the closing bracket.
func (l *lexer) afterTag(sign byte, block bool) {
	rest := l.src[l.pos:]
	l.fresh = false
	switch {
	case sign == '-':
		n := len(rest) - len(trimLeft(rest))
		l.fresh = n > 0 && rest[n-1] == '\n'
		l.advance(n)
	case block && sign != '+' && !l.keep && strings.HasPrefix(rest, "\n"):
		l.fresh = true
		l.advance(1)
	}
}

// raw reports whether a block is {% raw %}, and skips it.
func (l *lexer) raw() bool {
	rest := trimLeft(l.src[l.pos:])
	after, ok := strings.CutPrefix(rest, "raw")
	if !ok {
		return false
	}
	after = trimLeft(after)
	sign := byte(0)
	if strings.HasPrefix(after, "-") || strings.HasPrefix(after, "+") {
		sign, after = after[0], after[1:]
	}
	after, ok = strings.CutPrefix(after, "%}")
	if !ok {
		return false
	}
	l.advance(len(l.src) - l.pos - len(after))
	l.afterTag(sign, false) // the line break after it stays
	return true
}

// rawText reads up to {% endraw %}.
func (l *lexer) rawText() error {
	for at := l.pos; ; {
		i := strings.Index(l.src[at:], "{%")
		if i < 0 {
			return l.fail("unclosed raw")
		}
		begin := at + i
		at = begin + 2
		inner := l.src[at:]
		strip := strings.HasPrefix(inner, "-")
		inner = trimLeft(strings.TrimLeft(inner, "-+"))
		inner, ok := strings.CutPrefix(inner, "endraw")
		inner = trimLeft(inner)
		sign := byte(0)
		if strings.HasPrefix(inner, "-") || strings.HasPrefix(inner, "+") {
			sign, inner = inner[0], inner[1:]
		}
		inner, closed := strings.CutPrefix(inner, "%}")
		if !ok || !closed {
			continue
		}
		data := l.src[l.pos:begin]
		if strip {
			data = trimRight(data)
		}
		l.data(data)
		l.advance(len(l.src) - l.pos - len(inner))
		l.afterTag(sign, true)
		return nil
	}
}

// operators, the longer ones first.
var operators = []string{"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "<", ">", "=", "|", "~", ".", ",", ":", ";", "(", ")", "[", "]", "{", "}"}

// expression reads tokens up to the closing bracket.
func (l *lexer) expression(closing string, end tokenKind) error {
	var open []byte // brackets within the expression
	for {
		rest := l.src[l.pos:]
		n := len(rest) - len(trimLeft(rest))
		l.advance(n)
		rest = rest[n:]
		if rest == "" {
			return l.fail("unclosed tag, want %s", closing)
		}
		if len(open) == 0 {
			sign := byte(0)
			if rest[0] == '-' || rest[0] == '+' && end == tokenBlockEnd {
				sign = rest[0]
			}
			if after, ok := strings.CutPrefix(strings.TrimPrefix(rest, string(sign)), closing); ok {
				l.emit(end, "")
				l.advance(len(rest) - len(after))
				l.afterTag(sign, end == tokenBlockEnd)
				return nil
			}
		}
		if err := l.token(rest, &open); err != nil {
			return err
		}
	}
}

// token reads one token of an expression.
func (l *lexer) token(rest string, open *[]byte) error {
	c := rest[0]
	switch {
	case c == '"' || c == '\'':
		return l.string(rest, c)
	case c >= '0' && c <= '9':
		l.number(rest)
		return nil
	case isWord(c):
		n := 1
		for n < len(rest) && (isWord(rest[n]) || rest[n] >= '0' && rest[n] <= '9') {
			n++
		}
		l.emit(tokenName, rest[:n])
		l.advance(n)
		return nil
	}
	for _, op := range operators {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		switch op {
		case "(", "[", "{":
			*open = append(*open, op[0])
		case ")", "]", "}":
			want := map[string]byte{")": '(', "]": '[', "}": '{'}[op]
			if len(*open) == 0 || (*open)[len(*open)-1] != want {
				return l.fail("unexpected %s", op)
			}
			*open = (*open)[:len(*open)-1]
		}
		l.emit(tokenOp, op)
		l.advance(len(op))
		return nil
	}
	return l.fail("unexpected character %q", c)
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// number reads digits, and an optional fraction.
func (l *lexer) number(rest string) {
	digits := func(i int) int {
		for i < len(rest) && (rest[i] >= '0' && rest[i] <= '9' || rest[i] == '_') {
			i++
		}
		return i
	}
	n, kind := digits(0), tokenInt
	if n == 1 && rest[0] == '0' && n < len(rest) && strings.IndexByte("xXoObB", rest[1]) >= 0 {
		for n++; n < len(rest) && (isWord(rest[n]) || rest[n] >= '0' && rest[n] <= '9'); {
			n++
		}
		l.emit(kind, rest[:n])
		l.advance(n)
		return
	}
	// After a dot it is an element of an element: a.0.1.
	element := l.pos > 0 && l.src[l.pos-1] == '.'
	if !element && n+1 < len(rest) && rest[n] == '.' && rest[n+1] >= '0' && rest[n+1] <= '9' {
		n, kind = digits(n+1), tokenFloat
	}
	if n < len(rest) && (rest[n] == 'e' || rest[n] == 'E') {
		i := n + 1
		if i < len(rest) && (rest[i] == '+' || rest[i] == '-') {
			i++
		}
		if m := digits(i); m > i {
			n, kind = m, tokenFloat
		}
	}
	l.emit(kind, strings.ReplaceAll(rest[:n], "_", ""))
	l.advance(n)
}

// string reads a string literal with Python's escapes.
func (l *lexer) string(rest string, quote byte) error {
	var b strings.Builder
	for i := 1; i < len(rest); {
		switch c := rest[i]; {
		case c == quote:
			l.emit(tokenString, b.String())
			l.advance(i + 1)
			return nil
		case c == '\\' && i+1 < len(rest):
			n, err := unescape(&b, rest[i+1:])
			if err != nil {
				return l.fail("%v", err)
			}
			i += 1 + n
		default:
			b.WriteByte(c)
			i++
		}
	}
	return l.fail("unclosed string")
}

// unescape writes the escape after a backslash and returns its length. An
// unknown escape is kept with its backslash.
func unescape(b *strings.Builder, s string) (int, error) {
	if i := strings.IndexByte("nrtabfv\\'\"0\n", s[0]); i >= 0 && !(s[0] == '0' && len(s) > 1 && s[1] >= '0' && s[1] <= '7') {
		b.WriteString([]string{"\n", "\r", "\t", "\a", "\b", "\f", "\v", "\\", "'", "\"", "\x00", ""}[i])
		return 1, nil
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[0]]
	if digits == 0 {
		b.WriteByte('\\')
		b.WriteByte(s[0])
		return 1, nil
	}
	if len(s) <= digits {
		return 0, fmt.Errorf("escape \\%s is truncated", s)
	}
	r := rune(0)
	for _, c := range []byte(s[1 : 1+digits]) {
		v := strings.IndexByte("0123456789abcdef", c|0x20)
		if v < 0 || c < '0' {
			return 0, fmt.Errorf("escape \\%s is not a number", s[:1+digits])
		}
		r = r<<4 | rune(v)
	}
	b.WriteRune(r)
	return 1 + digits, nil
}
