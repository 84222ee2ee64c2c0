package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// validator validates given values, of an enum or a name, against a schema and
// its subschemas.
type validator struct {
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by pointer
}

const resource = "mm:///schema.json"

// open compiles a schema, and reports an invalid one.
func (v *validator) open(root *value) error {
	data, err := json.Marshal(root.anything())
	if err != nil {
		return err
	}
	v.compiler = jsonschema.NewCompiler()
	v.compiler.LoadURL = func(s string) (io.ReadCloser, error) {
		return nil, fmt.Errorf("unknown reference %q", s)
	}
	v.schemas = map[string]*jsonschema.Schema{}
	if err := v.compiler.AddResource(resource, bytes.NewReader(data)); err != nil {
		return err
	}
	_, err = v.schema("")
	return short(err)
}

// short returns the validator's error without internal locations.
func short(err error) error {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	for len(invalid.Causes) > 0 {
		invalid = invalid.Causes[0]
	}
	return fmt.Errorf("invalid schema: %s: %s", place(invalid.InstanceLocation), invalid.Message)
}

func (v *validator) schema(pointer string) (*jsonschema.Schema, error) {
	if s, ok := v.schemas[pointer]; ok {
		return s, nil
	}
	parts := strings.Split(pointer, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	s, err := v.compiler.Compile(resource + "#" + strings.Join(parts, "/"))
	if err == nil {
		v.schemas[pointer] = s
	}
	return s, err
}

// holds reports whether a schema accepts a value.
func (c *compiler) holds(n *node, v any) bool {
	if n.synthetic {
		return c.makes(n, v)
	}
	s, err := c.docs[n.doc].valid.schema(n.at)
	if err != nil {
		c.fault(n, "", "%v", short(err))
		return false
	}
	return s.Validate(v) == nil
}

// makes is holds for a synthetic schema, with types, or a missing or present
// member. The schema that it derives from is checked separately.
func (c *compiler) makes(n *node, v any) bool {
	if n.never || n.types != 0 && n.types&typeOf(v) == 0 {
		return false
	}
	members, ok := v.(map[string]any)
	if !ok {
		return true
	}
	for _, name := range n.required {
		if _, ok := members[name]; !ok {
			return false
		}
	}
	for _, p := range n.props {
		if _, ok := members[p.name]; ok {
			return false
		}
	}
	return true
}

func typeOf(v any) types {
	switch v := v.(type) {
	case nil:
		return null
	case bool:
		return boolean
	case string:
		return text
	case []any:
		return array
	case map[string]any:
		return object
	case json.Number:
		if _, ok := integer(&value{kind: '0', text: v.String()}); ok {
			return integral
		}
	}
	return fractional
}
