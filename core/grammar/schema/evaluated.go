package schema

import "slices"

// rests applies unevaluatedProperties and unevaluatedItems to an alternative: they
// apply to the members at which no schema has looked that is applied in place, which in an
// alternative are known.
func (c *compiler) rests(a alternative) alternative {
	out := a
	for _, n := range a.nodes {
		if n.restProps == nil && n.restItems == nil {
			continue
		}
		in := a.inPlace(n)
		if n.restProps != nil {
			out = out.with(c.restProps(n, in))
		}
		if n.restItems != nil {
			out = out.with(c.restItems(n, in))
		}
	}
	return out
}

// inPlace returns a schema and the ones of the alternative that it applies in place.
func (a alternative) inPlace(n *node) []*node {
	out := []*node{n}
	for k := 0; k < len(out); k++ {
		at := out[k]
		next := slices.Concat(at.in, at.anyOf, at.oneOf, []*node{at.when, at.then, at.otherwise})
		for _, choice := range at.choices {
			next = append(next, choice...)
		}
		for _, m := range next {
			if m != nil && a.has(m) && !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	return out
}

// restProps returns a schema that names the members at which the schemas have looked, and
// applies to all others.
func (c *compiler) restProps(n *node, in []*node) *node {
	rest := c.make(n)
	rest.about, rest.additional = object, n.restProps
	for _, m := range in {
		if m.additional != nil {
			rest.additional = c.any(n) // it looks at all of them
		}
		if m.synthetic {
			continue
		}
		for _, p := range m.props {
			rest.props = append(rest.props, property{p.name, c.any(n)})
		}
		for _, p := range m.patternProps {
			rest.patternProps = append(rest.patternProps, property{p.name, c.any(n)})
		}
	}
	return rest
}

// restItems is restProps for items.
func (c *compiler) restItems(n *node, in []*node) *node {
	rest := c.make(n)
	rest.about, rest.items = array, n.restItems
	for _, m := range in {
		for len(rest.prefix) < len(m.prefix) {
			rest.prefix = append(rest.prefix, c.any(n))
		}
		if m.items != nil {
			rest.items = c.any(n)
		}
	}
	return rest
}

// any returns the schema of all values.
func (c *compiler) any(n *node) *node {
	return c.derive(partKey{n, "any", ""}, func(*node) {})
}
