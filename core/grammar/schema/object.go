package schema

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"mm-abi.org/mm/core/grammar/automaton"
)

// object adds objects: the named members in order, then other members if
// requested.
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

// maxWords limits the names of other members that are treated as named.
const maxWords = 64

// endless partitions the names of other members by their schemas. A few names
// are treated as named; of another partition only the endless part is kept, so
// that there is always an unused name: only of that part, since at the depth
// limit the rest is useless.
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
		c.fault(c.of(a), "", "unsupported: finitely many names of other members, but more than %d", maxWords)
	}
	return keys, list
}

// named is a member named in a schema.
type named struct {
	name     string
	set      []*node
	required bool
}

// listed returns the named members.
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

// member returns the schemas of a member by name.
func (a alternative) member(c *compiler, name string) (out []*node) {
	for _, n := range a.nodes {
		if n.names != nil && !c.holds(n.names, name) {
			return []*node{c.never(n)}
		}
		out = append(out, c.memberOf(n, name)...)
	}
	return out
}

// memberOf returns one schema's schemas of a member by name. If dialects differ about
// a pattern of names, its schema and the one of other names both hold.
func (c *compiler) memberOf(n *node, name string) (out []*node) {
	differ := false
	for _, p := range n.props {
		if p.name == name {
			out = append(out, p.node)
		}
	}
	for _, p := range n.patternProps {
		d, err := c.pattern(p.name)
		if err != nil {
			continue
		}
		is := d.Label(name) != automaton.No
		if wide, err := c.broad(p.name); err == nil && !is && wide.Label(name) != automaton.No {
			is, differ = true, true
		}
		if is {
			out = append(out, p.node)
		}
	}
	if (len(out) == 0 || differ) && n.additional != nil {
		out = append(out, n.additional)
	}
	return out
}

// open reports whether unnamed members are requested: by additionalProperties
// or patternProperties, or because none is named.
func (a alternative) open() bool {
	named := false
	for _, n := range a.nodes {
		if n.additional != nil && n.additional.never && len(n.patternProps) == 0 {
			return false
		}
		if n.additional != nil && !n.additional.never || len(n.patternProps) > 0 {
			return true
		}
		named = named || n.listed || len(n.required) > 0 || n.synthetic && len(n.props) > 0
	}
	return !named
}

// others returns the language of the names of unnamed members.
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
	for _, p := range patterns {
		d, differ := c.broad(p)
		err = cmp.Or(err, differ)
		of = append(of, d)
	}
	for _, n := range a.nodes {
		if n.names == nil || err != nil {
			continue
		}
		var d *automaton.DFA
		if d, err = c.namesOf(n); d == nil && err == nil {
			return nil, false // reported already
		}
		of = append(of, d)
	}
	var d *automaton.DFA
	if err == nil {
		d, err = automaton.Product(of, func(labels []int) int {
			n := len(patterns)
			all, some := labels[1:1+n], labels[1+n:1+2*n]
			if labels[0] != len(names) || slices.Contains(labels[1+2*n:], automaton.No) {
				return automaton.No
			}
			for i := range patterns {
				if (all[i] == automaton.No) != (some[i] == automaton.No) {
					return automaton.No // dialects differ
				}
			}
			return c.class(a, patterns, all)
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

// class labels a name by its matching patterns, a bit for each, or
// [automaton.No] for forbidden names.
func (c *compiler) class(a alternative, patterns []string, labels []int) int {
	bits := 0
	for i, l := range labels {
		if l != automaton.No {
			bits |= 1 << i
		}
	}
	if set, requested := a.others(patterns, bits); !requested || slices.ContainsFunc(set, func(n *node) bool { return n.never }) {
		return automaton.No
	}
	return bits
}

// others returns the schemas of an unnamed member of a class, and whether any
// requests it.
func (a alternative) others(patterns []string, class int) (out []*node, requested bool) {
	free := !slices.ContainsFunc(a.nodes, func(n *node) bool { return len(n.patternProps) > 0 || n.additional != nil })
	requested = free
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
		requested = requested || len(out) > before
	}
	return out, requested
}

// namesOf returns the language of propertyNames.
func (c *compiler) namesOf(n *node) (*automaton.DFA, error) {
	var found *automaton.DFA
	for _, a := range c.expand([]*node{n.names}) {
		list, _, fixed := a.fixed()
		if a.all()&text == 0 {
			continue
		}
		if found != nil || len(a.nots) > 0 {
			c.fault(n, "propertyNames", "unsupported: want only patterns, lengths and an enum")
			return nil, nil
		}
		least, most := a.count(ofText)
		d, err := c.language(a, least, most)
		if err == nil && fixed {
			d, err = among(list, d)
		}
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

// among returns the texts of a list that are in a language.
func among(list []*value, d *automaton.DFA) (*automaton.DFA, error) {
	var words []string
	for _, v := range list {
		if v.kind == '"' {
			words = append(words, regexp.QuoteMeta(v.text))
		}
	}
	if len(words) == 0 {
		return &automaton.DFA{}, nil
	}
	names, err := automaton.Pattern("^(?:" + strings.Join(words, "|") + ")$")
	if err != nil {
		return nil, err
	}
	return automaton.Product([]*automaton.DFA{names, d}, automaton.All)
}

// further adds unnamed members.
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

// grid is a list of elements, each present at most once or, if required,
// exactly once, in order and separated by commas.
type grid struct {
	owner       *node
	n           int
	least, most int32
	more        func(from int32, r rest) // continuation, or nil
}

// maxGrid limits the nodes of a grid.
const maxGrid = 1 << 16

// grid adds such a list; one adds an element.
func (c *compiler) grid(g grid, from, to int32, required func(i int) bool, one func(i int, from, next int32)) {
	// Nodes are distinguished by the number of elements before them as far as
	// it matters: whether there is one, or the count.
	counts := 1
	if g.least > 0 || g.most >= 0 {
		counts = g.n
	}
	if (counts+1)*(g.n+1) > maxGrid {
		c.fault(g.owner, "", "too many members with a bound on their number: %d", g.n)
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
