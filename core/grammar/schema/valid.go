package schema

import (
	"encoding/json"
	"unicode/utf8"

	"mm-abi.org/mm/core/grammar/automaton"
)

// holds reports whether a schema accepts a value in all dialects of its patterns.
func (c *compiler) holds(n *node, v any) bool {
	ok, doubt := c.judge(n, v)
	return ok && !doubt
}

// may reports whether a schema accepts a value in any dialect of its patterns.
func (c *compiler) may(n *node, v any) bool {
	ok, doubt := c.judge(n, v)
	return ok || doubt
}

// judge reports whether a schema accepts a value, and whether dialects differ.
func (c *compiler) judge(n *node, v any) (ok, doubt bool) {
	if n.synthetic {
		return c.makes(n, v)
	}
	c.doubt = false
	ok, err := c.docs[n.doc].shape.Accepts(n.at, v)
	if err != nil {
		c.fault(n, "", "%v", err)
	}
	return ok, c.doubt
}

// makes is judge for a synthetic schema. Of one that derives from unevaluatedItems or
// unevaluatedProperties, the other schema is judged as a whole.
func (c *compiler) makes(n *node, v any) (ok, doubt bool) {
	if n.never || n.types != 0 && n.types&typeOf(v) == 0 {
		return false, false
	}
	var all []verdict
	for _, in := range n.in {
		all = append(all, verdict{in, v, true})
	}
	if n.not != nil {
		all = append(all, verdict{n.not, v, false})
	}
	fits := true
	switch v := v.(type) {
	case bool:
		fits = !n.fixed || (n.enum[0].kind == 't') == v
	case json.Number:
		fits = n.spans(v)
	case string:
		fits = within(alternative{nodes: []*node{n}}, ofText, utf8.RuneCountInString(v))
	case []any:
		fits = within(alternative{nodes: []*node{n}}, ofArray, len(v))
		if n.contains != nil {
			return c.contains(n, v)
		}
		all = append(all, n.itemsOf(v)...)
	case map[string]any:
		fits = within(alternative{nodes: []*node{n}}, ofObject, len(v))
		for _, name := range n.required {
			_, has := v[name]
			fits = fits && has
		}
		for _, p := range n.props {
			if x, has := v[p.name]; has {
				all = append(all, verdict{p.node, x, true})
			}
		}
	}
	if !fits {
		return false, false
	}
	ok = true
	for _, x := range all {
		holds, differ := c.judge(x.node, x.value)
		ok, doubt = ok && holds == x.want, doubt || differ
	}
	return ok, doubt
}

// verdict is a schema that accepts a value, or is to refuse it.
type verdict struct {
	node  *node
	value any
	want  bool
}

// spans reports whether a number is within the bounds.
func (n *node) spans(v json.Number) bool {
	x, ok := rational(&value{kind: '0', text: v.String()})
	is := alternative{nodes: []*node{{lo: automaton.Bound{At: x}, hi: automaton.Bound{At: x}}}}
	return n.lo.At == nil && n.hi.At == nil || ok && !rangesDisjoint(alternative{nodes: []*node{n}}, is)
}

// itemsOf returns the schemas of items with them.
func (n *node) itemsOf(v []any) (out []verdict) {
	for i, x := range v {
		switch {
		case i < len(n.prefix):
			out = append(out, verdict{n.prefix[i], x, true})
		case n.items != nil:
			out = append(out, verdict{n.items, x, true})
		}
	}
	return out
}

// contains judges the items after the first for one that satisfies contains.
func (c *compiler) contains(n *node, v []any) (ok, doubt bool) {
	for _, x := range v[min(len(n.prefix), len(v)):] {
		holds, differ := c.judge(n.contains, x)
		ok, doubt = ok || holds, doubt || differ
	}
	return ok, doubt
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
