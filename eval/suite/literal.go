package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxLiteral bounds the nesting of a literal.
const maxLiteral = 32

// errLiteral reports text that is not a literal of Python.
var errLiteral = errors.New("not a literal of Python")

// literal reads a literal of Python, such as a list of strings, as JSON.
func literal(text string) (json.RawMessage, error) {
	l := literals{strings.TrimSpace(text)}
	v, err := l.value(0)
	if err == nil && strings.TrimSpace(l.rest) != "" {
		err = fmt.Errorf("%w: trailing %.20q", errLiteral, l.rest)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

type literals struct{ rest string }

func (l *literals) value(depth int) (any, error) {
	l.rest = strings.TrimLeft(l.rest, " \t\r\n")
	if l.rest == "" || depth > maxLiteral {
		return nil, errLiteral
	}
	switch c := l.rest[0]; c {
	case '[', '(':
		return l.list(depth, map[byte]byte{'[': ']', '(': ')'}[c])
	case '\'', '"':
		return l.strings()
	}
	end := strings.IndexAny(l.rest, ",]) \t\r\n")
	if end < 0 {
		end = len(l.rest)
	}
	word := l.rest[:end]
	l.rest = l.rest[end:]
	switch word {
	case "True", "False":
		return word == "True", nil
	case "None":
		return nil, nil
	}
	if _, err := strconv.ParseInt(word, 10, 64); err == nil && word[0] != '+' {
		return json.Number(word), nil
	}
	if f, err := strconv.ParseFloat(word, 64); err == nil && strings.Trim(word, "+-.0123456789eE") == "" {
		return f, nil
	}
	return nil, fmt.Errorf("%w: got %.20q", errLiteral, word)
}

func (l *literals) list(depth int, closing byte) (any, error) {
	l.rest = l.rest[1:]
	out := []any{}
	for {
		l.rest = strings.TrimLeft(l.rest, " \t\r\n")
		if strings.HasPrefix(l.rest, string(closing)) {
			l.rest = l.rest[1:]
			return out, nil
		}
		v, err := l.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		l.rest = strings.TrimLeft(l.rest, " \t\r\n")
		if strings.HasPrefix(l.rest, ",") {
			l.rest = l.rest[1:]
		} else if !strings.HasPrefix(l.rest, string(closing)) {
			return nil, errLiteral
		}
	}
}

// strings reads strings that follow each other, which are one.
func (l *literals) strings() (any, error) {
	var b strings.Builder
	for l.rest != "" && (l.rest[0] == '\'' || l.rest[0] == '"') {
		quote := l.rest[0]
		i := 1
		for ; i < len(l.rest) && l.rest[i] != quote; i++ {
			switch {
			case l.rest[i] == '\n':
				return nil, errLiteral
			case l.rest[i] != '\\':
				b.WriteByte(l.rest[i])
			default:
				n, err := unescaped(l.rest[i:], &b)
				if err != nil {
					return nil, err
				}
				i += n - 1
			}
		}
		if i >= len(l.rest) {
			return nil, errLiteral
		}
		l.rest = strings.TrimLeft(l.rest[i+1:], " \t")
	}
	return b.String(), nil
}

// unescaped writes the character of an escape and returns the escape's length.
func unescaped(text string, b *strings.Builder) (int, error) {
	if len(text) < 2 {
		return 0, errLiteral
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[text[1]]
	if digits > 0 {
		if len(text) < 2+digits {
			return 0, errLiteral
		}
		r, err := strconv.ParseUint(text[2:2+digits], 16, 32)
		if err != nil || !utf8.ValidRune(rune(r)) {
			return 0, errLiteral
		}
		b.WriteRune(rune(r))
		return 2 + digits, nil
	}
	plain, ok := map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': `\`, '\'': "'", '"': `"`, '\n': "", 'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '0': "\x00"}[text[1]]
	if !ok {
		plain = text[:2] // Python keeps an unknown escape
	}
	b.WriteString(plain)
	return 2, nil
}
