package schema

import "slices"

// settle makes sure that none of an alternative's nots holds of what the
// grammar writes, and leaves members out where that is what it takes. What it
// cannot make sure of is a fault.
func (c *compiler) settle(a alternative) (alternative, bool) {
	for _, not := range a.nots {
		for _, o := range c.expand([]*node{not}) {
			narrowed, ok := c.part(a, o)
			if !ok {
				c.fault(not, "", "what must not hold here cannot be told apart from what must, at %s", place(c.of(a).at))
				return a, false
			}
			a = narrowed
		}
	}
	return a, true
}

// part is an alternative less the values for which another might hold as well:
// all that have a member which the other asks for and it does not.
func (c *compiler) part(a, o alternative) (alternative, bool) {
	if c.apart(a, o, 0) {
		return a, true
	}
	mine := c.listed(a)
	for _, n := range o.nodes {
		for _, name := range n.required {
			i := slices.IndexFunc(mine, func(m named) bool { return m.name == name })
			if i < 0 || mine[i].required {
				continue
			}
			if b := a.with(c.without(n, name)); c.apart(b, o, 0) {
				return b, true
			}
		}
	}
	return a, false
}

// maxApart bounds how deep schemas are compared.
const maxApart = 8

// apart reports that no value which the grammar writes for a is one of o.
func (c *compiler) apart(a, o alternative, depth int) bool {
	if depth > maxApart || !c.spend(c.of(a), 16) {
		return false
	}
	types := a.meant()
	if list, _, ok := a.fixed(); ok {
		return !slices.ContainsFunc(c.accepted(a, list), func(v *value) bool {
			x := v.anything()
			return !slices.ContainsFunc(o.nodes, func(n *node) bool { return !c.holds(n, x) })
		})
	}
	if list, _, ok := o.fixed(); ok {
		if !c.spend(c.of(a), len(list)*(1+len(a.nodes))) {
			return false
		}
		return !slices.ContainsFunc(list, func(v *value) bool {
			x := v.anything()
			return types&typeOf(x) != 0 && !slices.ContainsFunc(a.nodes, func(n *node) bool { return !c.holds(n, x) })
		})
	}
	common := types & o.all()
	if common&(null|boolean) != 0 {
		return false
	}
	return (common&number == 0 || rangesApart(a, o)) &&
		(common&text == 0 || countsApart(a, o, ofText)) &&
		(common&array == 0 || countsApart(a, o, ofArray)) &&
		(common&object == 0 || c.objectsApart(a, o, depth))
}

func rangesApart(a, o alternative) bool {
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

func countsApart(a, o alternative, of int) bool {
	least, most := a.count(of)
	other, others := o.count(of)
	return most >= 0 && most < other || others >= 0 && others < least
}

// objectsApart compares members: one that o must have and a has never, or with
// other values; or one that a must have and o never.
func (c *compiler) objectsApart(a, o alternative, depth int) bool {
	mine := c.listed(a)
	must := func(x alternative) (out []string) {
		for _, n := range x.nodes {
			out = append(out, n.required...)
		}
		return out
	}
	for _, name := range must(o) {
		i := slices.IndexFunc(mine, func(m named) bool { return m.name == name })
		if i < 0 && !a.open() || i >= 0 && c.setsApart(mine[i].set, o.member(c, name), depth) {
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

// setsApart reports that no value which the grammar writes for one list of
// schemas is one of the other.
func (c *compiler) setsApart(a, o []*node, depth int) bool {
	for _, x := range c.expand(a) {
		for _, y := range c.expand(o) {
			if !c.apart(x, y, depth+1) {
				return false
			}
		}
	}
	return true
}
