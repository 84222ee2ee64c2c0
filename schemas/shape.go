package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Shape is a JSON Schema from outside, such as that of a skill's arguments or result.
type Shape struct{ schema *jsonschema.Schema }

// NewShape compiles a schema of draft 2020-12 without external references.
func NewShape(schema []byte) (*Shape, error) {
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.AssertFormat = true
	const at = place + "shape.json"
	if err := c.AddResource(at, bytes.NewReader(schema)); err != nil {
		return nil, fmt.Errorf("reading schema: %w", err)
	}
	s, err := c.Compile(at)
	if err != nil {
		return nil, fmt.Errorf("reading schema: %w", err)
	}
	return &Shape{s}, nil
}

// Check validates a value of package json, whose numbers may be json.Number. The error
// lists all faults on one line.
func (s *Shape) Check(v any) error {
	err := s.schema.Validate(v)
	var broken *jsonschema.ValidationError
	if !errors.As(err, &broken) {
		return err
	}
	var all []string
	for _, leaf := range leaves(broken) {
		text := leaf.Message
		if at := where(leaf.InstanceLocation); at != "" {
			text = at + ": " + text
		}
		all = append(all, text)
	}
	return errors.New(strings.Join(all, "; "))
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
