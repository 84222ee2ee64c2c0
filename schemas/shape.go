package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Shape is a JSON Schema from outside, such as that of a skill's arguments or result.
// References leave it nowhere.
type Shape struct {
	compiler *compiler
	base     resource
	root     *rule
}

// ShapeOptions select how a [Shape] is read.
type ShapeOptions struct {
	// Formats checks the formats of the specification. Otherwise they are annotations.
	Formats bool
	// Pattern compiles regular expressions; those that it refuses are RE2's. nil: none.
	Pattern func(expr string) (Matcher, error)
}

// NewShape reads a schema, whose formats are checked.
func NewShape(schema []byte) (*Shape, error) {
	v, err := decode(schema)
	if err != nil {
		return nil, fmt.Errorf("reading schema: %w", err)
	}
	s, err := ReadShape(v, ShapeOptions{Formats: true})
	if err != nil {
		return nil, fmt.Errorf("reading schema: %w", err)
	}
	return s, nil
}

// ReadShape reads a decoded schema with numbers as json.Number.
func ReadShape(schema any, opt ShapeOptions) (*Shape, error) {
	c := newCompiler(func(url string) (any, error) { return nil, fmt.Errorf("unknown reference %q", url) })
	c.eager, c.other = true, opt.Pattern
	if opt.Formats {
		c.form = standardForm
	}
	at := &url.URL{Scheme: "mm", Path: "/shape.json"}
	if m, ok := schema.(map[string]any); ok {
		if id, ok := m["$id"].(string); ok {
			var err error
			if at, err = at.Parse(id); err != nil {
				return nil, fmt.Errorf("/$id: %w", err)
			}
			at.Fragment = ""
		}
	}
	base := named(at)
	if err := c.add(base, schema); err != nil {
		return nil, err
	}
	s := &Shape{compiler: c, base: base}
	var err error
	if s.root, err = c.at(place{base, ""}); err != nil {
		return nil, err
	}
	if r := endless(s.root); r != nil {
		return nil, fmt.Errorf("infinite loop of references at %s", strings.TrimPrefix(r.place, base.name))
	}
	return s, nil
}

// Check validates a value of package json, whose numbers may be json.Number. The error
// lists all faults on one line.
func (s *Shape) Check(v any) error {
	var all []string
	for _, f := range s.root.validate(v) {
		text := f.message
		if at := where(f.at); at != "" {
			text = at + ": " + text
		}
		all = append(all, text)
	}
	if all == nil {
		return nil
	}
	return errors.New(strings.Join(all, "; "))
}

// Accepts reports whether the schema at a JSON pointer accepts a value.
func (s *Shape) Accepts(pointer string, v any) (bool, error) {
	r, err := s.compiler.at(place{s.base, pointer})
	if err != nil {
		return false, err
	}
	var e evaluator
	return e.check(r, v, "", nil), nil
}

// ReadValue decodes one JSON value, at most 64 levels deep, and keeps numbers as
// json.Number. Data after it and duplicate keys are errors.
func ReadValue(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := readValue(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err == nil {
		return nil, errors.New("data after the value")
	} else if end := dec.InputOffset(); len(bytes.Trim(data[end:], " \t\r\n")) > 0 {
		return nil, errors.New("data after the value")
	}
	return v, nil
}

func readValue(dec *json.Decoder, level int) (any, error) {
	if level > MaxDepth {
		return nil, fmt.Errorf("nested deeper than %d", MaxDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		m := map[string]any{}
		for dec.More() {
			tok, err := dec.Token()
			if err != nil {
				return nil, err
			}
			key, _ := tok.(string) // keys are always strings
			if _, ok := m[key]; ok {
				return nil, fmt.Errorf("duplicate key %q", shorten(key))
			}
			if m[key], err = readValue(dec, level+1); err != nil {
				return nil, err
			}
		}
		_, err := dec.Token()
		return m, err
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := readValue(dec, level+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.Token()
		return list, err
	}
	return tok, nil
}
