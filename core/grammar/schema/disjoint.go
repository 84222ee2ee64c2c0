package schema

import (
	"slices"
	"unicode/utf8"

	"mm-abi.org/mm/core/grammar/automaton"
)

// texts returns the strings for which an alternative may hold, whatever the dialect
// of its patterns, if another one writes strings only; nil: it is unknown.
func (c *compiler) texts(a, o alternative) *automaton.DFA {
	if a.meant() != text || len(o.nots) > 0 || len(o.except) > 0 {
		return nil
	}
	least, most := o.count(ofText)
	d, err := c.broadly(o, least, most)
	if list, _, fixed := o.fixed(); err == nil && fixed {
		d, err = among(list, d)
	}
	if err != nil {
		return nil
	}
	return d
}

// part returns an alternative without the values for which another might hold
// as well: the values with a member that the other requires and it does not.
func (c *compiler) part(a, o alternative) (alternative, bool) {
	if c.disjoint(a, o, 0) {
		return a, true
	}
	mine := c.listed(a)
	for _, n := range o.nodes {
		for _, name := range n.required {
			i := slices.IndexFunc(mine, func(m named) bool { return m.name == name })
			if i < 0 || mine[i].required {
				continue
			}
			if b := a.with(c.without(n, name)); c.disjoint(b, o, 0) {
				return b, true
			}
		}
	}
	return a, false
}

// maxCompared limits the depth of comparing schemas.
const maxCompared = 8

// disjoint reports whether no value that the grammar writes for a is one of o.
func (c *compiler) disjoint(a, o alternative, depth int) bool {
	if depth > maxCompared || !c.spend(c.of(a), 16) {
		return false
	}
	types := a.meant()
	if list, _, ok := a.fixed(); ok {
		return !slices.ContainsFunc(c.accepted(a, list), func(v *value) bool {
			x := v.anything()
			return !slices.ContainsFunc(o.nodes, func(n *node) bool { return !c.may(n, x) })
		})
	}
	if list, _, ok := o.fixed(); ok {
		if !c.spend(c.of(a), len(list)*(1+len(a.nodes))) {
			return false
		}
		return !slices.ContainsFunc(list, func(v *value) bool { return c.writes(a, v, depth) })
	}
	common := types & o.all()
	if common&(null|boolean) != 0 {
		return false
	}
	return (common&number == 0 || rangesDisjoint(a, o)) &&
		(common&text == 0 || countsDisjoint(a, o, ofText)) &&
		(common&array == 0 || countsDisjoint(a, o, ofArray)) &&
		(common&object == 0 || c.objectsDisjoint(a, o, depth))
}

// writes reports whether the grammar may write a value for an alternative that
// is not a list of values. It looks at each schema's keywords, not at whether
// the schema accepts the value: the exclusions being tested here are unknown to
// the grammar of the alternative.
func (c *compiler) writes(a alternative, v *value, depth int) bool {
	if a.meant()&typeOf(v.anything()) == 0 {
		return false
	}
	switch v.kind {
	case '0':
		x, ok := rational(v)
		is := alternative{nodes: []*node{{lo: automaton.Bound{At: x}, hi: automaton.Bound{At: x}}}}
		return !ok || !rangesDisjoint(a, is)
	case '"':
		return c.writesText(a, v.text)
	case '[':
		return within(a, ofArray, len(v.items))
	case '{':
		return within(a, ofObject, len(v.members)) && c.writesMembers(a, v, depth)
	}
	return true
}

func within(a alternative, of, n int) bool {
	least, most := a.count(of)
	return n >= int(least) && (most < 0 || n <= int(most))
}

func (c *compiler) writesText(a alternative, text string) bool {
	if !within(a, ofText, utf8.RuneCountInString(text)) {
		return false
	}
	return !slices.ContainsFunc(a.patterns(), func(p string) bool {
		d, err := c.pattern(p)
		return err == nil && d.Label(text) == automaton.No
	})
}

// writesMembers is writes for an object: it has the required members, and
// members with possible values.
func (c *compiler) writesMembers(a alternative, v *value, depth int) bool {
	if depth >= maxCompared {
		return true
	}
	mine := c.listed(a)
	for _, m := range mine {
		got := v.get(m.name)
		if got == nil && m.required {
			return false
		}
		if got != nil && !slices.ContainsFunc(c.expand(m.set), func(x alternative) bool { return c.writesAny(x, got, depth+1) }) {
			return false
		}
	}
	return a.open() || !slices.ContainsFunc(v.members, func(m member) bool {
		return !slices.ContainsFunc(mine, func(n named) bool { return n.name == m.name })
	})
}

// writesAny is writes for any alternative, including a list of values.
func (c *compiler) writesAny(a alternative, v *value, depth int) bool {
	list, _, ok := a.fixed()
	if !ok {
		return c.writes(a, v, depth)
	}
	return slices.ContainsFunc(c.accepted(a, list), func(w *value) bool { return same(v, w) })
}

// same reports whether values are, or may be, equal: it does not compare very
// large numbers and the contents of arrays and objects.
func same(v, w *value) bool {
	x, one := rational(v)
	y, other := rational(w)
	switch {
	case v.kind != w.kind || v.kind == '"' && v.text != w.text:
		return false
	case one && other:
		return x.Cmp(y) == 0
	}
	return true
}

func rangesDisjoint(a, o alternative) bool {
	below := func(a, b alternative) bool {
		for _, n := range a.nodes {
			for _, m := range b.nodes {
				if n.hi.At != nil && m.lo.At != nil && (n.hi.At.Cmp(m.lo.At) < 0 || n.hi.At.Cmp(m.lo.At) == 0 && (n.hi.Open || m.lo.Open)) {
					return true
				}
			}
		}
		return false
	}
	return below(a, o) || below(o, a)
}

func countsDisjoint(a, o alternative, of int) bool {
	least, most := a.count(of)
	other, others := o.count(of)
	return most >= 0 && most < other || others >= 0 && others < least
}

// objectsDisjoint compares members: one is required in o but never in a or with
// other values in a; or required in a but never in o.
func (c *compiler) objectsDisjoint(a, o alternative, depth int) bool {
	mine := c.listed(a)
	must := func(x alternative) (out []string) {
		for _, n := range x.nodes {
			out = append(out, n.required...)
		}
		return out
	}
	for _, name := range must(o) {
		i := slices.IndexFunc(mine, func(m named) bool { return m.name == name })
		if i < 0 && !a.open() || i >= 0 && c.setsDisjoint(mine[i].set, o.member(c, name), depth) {
			return true
		}
	}
	for _, name := range must(a) {
		if never(o.member(c, name)) {
			return true
		}
	}
	least, most := a.count(ofObject)
	other, others := o.count(ofObject)
	return most >= 0 && most < other || others >= 0 && others < least
}

func never(set []*node) bool { return slices.ContainsFunc(set, func(n *node) bool { return n.never }) }

// setsDisjoint reports whether no value that the grammar writes for one list of
// schemas is one of the other.
func (c *compiler) setsDisjoint(a, o []*node, depth int) bool {
	for _, x := range c.expand(a) {
		for _, y := range c.expand(o) {
			if !c.disjoint(x, y, depth+1) {
				return false
			}
		}
	}
	return true
}
