package corpus

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"mm-abi.org/mm/internal/diag"
)

// maxDepth is the maximum nesting of a JSON row.
const maxDepth = 64

// scanner checks the syntax of a JSON text and finds the members of its object.
type scanner struct {
	b  []byte
	at int
}

// members calls each for the members of the object in b. The key and the value
// are as written.
func members(b []byte, each func(key, value []byte) error) error {
	s := &scanner{b: b}
	s.space()
	if s.peek() != '{' {
		return faultf(diag.RowFault, "got no JSON object")
	}
	if err := s.object(1, each); err != nil {
		return err
	}
	s.space()
	if s.at != len(b) {
		return s.fault("data after the object")
	}
	return nil
}

func (s *scanner) fault(what string) error {
	return faultf(diag.RowFault, "column %d: %s", s.at+1, what)
}

func (s *scanner) peek() byte {
	if s.at < len(s.b) {
		return s.b[s.at]
	}
	return 0
}

func (s *scanner) space() {
	for s.at < len(s.b) {
		switch s.b[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// object scans an object at s.at.
func (s *scanner) object(depth int, each func(key, value []byte) error) error {
	return s.list(depth, '}', func() error {
		from := s.at
		if s.peek() != '"' {
			return s.fault("want a key")
		}
		if err := s.text(); err != nil {
			return err
		}
		key := s.b[from:s.at]
		s.space()
		if s.peek() != ':' {
			return s.fault("want :")
		}
		s.at++
		s.space()
		from = s.at
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if each == nil {
			return nil
		}
		return each(key, s.b[from:s.at])
	})
}

// list scans items, separated by commas, up to the closing bracket.
func (s *scanner) list(depth int, closing byte, item func() error) error {
	if depth > maxDepth {
		return faultf(diag.RowLimit, "nested deeper than %d", maxDepth)
	}
	s.at++
	s.space()
	if s.peek() == closing {
		s.at++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.at++
			s.space()
		case closing:
			s.at++
			return nil
		default:
			return s.fault("want , or " + string(closing))
		}
	}
}

func (s *scanner) value(depth int) error {
	switch c := s.peek(); {
	case c == '"':
		return s.text()
	case c == '{':
		return s.object(depth, nil)
	case c == '[':
		return s.list(depth, ']', func() error { return s.value(depth + 1) })
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.b[s.at:], []byte(word)) {
			s.at += len(word)
			return nil
		}
	}
	return s.fault("want a value")
}

// text scans a string.
func (s *scanner) text() error {
	for s.at++; s.at < len(s.b); s.at++ {
		switch c := s.b[s.at]; {
		case c == '"':
			s.at++
			return nil
		case c < 0x20:
			return s.fault("control character in a string")
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		}
	}
	return s.fault("unfinished string")
}

// escape scans an escape and stops at its last byte.
func (s *scanner) escape() error {
	s.at++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		if len(s.b)-s.at > 4 {
			if _, err := strconv.ParseUint(string(s.b[s.at+1:s.at+5]), 16, 16); err == nil && !bytes.ContainsAny(s.b[s.at+1:s.at+5], "+-_") {
				s.at += 4
				return nil
			}
		}
	}
	return s.fault("invalid escape")
}

func (s *scanner) digits() bool {
	from := s.at
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.at++
	}
	return s.at > from
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.at++
	}
	if s.peek() == '0' {
		s.at++
	} else if !s.digits() {
		return s.fault("invalid number")
	}
	if s.peek() == '.' {
		s.at++
		if !s.digits() {
			return s.fault("invalid number")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		if c := s.peek(); c == '+' || c == '-' {
			s.at++
		}
		if !s.digits() {
			return s.fault("invalid number")
		}
	}
	return nil
}

// decodeText decodes a JSON string.
func decodeText(raw []byte) (string, error) {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", faultf(diag.RowFault, "%v", err)
	}
	if strings.ContainsRune(s, utf8.RuneError) && !bytes.Contains(raw, []byte("\uFFFD")) && !bytes.Contains(bytes.ToLower(raw), []byte(`\ufffd`)) {
		return "", faultf(diag.RowText, "half of a surrogate pair")
	}
	return s, nil
}

// decodeValue decodes a JSON value of checked syntax: numbers to int or
// float64.
func decodeValue(raw []byte) (any, error) {
	switch raw[0] {
	case '"':
		return decodeText(raw)
	case '{':
		m := map[string]any{}
		s := &scanner{b: raw}
		err := s.object(1, func(k, v []byte) error {
			key, err := decodeText(k)
			if err != nil {
				return err
			}
			if _, ok := m[key]; ok {
				return faultf(diag.RowFault, "duplicate key %q", key)
			}
			m[key], err = decodeValue(v)
			return err
		})
		return m, err
	case '[':
		items := []any{}
		s := &scanner{b: raw}
		err := s.list(1, ']', func() error {
			from := s.at
			if err := s.value(1); err != nil {
				return err
			}
			v, err := decodeValue(raw[from:s.at])
			items = append(items, v)
			return err
		})
		return items, err
	case 't', 'f':
		return raw[0] == 't', nil
	case 'n':
		return nil, nil
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return int(n), nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, faultf(diag.RowLimit, "number %.40s exceeds 64 bits", raw)
	}
	return f, nil
}

// appendText appends s as a JSON string. s is valid UTF-8.
func appendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(b, s[from:]...), '"')
}
