package schema

import (
	"math/big"
	"slices"

	"mm-abi.org/mm/core/grammar/automaton"
)

// unsettled is an alternative of which some exclusions are still open.
type unsettled struct {
	alternative
	violated []exclusion // its values violate these, whatever is added to it
	settled  bool
}

// exclusion is an alternative of a not, by indexes.
type exclusion struct{ not, of int }

// settle returns alternatives for whose texts no nots of an alternative hold. It
// first tries to drop members, and otherwise takes each of the ways in which a
// value does not satisfy a not. It is a fault if there is neither.
func (c *compiler) settle(a alternative) (out []alternative) {
	todo := []unsettled{{alternative: a}}
	for k := 0; k < len(todo); k++ {
		if len(todo) > maxAlternatives {
			c.fault(c.of(a), "", "more than %d alternatives", maxAlternatives)
			return nil
		}
		split, ok := c.exclude(&todo[k])
		if !ok {
			return nil
		}
		if todo[k].settled {
			out = append(out, todo[k].alternative)
		}
		todo = append(todo, split...)
	}
	return out
}

// exclude excludes the open nots, up to one that splits the alternative: after it
// all are open again, since the grammar may write members that it did not. A list
// of values needs none: they are judged one by one.
func (c *compiler) exclude(u *unsettled) (split []unsettled, ok bool) {
	for not := 0; not < len(u.nots); not++ {
		if _, _, fixed := u.fixed(); fixed {
			break
		}
		for of, o := range c.expand([]*node{u.nots[not]}) {
			this := exclusion{not, of}
			if slices.Contains(u.violated, this) || c.narrow(&u.alternative, o) {
				continue
			}
			ways, complete := c.violate(u.alternative, o)
			if len(ways) == 0 && !complete {
				c.fault(u.nots[not], "", "values cannot be distinguished from those of the schema at %s", place(c.of(u.alternative).at))
				return nil, false
			}
			for _, a := range ways {
				split = append(split, unsettled{alternative: a, violated: append(slices.Clip(u.violated), this)})
			}
			return split, true
		}
	}
	u.settled = true
	return nil, true
}

// narrow excludes the values of another alternative if that takes no more than a
// member or strings from an alternative.
func (c *compiler) narrow(a *alternative, o alternative) bool {
	narrowed, ok := c.part(*a, o)
	if d := c.texts(*a, o); !ok && d != nil {
		narrowed, ok = a.outside(d), true
	}
	*a = narrowed
	return ok
}

// violate returns the parts of an alternative whose values another one does not
// accept, and whether they are all of them.
func (c *compiler) violate(a, o alternative) (out []alternative, complete bool) {
	v := violations{c: c, of: a, complete: len(o.except) == 0}
	for _, n := range o.nodes {
		v.node(n)
	}
	for _, n := range o.nots {
		if same, p := v.typed(n, anyType); p != nil { // its keywords add no types
			v.all = append(v.all, c.add([]alternative{same}, n, nil)...)
		}
	}
	for _, b := range v.all {
		if slices.ContainsFunc(b.nodes[len(a.nodes):], func(n *node) bool { return n.restProps != nil || n.restItems != nil }) {
			v.complete = false // the members that they look at may have changed
			continue
		}
		if b.meant() != 0 {
			out = append(out, b)
		}
	}
	return out, v.complete
}

// violations collects the parts of an alternative whose values a schema refuses.
type violations struct {
	c        *compiler
	of       alternative
	all      []alternative
	complete bool // values that the schema refuses are in a part
}

// typed returns the values of some types of the alternative, with the synthetic schema
// of the types, which is nil if the alternative has no such values.
func (v *violations) typed(n *node, of types) (alternative, *node) {
	if of &= v.of.meant(); of == 0 {
		return alternative{}, nil
	}
	p := v.c.make(n)
	p.types = of
	return v.of.with(p), p
}

// part adds the values of some types that a synthetic schema accepts. It returns
// nil if the alternative has no such values.
func (v *violations) part(n *node, of types) *node {
	a, p := v.typed(n, of)
	if p != nil {
		v.all = append(v.all, a)
	}
	return p
}

// node adds the parts by each keyword of a schema. The keywords that combine
// schemas are alternatives already.
func (v *violations) node(n *node) {
	if n.types != 0 {
		v.part(n, anyType&^n.types)
	}
	if n.fixed {
		v.list(n)
	}
	v.bounds(n)
	for i, p := range n.patterns {
		v.pattern(n, p, slices.Contains(n.formats, i))
	}
	v.items(n)
	v.members(n)
	if len(n.multiples) > 0 && v.of.meant()&number != 0 || n.restProps != nil || n.restItems != nil {
		v.complete = false
	}
}

// bounds adds the numbers outside of the bounds, and the strings, arrays and
// objects outside of the counts.
func (v *violations) bounds(n *node) {
	if n.lo.At != nil {
		if p := v.part(n, number); p != nil {
			p.hi = automaton.Bound{At: n.lo.At, Open: !n.lo.Open}
		}
	}
	if n.hi.At != nil {
		if p := v.part(n, number); p != nil {
			p.lo = automaton.Bound{At: n.hi.At, Open: !n.hi.Open}
		}
	}
	for of, t := range []types{ofText: text, ofObject: object, ofArray: array} {
		if n.min[of] > 0 {
			if p := v.part(n, t); p != nil {
				p.max[of] = n.min[of] - 1
			}
		}
		if n.max[of] >= 0 {
			if p := v.part(n, t); p != nil {
				p.min[of] = n.max[of] + 1
			}
		}
	}
}

// pattern adds the strings in which no dialect finds a pattern, unless it is a
// format's: validators may ignore that.
func (v *violations) pattern(n *node, expr string, format bool) {
	if v.of.meant()&text == 0 {
		return
	}
	d, err := v.c.broad(expr)
	if err != nil || format {
		v.complete = false
		return
	}
	v.outside(n, d)
}

// outside adds the strings outside of a language.
func (v *violations) outside(n *node, d *automaton.DFA) {
	if a, p := v.typed(n, text); p != nil {
		v.all = append(v.all, a.outside(d))
	}
}

// outside returns an alternative without the strings of a language.
func (a alternative) outside(d *automaton.DFA) alternative {
	a.except = append(slices.Clip(a.except), d)
	return a
}

// maxRanges limits the numbers of an enum that split the others into ranges.
const maxRanges = 32

// list adds the values other than those of an enum.
func (v *violations) list(n *node) {
	var in types
	var words []string
	var numbers []*big.Rat
	bools := map[byte]bool{}
	for _, x := range n.enum {
		switch in |= typeOf(x.anything()); x.kind {
		case '"':
			words = append(words, x.text)
		case '0':
			if q, ok := rational(x); ok {
				numbers = append(numbers, q)
			} else {
				v.complete = false
			}
			in |= number
		case 't', 'f':
			bools[x.kind] = true
		}
	}
	v.part(n, anyType&^in)
	if v.of.meant()&in&(array|object) != 0 {
		v.complete = false
	}
	if len(bools) == 1 {
		if p := v.part(n, boolean); p != nil {
			p.fixed, p.enum = true, []*value{{kind: map[bool]byte{true: 'f', false: 't'}[bools['t']]}}
		}
	}
	if len(words) > 0 && v.of.meant()&text != 0 {
		v.words(n, words)
	}
	if in&number != 0 {
		v.between(n, numbers)
	}
}

// words adds the strings other than some.
func (v *violations) words(n *node, words []string) {
	d, err := automaton.Words(words)
	if err == nil {
		d, err = automaton.Product([]*automaton.DFA{d}, func(labels []int) int {
			if labels[0] == len(words) {
				return automaton.No
			}
			return 0
		})
	}
	if err != nil {
		v.complete = false
		return
	}
	v.outside(n, d)
}

// between adds the numbers between, below and above some.
func (v *violations) between(n *node, numbers []*big.Rat) {
	slices.SortFunc(numbers, (*big.Rat).Cmp)
	numbers = slices.CompactFunc(numbers, func(a, b *big.Rat) bool { return a.Cmp(b) == 0 })
	if len(numbers) > maxRanges || !v.complete {
		v.complete = false
		return
	}
	for i := range len(numbers) + 1 {
		p := v.part(n, number)
		if p == nil {
			return
		}
		if i > 0 {
			p.lo = automaton.Bound{At: numbers[i-1], Open: true}
		}
		if i < len(numbers) {
			p.hi = automaton.Bound{At: numbers[i], Open: true}
		}
	}
}

// items adds the arrays with an item that its schema refuses.
func (v *violations) items(n *node) {
	some := func(i int) *node {
		p := v.part(n, array)
		if p != nil {
			p.prefix = slices.Repeat([]*node{v.c.any(n)}, i)
		}
		return p
	}
	for i, item := range n.prefix {
		if p := some(i); p != nil {
			p.prefix, p.min[ofArray] = append(p.prefix, v.c.opposite(item)), int32(i+1)
		}
	}
	if n.items != nil {
		if p := some(len(n.prefix)); p != nil {
			p.contains, p.minContains = v.c.opposite(n.items), 1
		}
	}
	if n.contains != nil && n.minContains == 1 {
		if p := v.part(n, array); p != nil {
			p.items = v.c.opposite(n.contains)
		}
	}
	if v.of.meant()&array != 0 && (n.unique || n.limited || n.contains != nil && n.minContains > 1) {
		v.complete = false
	}
}

// members adds the objects without a required member, and those with a member that
// its schema refuses.
func (v *violations) members(n *node) {
	for _, name := range n.required {
		if p := v.part(n, object); p != nil {
			p.props = []property{{name, v.c.never(n)}}
		}
	}
	for _, m := range n.props {
		if m.node.bare() && m.node.types == 0 && !m.node.never {
			continue
		}
		if p := v.part(n, object); p != nil {
			p.required, p.props = []string{m.name}, []property{{m.name, v.c.opposite(m.node)}}
		}
	}
	if v.of.meant()&object != 0 && (len(n.patternProps) > 0 || n.additional != nil || n.names != nil) {
		v.complete = false
	}
}

// otherThan returns the schema of the values of other types.
func (c *compiler) otherThan(n *node, of types) *node {
	p := c.make(n)
	p.types = anyType &^ of
	return p
}

// opposite returns the schema of the values that another refuses.
func (c *compiler) opposite(n *node) *node {
	return c.derive(partKey{n, "opposite", ""}, func(p *node) { p.not = n })
}

// never returns the schema of no value.
func (c *compiler) never(n *node) *node {
	return c.derive(partKey{n, "never", ""}, func(p *node) { p.never = true })
}

// broad returns the language of texts in which any dialect finds a regular
// expression.
func (c *compiler) broad(expr string) (*automaton.DFA, error) {
	if d, ok := c.broader[expr]; ok {
		return d, nil
	}
	d, err := automaton.Broad(expr)
	if err == nil {
		c.broader[expr] = d
	}
	return d, err
}
