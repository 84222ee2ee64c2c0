package artifact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	if err := checkSyntax(data); err != nil {
		return err
	}
	c := &jsonCheck{data: data, known: map[string]string{}}
	c.collect(reflect.TypeOf(v), map[reflect.Type]bool{})
	if err := c.value("", 0); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// checkSyntax returns the error of data that is not one JSON document.
func checkSyntax(data []byte) error {
	if json.Valid(data) {
		return nil
	}
	var first json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&first); err != nil {
		return err
	}
	return errors.New("data after the JSON document")
}

// decodes counts the documents decoded.
var decodes atomic.Int64

// Decodes returns the number of documents decoded so far. Tests use it to find
// documents that are read more than once.
func Decodes() int64 { return decodes.Load() }

// jsonCheck walks a valid document.
type jsonCheck struct {
	data  []byte
	at    int
	known map[string]string // folded → key of the target struct
}

// next returns the next byte that is not white space.
func (c *jsonCheck) next() byte {
	for {
		switch b := c.data[c.at]; b {
		case ' ', '\t', '\n', '\r':
			c.at++
		default:
			return b
		}
	}
}

// value checks the next value, which is below key.
func (c *jsonCheck) value(key string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	switch c.next() {
	case '[':
		for c.at++; c.next() != ']'; {
			if err := c.value(key, depth+1); err != nil {
				return err
			}
			if c.next() == ',' {
				c.at++
			}
		}
		c.at++
	case '{':
		return c.object(key, depth)
	case '"':
		c.text()
	default: // a number or a literal
		for c.at < len(c.data) && strings.IndexByte(",]} \t\r\n", c.data[c.at]) < 0 {
			c.at++
		}
	}
	return nil
}

// text returns the next string as written, with its quotes.
func (c *jsonCheck) text() []byte {
	from := c.at
	for c.at++; c.data[c.at] != '"'; c.at++ {
		if c.data[c.at] == '\\' {
			c.at++
		}
	}
	c.at++
	return c.data[from:c.at]
}

// object checks the members of an object below key. The keys of annotations
// are arbitrary; all others are compared with the struct.
func (c *jsonCheck) object(key string, depth int) error {
	seen := map[string]bool{}
	for c.at++; c.next() != '}'; {
		raw := c.text()
		name := string(raw[1 : len(raw)-1])
		if strings.Contains(name, `\`) {
			if err := json.Unmarshal(raw, &name); err != nil {
				return err
			}
		}
		if seen[name] {
			return fmt.Errorf("key %q twice", name)
		}
		seen[name] = true
		if want, ok := c.known[foldKey(name)]; ok && key != "annotations" && name != want {
			return fmt.Errorf("key: got %q, want %q", name, want)
		}
		c.next()
		c.at++ // the colon
		if err := c.value(name, depth+1); err != nil {
			return err
		}
		if c.next() == ',' {
			c.at++
		}
	}
	c.at++
	return nil
}

// foldKey returns a key without the differences that encoding/json ignores: case, also of ſ and
// the Kelvin sign.
func foldKey(name string) string { return strings.ToLower(strings.ToUpper(name)) }

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
			c.known[foldKey(name)] = name
		}
		c.collect(f.Type, done)
	}
}
