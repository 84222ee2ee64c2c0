package schema

import "encoding/json"

// holds reports whether a schema accepts a value.
func (c *compiler) holds(n *node, v any) bool {
	if n.synthetic {
		return c.makes(n, v)
	}
	ok, err := c.docs[n.doc].shape.Accepts(n.at, v)
	if err != nil {
		c.fault(n, "", "%v", err)
	}
	return ok
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
		if _, ok := members[p.name]; ok && p.node.never {
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
