package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// text converts a value like Python's str.
func (r *run) text(v value) (string, error) {
	switch v := plain(v).(type) {
	case string:
		return v, nil
	case undefined:
		if r.strict {
			return "", fmt.Errorf("undefined %s", v.what)
		}
		return "", nil
	}
	var b strings.Builder
	err := r.repr(&b, v, 0)
	return b.String(), err
}

// repr converts a value like Python's repr.
func (r *run) repr(b *strings.Builder, v value, depth int) error {
	if err := r.step(1); err != nil {
		return err
	}
	if depth > maxNesting {
		return ErrNesting
	}
	if b.Len() > maxOutput {
		return ErrOutput
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case bigInt:
		b.WriteString(string(v))
	case float64:
		b.WriteString(floatText(v))
	case string:
		writeQuoted(b, v)
		return r.step(len(v) / 16)
	case markup:
		b.WriteString("Markup(")
		writeQuoted(b, string(v))
		b.WriteByte(')')
		return r.step(len(v) / 16)
	case undefined:
		b.WriteString("Undefined")
	case *list:
		open, closing := "[", "]"
		if v.tuple {
			open, closing = "(", ")"
		}
		b.WriteString(open)
		for i, item := range v.items {
			if i > 0 {
				b.WriteString(", ")
			}
			if err := r.repr(b, item, depth+1); err != nil {
				return err
			}
		}
		if v.tuple && len(v.items) == 1 {
			b.WriteByte(',')
		}
		b.WriteString(closing)
	case *dict:
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			if err := r.repr(b, k, depth+1); err != nil {
				return err
			}
			b.WriteString(": ")
			if err := r.repr(b, v.vals[i], depth+1); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	default:
		b.WriteString("<" + kindOf(v) + ">")
	}
	return nil
}

// floatText formats a float as Python does: 1.0, 0.1, 1e+16.
func floatText(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// writeQuoted writes a quoted string, in single quotes unless it contains only
// those.
func writeQuoted(b *strings.Builder, s string) {
	q := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	b.WriteByte(q)
	for i, c := range s {
		switch {
		case c == rune(q) || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(b, `\x%02x`, s[i])
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			fmt.Fprintf(b, `\U%08x`, c)
		}
	}
	b.WriteByte(q)
}
