package schema

import "mm-abi.org/mm/core/grammar/automaton"

// maxPrefix limits the items with separate schemas.
const maxPrefix = 1000

// array adds arrays.
func (c *compiler) array(a alternative, from, to int32) {
	least, most := a.count(ofArray)
	if most >= 0 && least > most {
		c.hint(c.of(a), "an array of %d items at least and %d at most", least, most)
		return
	}
	prefix, unique := 0, false
	if first, has := a.contained(); has > 0 {
		prefix, least = first+has, max(least, int32(first+has))
	}
	if most >= 0 && least > most {
		c.hint(c.of(a), "an array whose contains needs %d items and of %d at most", least, most)
		return
	}
	for _, n := range a.nodes {
		prefix = max(prefix, len(n.prefix))
		unique = unique || n.unique
	}
	if prefix > maxPrefix {
		c.fault(c.of(a), "prefixItems", "more than %d items", maxPrefix)
		return
	}
	rule, start := c.b.Rule(true)
	c.once(from, rule, to)
	at, close := c.b.Text(start, "["), c.b.Node()
	end := c.b.Node()
	c.b.Bytes(close, ']', ']', end)
	c.b.End(end)
	if unique && (most < 0 || most > 1) {
		c.distinct(a, prefix, least, most, at, close)
		return
	}
	for i := range prefix {
		if int32(i) >= least {
			c.b.Empty(at, close)
		}
		if most >= 0 && int32(i) >= most {
			return
		}
		if i > 0 {
			at = c.mark(at, ",")
		}
		next := c.b.Node()
		c.call(at, a.item(c, i), next)
		at = next
	}
	rest := rest{least: max(0, least-int32(prefix)), most: most, begun: prefix > 0}
	if most >= 0 {
		rest.most = max(0, most-int32(prefix))
	}
	set := a.item(c, prefix)
	c.repeat(at, close, rest, func(from, next int32) { c.call(from, set, next) })
}

// item returns the schemas of the item at an index.
func (a alternative) item(c *compiler, i int) (out []*node) {
	for _, n := range a.nodes {
		switch {
		case i < len(n.prefix):
			out = append(out, n.prefix[i])
		case n.items != nil:
			out = append(out, n.items)
		}
	}
	first, _ := a.contained()
	for _, n := range a.nodes {
		if n.contains == nil {
			continue
		}
		switch {
		case i >= first && i < first+int(n.minContains):
			out = append(out, n.contains)
		case n.limited:
			out = append(out, c.opposite(n.contains))
		}
		first += int(n.minContains)
	}
	return out
}

// contained returns the number of items that satisfy the contains of the schemas, one schema
// after the other, and the index of the first: after the items with separate schemas, which
// may exclude them.
func (a alternative) contained() (first, n int) {
	for _, m := range a.nodes {
		first = max(first, len(m.prefix))
		n += int(m.minContains)
	}
	return first, n
}

// once adds a single call of a rule.
func (c *compiler) once(from, rule, to int32) { c.b.Call(from, rule, to, 0, -1) }

// rest is a repetition count with separating commas.
type rest struct {
	least, most int32
	begun       bool // the first is preceded by others
}

// repeat adds a repetition; one adds an element.
func (c *compiler) repeat(from, to int32, r rest, one func(from, next int32)) {
	rule, start := c.b.Rule(false)
	c.b.Call(from, rule, to, r.least, r.most)
	end, again, more := c.b.Node(), c.b.Node(), c.b.Node()
	c.b.End(end)
	c.b.Loop(rule, again, more, end)
	first := c.mark(more, ",")
	one(first, again)
	if r.begun {
		c.b.Empty(start, again)
		return
	}
	// The first has no comma.
	body := c.b.Node()
	c.b.Loop(rule, start, body, end)
	c.b.Empty(body, first)
}

// distinct adds distinct items: values of a finite set in its order, or strings of an
// infinite language.
func (c *compiler) distinct(a alternative, prefix int, least, most int32, from, to int32) {
	alts := c.expand(a.item(c, 0))
	if texts, ok := c.finite(alts); ok && prefix == 0 {
		c.choose(c.of(a), texts, least, most, from, to)
		return
	}
	if prefix > 0 || len(alts) != 1 || alts[0].meant() != text || len(alts[0].nots) > 0 {
		c.fault(c.of(a), "uniqueItems", "unsupported: items must be strings, or values of an enum, booleans, null and integers of at most %d values", maxPrefix)
		return
	}
	item := alts[0]
	shortest, longest := item.count(ofText)
	d, err := c.language(item, shortest, longest)
	if err != nil {
		c.fault(c.of(a), "uniqueItems", "the strings: %v", err)
		return
	}
	if d = d.Endless(); d.Empty() {
		c.fault(c.of(a), "uniqueItems", "unsupported: the items are strings of bounded length")
		return
	}
	c.repeat(from, to, rest{least: least, most: most}, func(from, next int32) {
		c.key(c.b.Text(from, `"`), d, func(int) int32 { return next })
	})
}

// key adds texts of a language, each at most once in a rule's call, with the
// closing quote; to returns the next node for a label.
func (c *compiler) key(from int32, d *automaton.DFA, to func(label int) int32) {
	rule, start := c.b.Rule(false)
	c.b.Key(from, rule)
	begin := c.b.Node()
	c.b.Empty(start, begin)
	next := map[int]int32{}
	d.Build(&c.b, begin, automaton.JSON, func(at int32, label int) {
		if _, ok := next[label]; !ok {
			next[label] = to(label)
		}
		c.b.Leave(at, '"', next[label])
	})
}

// choose adds a subset of the texts, in order.
func (c *compiler) choose(owner *node, texts []string, least, most int32, from, to int32) {
	n := len(texts)
	if n > maxPrefix {
		c.fault(owner, "uniqueItems", "enum of more than %d values", maxPrefix)
		return
	}
	c.grid(grid{owner: owner, n: n, least: least, most: most}, from, to, func(int) bool { return false }, func(i int, from, next int32) {
		c.literal(texts[i], from, next)
	})
}
