package automaton

import "slices"

// reach is the number of turns of its rule's loops after which a node can be at the
// end of the rule.
type reach struct {
	exact int32 // the least number
	from  int32 // a number from which on every number will do
}

// ends reports whether the counter of a call is enough for a node to reach the end of
// its rule.
// Below the minimum only numbers without gaps count.
func (p *Program) ends(at int32, f *frame) bool {
	if p.reach == nil {
		return true
	}
	n := p.reach[at].exact
	if f.min > 0 {
		n = p.reach[at].from
	}
	return n < never && (f.max == Unbounded || n <= f.max)
}

// turns computes the reach of the nodes of rules in which a loop has no exit.
func (p *Program) turns() {
	if !slices.ContainsFunc(p.rules, func(r rule) bool { return r.gaps }) {
		return
	}
	p.reach, p.spare = make([]reach, len(p.nodes)), 0
	for i := range p.rules {
		if p.rules[i].gaps {
			p.turnsOf(&p.rules[i])
		}
	}
}

// turnsOf computes the reach of a rule's nodes by iterating to a fixed point.
func (p *Program) turnsOf(r *rule) {
	nodes := p.nodesOf(r.start)
	for _, at := range nodes {
		p.reach[at] = reach{never, never}
		if p.nodes[at].end {
			p.reach[at].exact = 0
		}
		if l := p.nodes[at].loop; l != nil && l.exit != None && p.repeats(at) {
			p.reach[at].from = 0
		}
	}
	for changed := true; changed; {
		changed = false
		for _, at := range slices.Backward(nodes) {
			if next := p.nearest(at); next != p.reach[at] {
				p.reach[at], changed = next, true
			}
		}
	}
	for _, at := range nodes {
		for _, n := range []int32{p.reach[at].exact, p.reach[at].from} {
			if n < never {
				p.spare = max(p.spare, n)
			}
		}
	}
}

// nearest returns the reach of a node, given those of its successors.
func (p *Program) nearest(at int32) reach {
	n, out := &p.nodes[at], p.reach[at]
	for to := range n.next {
		out.exact, out.from = min(out.exact, p.reach[to].exact), min(out.from, p.reach[to].from)
	}
	if l := n.loop; l != nil {
		if l.body != None {
			out.exact, out.from = min(out.exact, p.reach[l.body].exact+1), min(out.from, p.reach[l.body].from+1)
		}
		if l.exit != None {
			out.exact = min(out.exact, p.reach[l.exit].exact)
		}
	}
	return out
}

// nodesOf returns the nodes of a rule.
func (p *Program) nodesOf(start int32) []int32 {
	out, seen := []int32{start}, map[int32]bool{start: true}
	add := func(to int32) {
		if to != None && !seen[to] {
			seen[to] = true
			out = append(out, to)
		}
	}
	for k := 0; k < len(out); k++ {
		n := &p.nodes[out[k]]
		for to := range n.next {
			add(to)
		}
		if n.loop != nil {
			add(n.loop.body)
			add(n.loop.exit)
		}
	}
	return out
}

// repeats reports whether a loop's body returns to it without another loop.
func (p *Program) repeats(at int32) bool {
	l := p.nodes[at].loop
	if l.body == None {
		return false
	}
	todo, seen := []int32{l.body}, map[int32]bool{}
	for len(todo) > 0 {
		here := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for to := range p.nodes[here].next {
			if to == at {
				return true
			}
			if p.nodes[to].loop == nil && !seen[to] {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
	return false
}
