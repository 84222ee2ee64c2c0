package schema

import (
	"math/big"
	"slices"
	"strings"

	"mm-abi.org/mm/core/grammar/automaton"
)

// finite returns the distinct values of alternatives whose values are finite in number: of an
// enum, booleans, null, and integers within bounds.
func (c *compiler) finite(alts []alternative) (texts []string, ok bool) {
	seen := map[string]bool{}
	for _, a := range alts {
		list, _, fixed := a.fixed()
		if !fixed {
			if list, ok = a.values(); !ok {
				return nil, false
			}
		}
		for _, v := range c.accepted(a, list) {
			if id := identity(v); !seen[id] {
				seen[id] = true
				texts = append(texts, c.write(v))
			}
		}
	}
	return texts, len(alts) > 0
}

// values returns the values of the types of an alternative without an enum, before its other
// keywords, if they are at most maxPrefix integers, booleans or null.
func (a alternative) values() (out []*value, ok bool) {
	types := a.meant()
	if types&^(null|boolean|integral) != 0 {
		return nil, false
	}
	if types&null != 0 {
		out = append(out, &value{kind: 'n'})
	}
	if types&boolean != 0 {
		out = append(out, &value{kind: 'f'}, &value{kind: 't'})
	}
	if types&integral == 0 {
		return out, true
	}
	var lo, hi automaton.Bound
	for _, n := range a.nodes {
		lo, hi = higher(lo, n.lo), lower(hi, n.hi)
	}
	if lo.At == nil || hi.At == nil {
		return nil, false
	}
	first := new(big.Int).Div(lo.At.Num(), lo.At.Denom()) // at most the bound; accepted removes values below
	size := new(big.Int).Sub(new(big.Int).Div(hi.At.Num(), hi.At.Denom()), first)
	if !size.IsInt64() || size.Int64() >= maxPrefix {
		return nil, false
	}
	for i := range size.Int64() + 1 {
		out = append(out, &value{kind: '0', text: new(big.Int).Add(first, big.NewInt(i)).String()})
	}
	return out, true
}

// identity returns a text that is the same for values that JSON Schema holds equal: 1 and 1.0,
// or objects whose members are in another order.
func identity(v *value) string {
	switch v.kind {
	case '0':
		if x, ok := rational(v); ok {
			return x.RatString()
		}
		return "?" + v.text
	case '"':
		return quote(v.text)
	case '[':
		var items []string
		for _, x := range v.items {
			items = append(items, identity(x))
		}
		return "[" + strings.Join(items, ",") + "]"
	case '{':
		var members []string
		for _, m := range v.members {
			members = append(members, quote(m.name)+":"+identity(m.value))
		}
		slices.Sort(members)
		return "{" + strings.Join(members, ",") + "}"
	}
	return string(v.kind)
}
