// Package automaton runs grammars over bytes: what may follow a text, and
// whether it may end there.
//
// A [Program], which a [Builder] puts together, is a recursive transition
// network: nodes with edges of bytes, joined into rules that call each other
// (Woods, "Transition network grammars for natural language analysis", 1970).
// A call may bring a counter, so that a string of 5 to 900 characters is one
// loop and no 900 nodes. A [Machine] runs it as Thompson's algorithm does: a
// [State] is the set of all places at which the text may stand, each with the
// calls that are open there, and states and steps between them are made when
// they are first met and kept.
//
// No state is a dead end. For each node the machine knows how deep its calls
// must go to come to the end of its rule, and it enters no node for which that
// is more than is left of [Program.Depth]. So every place in every state has a
// way to the end, and leaving places out, as a state with too many of them
// does, takes away texts and never the last one.
package automaton

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// None is no node.
const None int32 = -1

// Unbounded is the greatest count of a call without one.
const Unbounded int32 = -1

// Program is a grammar. It is immutable.
type Program struct {
	nodes   []node
	rules   []rule
	start   int32 // a rule
	depth   int32
	need    []int32 // by node: how deep its rule's calls go from there, at least
	within  []int32 // by node: the greatest need of those that edges lead to, and so on
	keys    bool    // some call takes keys
	class   [256]uint8
	classes int
}

// node is a place in a rule.
type node struct {
	edges []edge
	empty []int32 // nodes that are reached without a byte
	calls []call
	loop  *loop
	leave edge // from a key to where the rule that called goes on; to None: nowhere
	end   bool // of the rule
	free  bool
}

// ways are the edges of a node and the one that leaves a key.
func (n *node) ways(yield func(edge) bool) {
	for _, e := range n.edges {
		if !yield(e) {
			return
		}
	}
	if n.leave.to != None {
		yield(n.leave)
	}
}

// edge is a range of bytes.
type edge struct {
	lo, hi byte
	to     int32
}

// call is a rule that stands in another.
type call struct {
	rule, back int32
	min, max   int32
	key        bool
}

// loop asks the counter of the rule's call.
type loop struct{ body, exit int32 }

// rule is a part of a grammar that others may call.
type rule struct {
	start int32
	deep  bool // a call goes one deeper
	loops []int32
	must  int32 // how deep a call goes whose counter is not at its least
}

// Builder puts a program together. Nodes and rules are numbers.
type Builder struct {
	p   Program
	err error
}

// maxNodes bounds a program.
const maxNodes = 1 << 18

// ErrLarge says that a grammar has too many nodes.
var ErrLarge = fmt.Errorf("the grammar has more than %d nodes", maxNodes)

// ErrEmpty says that no text is in the grammar.
var ErrEmpty = errors.New("no text is in the grammar")

// Err says why no program can come of it any more.
func (b *Builder) Err() error { return b.err }

// Node makes a node.
func (b *Builder) Node() int32 {
	if len(b.p.nodes) >= maxNodes {
		b.err = ErrLarge
		return 0
	}
	b.p.nodes = append(b.p.nodes, node{leave: edge{to: None}})
	return int32(len(b.p.nodes) - 1)
}

// Rule makes a rule, whose start is a new node. A deep one counts towards the
// depth of what it stands in.
func (b *Builder) Rule(deep bool) (id, start int32) {
	start = b.Node()
	b.p.rules = append(b.p.rules, rule{start: start, deep: deep})
	return int32(len(b.p.rules) - 1), start
}

// Bytes goes from a node to another by one byte of a range.
func (b *Builder) Bytes(from int32, lo, hi byte, to int32) {
	n := &b.p.nodes[from]
	n.edges = append(n.edges, edge{lo, hi, to})
}

// Text goes by text, and gives the node behind it.
func (b *Builder) Text(from int32, text string) int32 {
	for i := range len(text) {
		to := b.Node()
		b.Bytes(from, text[i], text[i], to)
		from = to
	}
	return from
}

// Empty goes by nothing.
func (b *Builder) Empty(from, to int32) {
	n := &b.p.nodes[from]
	n.empty = append(n.empty, to)
}

// Call goes by a text of a rule. Loops of the rule count from 0 up to min at
// least and max, or [Unbounded], at most.
func (b *Builder) Call(from, rule, back, min, max int32) {
	if min < 0 || max != Unbounded && max < min {
		panic(fmt.Sprintf("automaton: a call of %d to %d", min, max))
	}
	n := &b.p.nodes[from]
	n.calls = append(n.calls, call{rule: rule, back: back, min: min, max: max})
}

// Key goes by a text of a rule that this call has not taken before: the rule
// must call nothing and end with [Builder.Leave]. What was taken is remembered
// as long as the call in which from lies is open.
func (b *Builder) Key(from, rule int32) {
	n := &b.p.nodes[from]
	n.calls = append(n.calls, call{rule: rule, back: None, max: Unbounded, key: true})
	b.p.keys = true
}

// Leave ends a key at a node by a byte, which is not of the key and by which it
// cannot go on; to, in the rule that called it, is next.
func (b *Builder) Leave(from int32, by byte, to int32) {
	b.p.nodes[from].leave = edge{by, by, to}
}

// Loop lets the call's counter decide, of a rule: body, where it may grow, and
// exit, where it is great enough. The body comes back to this or another loop
// of the rule and takes a byte at least.
func (b *Builder) Loop(rule, from, body, exit int32) {
	b.p.nodes[from].loop = &loop{body, exit}
	r := &b.p.rules[rule]
	r.loops = append(r.loops, from)
}

// End ends the rule at a node.
func (b *Builder) End(at int32) { b.p.nodes[at].end = true }

// Free says that any number of characters that JSON's strings hold as they are
// may follow a node; those that the counter of the call allows, if it has one,
// of which one was counted already.
func (b *Builder) Free(at int32) { b.p.nodes[at].free = true }

// Program checks what was put together; start is the rule of whole texts.
// Calls of deep rules within each other are depth at most. A grammar without
// a text is ErrEmpty.
func (b *Builder) Program(start int32, depth int) (*Program, error) {
	if b.err != nil {
		return nil, b.err
	}
	p := b.p
	p.start, p.depth = start, int32(depth)
	p.measure()
	if p.entry(start, 0) > p.depth {
		return nil, ErrEmpty
	}
	p.spread()
	p.classify()
	return &p, nil
}

// never is the depth of what comes to no end.
const never = math.MaxInt32 / 2

// measure finds how deep calls must go, by going over all nodes until nothing
// becomes less.
func (p *Program) measure() {
	p.need = slices.Repeat([]int32{never}, len(p.nodes))
	for i := range p.rules {
		p.rules[i].must = never
	}
	for changed := true; changed; {
		changed = false
		for i := len(p.nodes) - 1; i >= 0; i-- {
			if n := p.least(&p.nodes[i]); n < p.need[i] {
				p.need[i], changed = n, true
			}
		}
		for i := range p.rules {
			r, must := &p.rules[i], int32(0)
			for _, l := range r.loops {
				must = max(must, p.need[p.nodes[l].loop.body])
			}
			if must < r.must {
				r.must, changed = must, true
			}
		}
	}
}

// spread finds how deep calls must go wherever edges lead.
func (p *Program) spread() {
	p.within = slices.Clone(p.need)
	for changed := true; changed; {
		changed = false
		for i := len(p.nodes) - 1; i >= 0; i-- {
			for _, e := range p.nodes[i].edges {
				if n := p.within[e.to]; n > p.within[i] {
					p.within[i], changed = n, true
				}
			}
		}
	}
}

// least is how deep calls go from a node, by what is known of those behind it.
func (p *Program) least(n *node) int32 {
	out := int32(never)
	if n.end {
		return 0
	}
	if n.leave.to != None {
		out = p.need[n.leave.to]
	}
	for _, e := range n.edges {
		out = min(out, p.need[e.to])
	}
	for _, to := range n.empty {
		out = min(out, p.need[to])
	}
	for i := range n.calls {
		out = min(out, p.through(&n.calls[i]))
	}
	if n.loop != nil {
		out = min(out, p.need[n.loop.exit])
	}
	return out
}

// through is how deep a call goes, and what follows it.
func (p *Program) through(c *call) int32 {
	in := p.entry(c.rule, c.min)
	if c.key { // it goes on where it leaves
		return in
	}
	return max(in, p.need[c.back])
}

// entry is how deep a rule's calls go, itself included.
func (p *Program) entry(r, min int32) int32 {
	rule := &p.rules[r]
	out := p.need[rule.start]
	if min > 0 {
		out = max(out, rule.must)
	}
	if rule.deep && out < never {
		out++
	}
	return out
}

// classify joins bytes that no edge tells apart.
func (p *Program) classify() {
	var cut [257]bool
	for i := range p.nodes {
		for e := range p.nodes[i].ways {
			cut[e.lo], cut[int(e.hi)+1] = true, true
		}
	}
	c := 0
	for b := range 256 {
		if cut[b] && b > 0 {
			c++
		}
		p.class[b] = uint8(c)
	}
	p.classes = c + 1
}

// Bytes are those that texts of the grammar hold.
func (p *Program) Bytes() (out [256]bool) {
	for i := range p.nodes {
		for e := range p.nodes[i].ways {
			if p.need[e.to] > p.depth {
				continue
			}
			for b := int(e.lo); b <= int(e.hi); b++ {
				out[b] = true
			}
		}
	}
	return out
}

// Depth is how many calls of deep rules stand in each other at most.
func (p *Program) Depth() int { return int(p.depth) }

// Size is the number of nodes.
func (p *Program) Size() int { return len(p.nodes) }
