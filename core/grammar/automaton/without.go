package automaton

import "slices"

// Without returns the grammar of the texts without some bytes, or [ErrEmpty]. No state
// of it is a dead end, and there is always an unused key.
func (p *Program) Without(bytes [256]bool) (*Program, error) {
	out := &Program{rules: slices.Clone(p.rules), start: p.start, depth: p.depth, keys: p.keys}
	for _, n := range p.nodes {
		var kept []edge
		for _, e := range n.edges {
			kept = append(kept, e.without(bytes)...)
		}
		if n.edges = kept; n.leave.to != None && bytes[n.leave.lo] {
			n.leave.to = None
		}
		out.nodes = append(out.nodes, n)
	}
	out.measure()
	if out.keys {
		for _, i := range out.finite() {
			out.nodes[i] = node{leave: edge{to: None}}
		}
		out.measure()
	}
	if out.entry(out.start, 0) > out.depth {
		return nil, ErrEmpty
	}
	out.spread()
	out.turns()
	out.classify()
	return out, nil
}

// without returns the ranges of an edge around some bytes.
func (e edge) without(bytes [256]bool) (out []edge) {
	for lo := int(e.lo); lo <= int(e.hi); lo++ {
		if bytes[lo] {
			continue
		}
		hi := lo
		for hi < int(e.hi) && !bytes[hi+1] {
			hi++
		}
		out = append(out, edge{byte(lo), byte(hi), e.to})
		lo = hi
	}
	return out
}

// finite returns the nodes of keys that finitely many texts complete: those that are left
// when no node on a path to a cycle is.
func (p *Program) finite() (out []int32) {
	in := p.keyNodes()
	before := map[int32][]int32{}
	after := map[int32]int{}
	for i := range in {
		for to := range p.nodes[i].next {
			if in[to] {
				before[to] = append(before[to], i)
				after[i]++
			}
		}
	}
	for i := range in {
		if after[i] == 0 {
			out = append(out, i)
		}
	}
	for k := 0; k < len(out); k++ {
		for _, i := range before[out[k]] {
			if after[i]--; after[i] == 0 {
				out = append(out, i)
			}
		}
	}
	return out
}

// keyNodes returns the nodes of keys from which a key can be completed.
func (p *Program) keyNodes() map[int32]bool {
	in := map[int32]bool{}
	var visit func(i int32)
	visit = func(i int32) {
		if in[i] || p.need[i] == never {
			return
		}
		in[i] = true
		for to := range p.nodes[i].next {
			visit(to)
		}
	}
	for i := range p.nodes {
		for _, c := range p.nodes[i].calls {
			if c.key {
				visit(p.rules[c.rule].start)
			}
		}
	}
	return in
}

// next yields the nodes of the same rule that follow a node.
func (n *node) next(yield func(int32) bool) {
	for _, e := range n.edges {
		if !yield(e.to) {
			return
		}
	}
	for _, to := range n.empty {
		if !yield(to) {
			return
		}
	}
}
