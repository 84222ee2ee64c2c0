package artifact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// maxDepth bounds the nesting of JSON documents; OCI's need six levels.
const maxDepth = 32

// DecodeStrict decodes one JSON document into the struct that v points to. It
// refuses documents that two readers may read differently: duplicate keys,
// keys that differ from a known one only in case (Go accepts them, others do
// not), invalid UTF-8, trailing data, and nesting deeper than maxDepth.
// Unknown keys are ignored, as OCI requires.
func DecodeStrict(data []byte, v any) error {
	decodes.Add(1)
	if !utf8.Valid(data) {
		return errors.New("not UTF-8")
	}
	c := &jsonCheck{dec: json.NewDecoder(bytes.NewReader(data)), known: map[string]string{}}
	c.collect(reflect.TypeOf(v), map[reflect.Type]bool{})
	if err := c.value("", 0); err != nil {
		return err
	}
	if _, err := c.dec.Token(); err != io.EOF {
		return errors.New("data after the JSON document")
	}
	return json.Unmarshal(data, v)
}

// decodes counts the documents decoded.
var decodes atomic.Int64

// Decodes returns the number of documents decoded so far. Tests use it to find
// documents that are read more than once.
func Decodes() int64 { return decodes.Load() }

// jsonCheck walks the tokens of a document.
type jsonCheck struct {
	dec   *json.Decoder
	known map[string]string // lower case → key of the target struct
}

// value checks the next value, which is below key.
func (c *jsonCheck) value(key string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	tok, err := c.dec.Token()
	if err != nil {
		return err
	}
	switch tok {
	case json.Delim('['):
		for c.dec.More() {
			if err := c.value(key, depth+1); err != nil {
				return err
			}
		}
	case json.Delim('{'):
		if err := c.object(key, depth); err != nil {
			return err
		}
	default:
		return nil
	}
	_, err = c.dec.Token()
	return err
}

// object checks the members of an object below key. The keys of annotations
// are arbitrary; all others are compared with the struct.
func (c *jsonCheck) object(key string, depth int) error {
	seen := map[string]bool{}
	for c.dec.More() {
		tok, err := c.dec.Token()
		if err != nil {
			return err
		}
		name, _ := tok.(string)
		if seen[name] {
			return fmt.Errorf("key %q twice", name)
		}
		seen[name] = true
		if want, ok := c.known[strings.ToLower(name)]; ok && key != "annotations" && name != want {
			return fmt.Errorf("key: got %q, want %q", name, want)
		}
		if err := c.value(name, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// collect notes the JSON keys of the struct type t and of those inside it.
func (c *jsonCheck) collect(t reflect.Type, done map[reflect.Type]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		c.collect(t.Elem(), done)
		return
	case reflect.Struct:
	default:
		return
	}
	if done[t] {
		return
	}
	done[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			c.known[strings.ToLower(name)] = name
		}
		c.collect(f.Type, done)
	}
}
