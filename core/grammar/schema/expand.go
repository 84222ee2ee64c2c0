package schema

import (
	"slices"

	"mm-abi.org/mm/core/grammar/automaton"
)

// alternative is a conjunction of schemas, without their anyOf, oneOf, if,
// allOf and $ref, and of negated schemas.
type alternative struct {
	nodes  []*node
	nots   []*node
	except []*automaton.DFA // texts that are not strings of it
}

func (a alternative) has(n *node) bool { return slices.Contains(a.nodes, n) }

func (a alternative) with(n *node) alternative {
	return alternative{append(slices.Clip(a.nodes), n), a.nots, a.except}
}

func (a alternative) against(n ...*node) alternative {
	return alternative{a.nodes, append(slices.Clip(a.nots), n...), a.except}
}

// maxAlternatives limits the alternatives of a list of schemas.
const maxAlternatives = 256

// maxWork limits the work of expanding and comparing schemas.
const maxWork = 1 << 22

// spend counts work, and reports whether any is left.
func (c *compiler) spend(n *node, work int) bool {
	if c.spent > maxWork {
		return false
	}
	if c.spent += work; c.spent > maxWork {
		c.fault(n, "", "too many schemas to expand")
		return false
	}
	return true
}

// expand converts a conjunction of schemas to alternatives.
func (c *compiler) expand(set []*node) []alternative {
	out := []alternative{{}}
	for _, n := range set {
		out = c.add(out, n, nil)
	}
	for i := range out {
		out[i] = c.rests(out[i])
	}
	return out
}

// add adds a schema to all of the alternatives; path lists the schemas that led
// to it.
func (c *compiler) add(to []alternative, n *node, path []*node) []alternative {
	if slices.Contains(path, n) {
		c.fault(n, "", "reference cycle without a value in between")
		return nil
	}
	if n.never || !c.spend(n, 1+len(to)) {
		return nil
	}
	path = append(slices.Clip(path), n)
	var done, todo []alternative
	for _, a := range to {
		if c.spend(n, len(a.nodes)); a.has(n) {
			done = append(done, a)
		} else {
			todo = append(todo, a.with(n))
		}
	}
	for _, in := range n.in {
		todo = c.add(todo, in, path)
	}
	if n.anyOf != nil {
		todo = c.one(todo, n.anyOf, path)
	}
	for _, choice := range n.choices {
		todo = c.one(todo, choice, path)
	}
	if n.oneOf != nil {
		var next []alternative
		for i, branch := range n.oneOf {
			for _, a := range c.add(todo, branch, path) {
				next = append(next, a.against(others(n.oneOf, i)...))
			}
		}
		todo = next
	}
	todo = c.condition(todo, n, path)
	if n.not != nil {
		todo = c.negate(todo, n.not, path)
	}
	if len(done)+len(todo) > maxAlternatives {
		c.fault(n, "", "more than %d alternatives", maxAlternatives)
		return nil
	}
	return append(done, todo...)
}

func others(list []*node, but int) []*node {
	return slices.Delete(slices.Clone(list), but, but+1)
}

// one adds one of the schemas, or several.
func (c *compiler) one(to []alternative, list []*node, path []*node) []alternative {
	var out []alternative
	for _, n := range list {
		out = append(out, c.add(to, n, path)...)
	}
	return out
}

// condition adds if, then and else.
func (c *compiler) condition(to []alternative, n *node, path []*node) []alternative {
	if n.when == nil || n.then == nil && n.otherwise == nil {
		return to
	}
	yes := c.add(to, n.when, path)
	if n.then != nil {
		yes = c.add(yes, n.then, path)
	}
	no := c.negate(to, n.when, path)
	if n.otherwise != nil {
		no = c.add(no, n.otherwise, path)
	}
	return append(yes, no...)
}

// negate adds the negation of a schema. If the schema only has types, the other
// types remain.
func (c *compiler) negate(to []alternative, n *node, path []*node) []alternative {
	if n.never {
		return to
	}
	if n.bare() {
		if n.types == 0 {
			return nil
		}
		other := c.derive(partKey{n, "not", ""}, func(p *node) {
			p.types = anyType &^ n.types
			p.never = p.types == 0
		})
		return c.add(to, other, path)
	}
	out := make([]alternative, len(to))
	for i, a := range to {
		out[i] = a.against(n)
	}
	return out
}

// bare reports whether a schema has at most types.
func (n *node) bare() bool {
	return n.about == 0 && !n.fixed && len(n.in) == 0 && n.anyOf == nil && n.oneOf == nil && n.not == nil && n.when == nil && n.choices == nil
}

// all returns the types accepted by all schemas.
func (a alternative) all() types {
	out := anyType
	for _, n := range a.nodes {
		if n.types != 0 {
			out &= n.types
		}
	}
	return out
}

// meant returns the types that the grammar writes: those that the schemas
// declare, or those of their keywords, or all.
func (a alternative) meant() types {
	var named, about types
	for _, n := range a.nodes {
		named |= n.types
		about |= n.about
	}
	if named == 0 && about != 0 {
		return about
	}
	return a.all()
}

// fixed returns the shortest enum or const.
func (a alternative) fixed() (list []*value, doc int, ok bool) {
	for _, n := range a.nodes {
		if n.fixed && (!ok || len(n.enum) < len(list)) {
			list, doc, ok = n.enum, n.doc, true
		}
	}
	return list, doc, ok
}
