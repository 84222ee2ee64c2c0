package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a schema.
const (
	maxBytes  = 1 << 20
	maxDepth  = 128
	maxValues = 1 << 16
)

// value is a JSON value with its location and the order of its members.
type value struct {
	kind    byte // one of { [ " 0 t f n
	members []member
	items   []*value
	text    string // a string, or a number's literal
	at      string // JSON pointer
}

type member struct {
	name  string
	value *value
}

// get returns a member of an object, or nil.
func (v *value) get(name string) *value {
	for _, m := range v.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// parse parses a document.
func parse(data []byte) (*value, error) {
	switch {
	case len(data) > maxBytes:
		return nil, fmt.Errorf("schema too large: got %d bytes, limit %d", len(data), maxBytes)
	case !utf8.Valid(data):
		return nil, errors.New("invalid UTF-8 in the schema")
	}
	p := parser{dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	v, err := p.value("", 0)
	if err != nil {
		return nil, err
	}
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data after the schema")
	}
	return v, nil
}

type parser struct {
	dec *json.Decoder
	n   int
}

func (p *parser) value(at string, depth int) (*value, error) {
	if p.n++; p.n > maxValues || depth > maxDepth {
		return nil, fmt.Errorf("schema exceeds %d values or a depth of %d", maxValues, maxDepth)
	}
	token, err := p.dec.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	v := &value{at: at}
	switch t := token.(type) {
	case json.Delim:
		v.kind = byte(t)
		for p.dec.More() {
			if err := p.member(v, depth); err != nil {
				return nil, err
			}
		}
		_, err = p.dec.Token()
		return v, err
	case string:
		v.kind, v.text = '"', t
		return v, checkText(t, at)
	case json.Number:
		v.kind, v.text = '0', t.String()
	case bool:
		v.kind = strconv.FormatBool(t)[0]
	default:
		v.kind = 'n'
	}
	return v, nil
}

// member reads a member of an object or an array.
func (p *parser) member(v *value, depth int) error {
	if v.kind == '[' {
		item, err := p.value(v.at+"/"+strconv.Itoa(len(v.items)), depth+1)
		v.items = append(v.items, item)
		return err
	}
	key, err := p.dec.Token()
	if err != nil {
		return err
	}
	name, _ := key.(string)
	if v.get(name) != nil {
		return fmt.Errorf("%s: duplicate key %.40q", place(v.at), name)
	}
	if err := checkText(name, v.at); err != nil {
		return err
	}
	of, err := p.value(v.at+"/"+escapePointer.Replace(name), depth+1)
	v.members = append(v.members, member{name, of})
	return err
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// checkText refuses lone surrogates, which a decoder replaces by U+FFFD.
func checkText(text, at string) error {
	if strings.ContainsRune(text, utf8.RuneError) {
		return fmt.Errorf("%s: string contains a lone surrogate or U+FFFD", place(at))
	}
	return nil
}

// place formats a pointer for messages.
func place(at string) string {
	if at == "" {
		return "the root"
	}
	return at
}

// find resolves a pointer.
func (v *value) find(pointer string) *value {
	for pointer != "" {
		rest, ok := strings.CutPrefix(pointer, "/")
		if !ok {
			return nil
		}
		name := rest
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			name = rest[:i]
		}
		pointer = rest[len(name):]
		name = unescapePointer.Replace(name)
		switch v.kind {
		case '{':
			v = v.get(name)
		case '[':
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v.items) {
				return nil
			}
			v = v.items[i]
		default:
			return nil
		}
		if v == nil {
			return nil
		}
	}
	return v
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// anything converts the value for a validator.
func (v *value) anything() any {
	switch v.kind {
	case '{':
		out := make(map[string]any, len(v.members))
		for _, m := range v.members {
			out[m.name] = m.value.anything()
		}
		return out
	case '[':
		out := make([]any, len(v.items))
		for i, item := range v.items {
			out[i] = item.anything()
		}
		return out
	case '"':
		return v.text
	case '0':
		return json.Number(v.text)
	case 't', 'f':
		return v.kind == 't'
	}
	return nil
}
