package schema

import (
	"slices"

	"mm-abi.org/mm/core/grammar/automaton"
)

// object goes by objects: the members that schemas name, in their order, then
// others, where those are asked for.
func (c *compiler) object(a alternative, from, to int32) {
	least, most := a.count(ofObject)
	if most >= 0 && least > most {
		c.hint(c.of(a), "an object of %d members at least and %d at most", least, most)
		return
	}
	list := c.listed(a)
	var keys []*automaton.DFA
	if names, more := c.others(a, list); more {
		keys, list = c.endless(a, names, list)
	}
	rule, start := c.b.Rule(true)
	c.once(from, rule, to)
	open, close, end := c.b.Text(start, "{"), c.b.Node(), c.b.Node()
	c.b.Bytes(close, '}', '}', end)
	c.b.End(end)
	g := grid{owner: c.of(a), n: len(list), least: least, most: most}
	if len(keys) > 0 {
		g.more = func(from int32, r rest) { c.further(a, keys, from, close, r) }
	}
	c.grid(g, open, close, func(i int) bool { return list[i].required }, func(i int, from, next int32) {
		c.call(c.mark(c.b.Text(from, quote(list[i].name)), ":"), list[i].set, next)
	})
}

// maxWords is how many names of other members are taken for named ones.
const maxWords = 64

// endless parts the names of other members by what is said of these. Few names
// are as good as named ones; of another part that is left of which there is no
// end, so that however many names were taken, there is one more: of that part,
// for where calls may go no deeper the others are of no use.
func (c *compiler) endless(a alternative, names *automaton.DFA, list []named) (keys []*automaton.DFA, all []named) {
	words, lost := 0, false
	for _, label := range names.Labels() {
		part := names.Only(label)
		if few, finite := part.Finite(maxWords - words); finite {
			words += len(few)
			for _, w := range few {
				list = append(list, named{name: w, set: a.member(c, w)})
			}
			continue
		}
		if part = part.Endless(); part.Empty() {
			lost = true
			continue
		}
		keys = append(keys, part)
	}
	if lost && len(keys) == 0 {
		c.fault(c.of(a), "", "its other members have more than %d names, and a finite number", maxWords)
	}
	return keys, list
}

// named is a member that a schema names.
type named struct {
	name     string
	set      []*node
	required bool
}

// listed are the members that schemas name.
func (c *compiler) listed(a alternative) (out []named) {
	seen := map[string]int{}
	name := func(name string, required bool) {
		i, ok := seen[name]
		if !ok {
			i = len(out)
			seen[name] = i
			out = append(out, named{name: name, set: a.member(c, name)})
		}
		out[i].required = out[i].required || required
	}
	for _, n := range a.nodes {
		for _, p := range n.props {
			name(p.name, false)
		}
	}
	for _, n := range a.nodes {
		for _, r := range n.required {
			name(r, true)
		}
	}
	return out
}

// member are the schemas of the member of a name.
func (a alternative) member(c *compiler, name string) (out []*node) {
	for _, n := range a.nodes {
		if n.names != nil && !c.holds(n.names, name) {
			never := c.without(n, "").props[0].node
			return []*node{never}
		}
		out = append(out, c.memberOf(n, name)...)
	}
	return out
}

// memberOf is what one schema says of the member of a name.
func (c *compiler) memberOf(n *node, name string) (out []*node) {
	for _, p := range n.props {
		if p.name == name {
			out = append(out, p.node)
		}
	}
	for _, p := range n.patternProps {
		if d, err := c.pattern(p.name); err == nil && d.Label(name) != automaton.No {
			out = append(out, p.node)
		}
	}
	if len(out) == 0 && n.additional != nil {
		out = append(out, n.additional)
	}
	return out
}

// open reports whether members that nobody names are asked for: by
// additionalProperties or patternProperties, or because none is named.
func (a alternative) open() bool {
	named := false
	for _, n := range a.nodes {
		if n.additional != nil && n.additional.never && len(n.patternProps) == 0 {
			return false
		}
		if n.additional != nil && !n.additional.never || len(n.patternProps) > 0 {
			return true
		}
		named = named || n.listed || len(n.required) > 0 || n.made && len(n.props) > 0
	}
	return !named
}

// others is the language of the names of members that nobody names.
func (c *compiler) others(a alternative, list []named) (*automaton.DFA, bool) {
	if !a.open() {
		return nil, false
	}
	names := make([]string, len(list))
	for i, m := range list {
		names[i] = m.name
	}
	unnamed, err := automaton.Words(names)
	of := []*automaton.DFA{unnamed}
	patterns := a.patternsOfNames()
	for _, p := range patterns {
		d, _ := c.pattern(p)
		of = append(of, d)
	}
	for _, n := range a.nodes {
		if n.names == nil || err != nil {
			continue
		}
		var d *automaton.DFA
		if d, err = c.namesOf(n); d == nil && err == nil {
			return nil, false // it was told
		}
		of = append(of, d)
	}
	var d *automaton.DFA
	if err == nil {
		d, err = automaton.Product(of, func(labels []int) int {
			if labels[0] != len(names) || slices.Contains(labels[1+len(patterns):], automaton.No) {
				return automaton.No
			}
			return c.class(a, patterns, labels[1:1+len(patterns)])
		})
	}
	if err != nil {
		c.fault(c.of(a), "", "the names of its other members: %v", err)
		return nil, false
	}
	return d, !d.Empty()
}

func (a alternative) patternsOfNames() (out []string) {
	for _, n := range a.nodes {
		for _, p := range n.patternProps {
			if !slices.Contains(out, p.name) {
				out = append(out, p.name)
			}
		}
	}
	return out
}

// class labels a name by the patterns that it has: a bit for each. It is
// regular.No for names that no member may have.
func (c *compiler) class(a alternative, patterns []string, labels []int) int {
	bits := 0
	for i, l := range labels {
		if l != automaton.No {
			bits |= 1 << i
		}
	}
	if set, asked := a.others(patterns, bits); !asked || slices.ContainsFunc(set, func(n *node) bool { return n.never }) {
		return automaton.No
	}
	return bits
}

// others are the schemas of a member with an unnamed name of a class, and
// whether any asks for it.
func (a alternative) others(patterns []string, class int) (out []*node, asked bool) {
	free := !slices.ContainsFunc(a.nodes, func(n *node) bool { return len(n.patternProps) > 0 || n.additional != nil })
	asked = free
	for _, n := range a.nodes {
		before := len(out)
		for _, p := range n.patternProps {
			if class>>slices.Index(patterns, p.name)&1 != 0 {
				out = append(out, p.node)
			}
		}
		if len(out) == before && n.additional != nil {
			out = append(out, n.additional)
		}
		asked = asked || len(out) > before
	}
	return out, asked
}

// namesOf is the language of propertyNames.
func (c *compiler) namesOf(n *node) (*automaton.DFA, error) {
	var found *automaton.DFA
	for _, a := range c.expand([]*node{n.names}) {
		_, _, fixed := a.fixed()
		if a.all()&text == 0 {
			continue
		}
		if fixed || found != nil || len(a.nots) > 0 {
			c.fault(n, "propertyNames", "only patterns and lengths are in the subset")
			return nil, nil
		}
		least, most := a.count(ofText)
		d, err := c.language(a, least, most)
		if err != nil {
			return nil, err
		}
		found = d
	}
	if found == nil {
		found = &automaton.DFA{}
	}
	return found, nil
}

// further goes by members that nobody names.
func (c *compiler) further(a alternative, keys []*automaton.DFA, from, to int32, r rest) {
	patterns := a.patternsOfNames()
	c.repeat(from, to, r, func(from, next int32) {
		from = c.b.Text(from, `"`)
		for _, names := range keys {
			c.key(from, names, func(class int) int32 {
				at := c.b.Node()
				set, _ := a.others(patterns, class)
				c.call(c.mark(at, ":"), set, next)
				return at
			})
		}
	})
}

// grid is a list of things of which each stands once or, if it is not
// required, not at all, in their order and with commas in between.
type grid struct {
	owner       *node
	n           int
	least, most int32
	more        func(from int32, r rest) // what may follow; nil: nothing
}

// maxGrid bounds the nodes of a grid.
const maxGrid = 1 << 16

// grid goes by such a list; one goes by a thing.
func (c *compiler) grid(g grid, from, to int32, required func(i int) bool, one func(i int, from, next int32)) {
	// Nodes are told apart by how many stand before them, as far as it
	// matters: whether there is one, or how many.
	counts := 1
	if g.least > 0 || g.most >= 0 {
		counts = g.n
	}
	if (counts+1)*(g.n+1) > maxGrid {
		c.fault(g.owner, "", "%d members and a bound on their number", g.n)
		return
	}
	row := slices.Repeat([]int32{-1}, counts+1)
	row[0] = from
	for i := range g.n {
		next := slices.Repeat([]int32{-1}, counts+1)
		at := func(n int) int32 {
			if next[n] < 0 {
				next[n] = c.b.Node()
			}
			return next[n]
		}
		for n, here := range row {
			if here < 0 {
				continue
			}
			if !required(i) {
				c.b.Empty(here, at(n))
			}
			if g.most >= 0 && int32(n) >= g.most {
				continue
			}
			begin := here
			if n > 0 {
				begin = c.mark(here, ",")
			}
			one(i, begin, at(min(n+1, counts)))
		}
		row = next
	}
	for n, here := range row {
		if here < 0 {
			continue
		}
		r := rest{least: max(0, g.least-int32(n)), most: -1, begun: n > 0}
		if g.most >= 0 {
			r.most = max(0, g.most-int32(n))
		}
		switch {
		case g.more != nil:
			g.more(here, r)
		case r.least == 0:
			c.b.Empty(here, to)
		}
	}
}
