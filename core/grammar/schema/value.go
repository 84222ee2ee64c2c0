package schema

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/core/grammar/automaton"
)

// alternative adds the values of an alternative between two nodes.
func (c *compiler) alternative(a alternative, from, to int32) {
	if list, doc, ok := a.fixed(); ok {
		c.fixed(a, list, doc, from, to)
		return
	}
	all, types := a.all(), a.meant()
	if all == 0 {
		c.hint(c.of(a), "its types exclude each other")
		return
	}
	if len(a.nots) > 0 {
		for _, b := range c.settle(a) {
			b.nots = nil
			c.alternative(b, from, to)
		}
		return
	}
	if types&null != 0 {
		c.literal("null", from, to)
	}
	if types&boolean != 0 {
		c.literal("false", from, to)
		c.literal("true", from, to)
	}
	if types&number != 0 {
		c.number(a, types&number, from, to)
	}
	if types&text != 0 {
		c.string(a, from, to)
	}
	if types&array != 0 {
		c.array(a, from, to)
	}
	if types&object != 0 {
		c.object(a, from, to)
	}
}

// literal adds one text.
func (c *compiler) literal(s string, from, to int32) {
	last := len(s) - 1
	c.b.Bytes(c.b.Text(from, s[:last]), s[last], s[last], to)
}

// fixed adds the values of a list that all schemas accept.
func (c *compiler) fixed(a alternative, list []*value, doc int, from, to int32) {
	var texts []string
	for _, v := range c.accepted(a, list) {
		texts = append(texts, c.write(v))
	}
	if len(texts) == 0 {
		c.hint(c.of(a), "no value of the enum or const of %d satisfies the other keywords", len(list))
	}
	c.words(texts, from, func(_ int, at int32) { c.b.Empty(at, to) })
}

// accepted returns the distinct values of a list that all schemas accept, and no
// excluded one.
func (c *compiler) accepted(a alternative, list []*value) (out []*value) {
	if !c.spend(c.of(a), len(list)*(1+len(a.nodes))) {
		return nil
	}
	seen := map[string]bool{}
	for _, v := range list {
		x := v.anything()
		if !c.accepts(a, x) || seen[c.write(v)] {
			continue
		}
		seen[c.write(v)] = true
		out = append(out, v)
	}
	return out
}

// accepts reports whether an alternative accepts a value in all dialects.
func (c *compiler) accepts(a alternative, x any) bool {
	if s, ok := x.(string); ok && slices.ContainsFunc(a.except, func(d *automaton.DFA) bool { return d.Label(s) != automaton.No }) {
		return false
	}
	return !slices.ContainsFunc(a.nodes, func(n *node) bool { return !c.holds(n, x) }) &&
		!slices.ContainsFunc(a.nots, func(n *node) bool { return c.may(n, x) })
}

// words adds texts, sharing common prefixes; end is called with each and its
// last node.
func (c *compiler) words(texts []string, from int32, end func(i int, at int32)) {
	nodes := map[string]int32{"": from}
	for i, s := range texts {
		at := from
		for n := 1; n <= len(s); n++ {
			next, ok := nodes[s[:n]]
			if !ok {
				next = c.b.Node()
				c.b.Bytes(at, s[n-1], s[n-1], next)
				nodes[s[:n]] = next
			}
			at = next
		}
		end(i, at)
	}
}

// write encodes a value as JSON.
func (c *compiler) write(v *value) string {
	comma, colon := ",", ":"
	if c.opt.Space == OneSpace {
		comma, colon = ", ", ": "
	}
	var parts []string
	switch v.kind {
	case '{':
		for _, m := range v.members {
			parts = append(parts, quote(m.name)+colon+c.write(m.value))
		}
		return "{" + strings.Join(parts, comma) + "}"
	case '[':
		for _, item := range v.items {
			parts = append(parts, c.write(item))
		}
		return "[" + strings.Join(parts, comma) + "]"
	case '"':
		return quote(v.text)
	case '0':
		return v.text
	case 'n':
		return "null"
	}
	return map[byte]string{'t': "true", 'f': "false"}[v.kind]
}

// quote encodes a string as JSON.
func quote(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range s {
		out.WriteString(automaton.Quote(r))
	}
	out.WriteByte('"')
	return out.String()
}

// Quote encodes a string as the grammar does.
func Quote(s string) string { return quote(s) }

// mark adds a comma or a colon and the white space after it.
func (c *compiler) mark(from int32, sign string) int32 {
	at := c.b.Text(from, sign)
	switch c.opt.Space {
	case OneSpace:
		return c.b.Text(at, " ")
	case MaybeSpace:
		to := c.b.Node()
		c.b.Empty(at, to)
		c.b.Bytes(at, ' ', ' ', to)
		return to
	}
	return at
}

// string adds strings.
func (c *compiler) string(a alternative, from, to int32) {
	in, out := c.b.Text(from, `"`), c.b.Node()
	c.b.Bytes(out, '"', '"', to)
	least, most := a.count(ofText)
	if most >= 0 && least > most {
		c.hint(c.of(a), "a string of %d characters at least and %d at most", least, most)
		return
	}
	if len(a.patterns()) == 0 && len(a.except) == 0 {
		c.b.Call(in, c.characters(), out, least, most)
		return
	}
	d, err := c.language(a, 0, -1)
	counted := err == nil && (least > 0 || most >= 0) && !d.Empty() && d.Counts(least, most)
	if err == nil && !counted {
		d, err = c.language(a, least, most)
	}
	if err != nil {
		c.fault(c.of(a), "", "its patterns and lengths together: %v", err)
		return
	}
	if d.Empty() {
		c.hint(c.of(a), "no string has its patterns and lengths")
		return
	}
	if counted {
		rule, start := c.b.Rule(false)
		d.Count(&c.b, rule, start)
		c.b.Call(in, rule, out, least, most)
		return
	}
	begin := c.b.Node()
	c.b.Empty(in, begin)
	d.Build(&c.b, begin, automaton.JSON, func(at int32, _ int) { c.b.Empty(at, out) })
}

// count returns the range of the number of characters, items or members; most <
// 0 is unlimited.
func (a alternative) count(of int) (least, most int32) {
	most = -1
	for _, n := range a.nodes {
		least = max(least, n.min[of])
		if n.max[of] >= 0 && (most < 0 || n.max[of] < most) {
			most = n.max[of]
		}
	}
	return least, most
}

func (a alternative) patterns() (out []string) {
	for _, n := range a.nodes {
		for _, p := range n.patterns {
			if !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// language returns the strings with all patterns and a length.
func (c *compiler) language(a alternative, least, most int32) (*automaton.DFA, error) {
	var of []*automaton.DFA
	for _, p := range a.patterns() {
		d, err := c.pattern(p)
		if err != nil {
			return nil, err
		}
		of = append(of, d)
	}
	if least > 0 || most >= 0 || len(of) == 0 {
		d, err := automaton.Length(int(least), int(most))
		if err != nil {
			return nil, fmt.Errorf("length of %d to %d with a pattern: %w", least, most, err)
		}
		of = append(of, d)
	}
	n := len(of)
	return automaton.Product(append(of, a.except...), func(labels []int) int {
		if slices.ContainsFunc(labels[n:], func(label int) bool { return label != automaton.No }) {
			return automaton.No
		}
		return automaton.All(labels[:n])
	})
}

// broadly returns the strings of a length in which any dialect finds all patterns;
// those of formats, which validators may ignore, restrict nothing.
func (c *compiler) broadly(a alternative, least, most int32) (*automaton.DFA, error) {
	d, err := automaton.Length(int(least), int(most))
	if err != nil {
		return nil, err
	}
	of := []*automaton.DFA{d}
	for _, n := range a.nodes {
		for i, p := range n.patterns {
			if slices.Contains(n.formats, i) {
				continue
			}
			if d, err = c.broad(p); err != nil {
				return nil, err
			}
			of = append(of, d)
		}
	}
	return automaton.Product(of, automaton.All)
}

// characters returns the rule of a string's content: as many characters as the
// call counts. A character is its UTF-8 or an escape, without lone surrogates.
func (c *compiler) characters() int32 {
	if c.text >= 0 {
		return c.text
	}
	rule, start := c.b.Rule(false)
	c.text = rule
	body, end := c.b.Node(), c.b.Node()
	c.b.Loop(rule, start, body, end)
	c.b.End(end)
	c.b.Free(body)
	plain := automaton.DFA{States: []automaton.DFAState{{Edges: []automaton.Edge{
		{Lo: ' ', Hi: '!', To: 1}, {Lo: '#', Hi: '[', To: 1}, {Lo: ']', Hi: 0x10FFFF, To: 1}}, Label: automaton.No}, {Label: 0}}}
	plain.Build(&c.b, body, automaton.Plain, func(at int32, _ int) { c.b.Empty(at, start) })
	escape := c.b.Text(body, `\`)
	for _, e := range []byte(`"\/bfnrt`) {
		c.b.Bytes(escape, e, e, start)
	}
	unit := c.b.Text(escape, "u")
	last := c.hex(start, 1)
	two := c.hex(last, 1)
	three := c.hex(two, 1)
	for _, r := range []string{"09", "ac", "AC", "ef", "EF"} {
		c.b.Bytes(unit, r[0], r[1], three)
	}
	surrogate := c.b.Node()
	c.b.Bytes(unit, 'd', 'd', surrogate)
	c.b.Bytes(unit, 'D', 'D', surrogate)
	c.b.Bytes(surrogate, '0', '7', two)
	low := c.b.Node()
	half := c.hex(low, 2)
	for _, r := range []string{"89", "ab", "AB"} {
		c.b.Bytes(surrogate, r[0], r[1], half)
	}
	second := c.b.Text(low, `\u`)
	d := c.b.Node()
	c.b.Bytes(second, 'd', 'd', d)
	c.b.Bytes(second, 'D', 'D', d)
	for _, r := range []string{"cf", "CF"} {
		c.b.Bytes(d, r[0], r[1], two)
	}
	return rule
}

// hex returns a node from which n hexadecimal digits lead to another.
func (c *compiler) hex(to int32, n int) int32 {
	for range n {
		at := c.b.Node()
		for _, r := range []string{"09", "af", "AF"} {
			c.b.Bytes(at, r[0], r[1], to)
		}
		to = at
	}
	return to
}
