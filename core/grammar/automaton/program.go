// Package automaton runs grammars over bytes: it determines what may follow a
// text, and whether it may end there.
//
// A [Program], built by a [Builder], is a recursive transition network: nodes
// with edges of bytes, grouped into rules that call each other (Woods,
// "Transition network grammars for natural language analysis", 1970). A call
// may carry a counter, so that a string of 5 to 900 characters is one loop
// instead of 900 nodes. A [Machine] runs it like Thompson's algorithm: a
// [State] is the set of all possible positions of the text, each with its open
// calls; states and the steps between them are computed on first use and
// cached.
//
// A [DFA] is a regular language over characters: patterns, numbers in a range,
// texts of a length, and their products. [DFA.Build] adds it to a grammar, as
// characters of JSON strings or verbatim.
//
// No state is a dead end. For each node the machine knows the minimum call
// depth to the end of its rule, and it enters no node that needs more than the
// rest of [Program.Depth]. So every position in every state has a path to the
// end, and dropping positions, as a state with too many of them does, removes
// texts but never the last one.
package automaton

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// None is not a node.
const None int32 = -1

// Unbounded is the maximum count of an unlimited call.
const Unbounded int32 = -1

// Program is a grammar. It is immutable.
type Program struct {
	nodes   []node
	rules   []rule
	start   int32 // a rule
	depth   int32
	need    []int32 // by node: minimum call depth to the end of its rule
	within  []int32 // by node: maximum need of all nodes reachable by edges
	reach   []reach // by node: turns of the rule's loops that its end takes; nil: always 0
	spare   int32   // the most of them
	keys    bool    // some call has distinct keys
	class   [256]uint8
	classes int
}

// node is a position in a rule.
type node struct {
	edges []edge
	empty []int32 // nodes reached without a byte
	calls []call
	loop  *loop
	leave edge // from a key to the continuation in the calling rule; to None: none
	end   bool // of the rule
	free  bool
}

// ways yields the edges of a node, including the one that ends a key.
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

// call is a use of a rule in another.
type call struct {
	rule, back int32
	min, max   int32
	key        bool
}

// loop tests the counter of the rule's call; body and exit may be None.
type loop struct{ body, exit int32 }

// rule is a callable part of a grammar.
type rule struct {
	start int32
	deep  bool // a call increases the depth by one
	loops []int32
	must  int32 // depth of a call whose counter is below its minimum
	gaps  bool  // a loop has no exit
}

// Builder builds a program. Nodes and rules are numbers.
type Builder struct {
	p   Program
	err error
}

// maxNodes limits the size of a program.
const maxNodes = 1 << 18

// ErrLarge reports a grammar with too many nodes.
var ErrLarge = fmt.Errorf("grammar has more than %d nodes", maxNodes)

// ErrEmpty reports a grammar without texts.
var ErrEmpty = errors.New("empty grammar")

// Err returns the first error, after which the program cannot be built.
func (b *Builder) Err() error { return b.err }

// Node adds a node.
func (b *Builder) Node() int32 {
	if len(b.p.nodes) >= maxNodes {
		b.err = ErrLarge
		return 0
	}
	b.p.nodes = append(b.p.nodes, node{leave: edge{to: None}})
	return int32(len(b.p.nodes) - 1)
}

// Rule adds a rule and its start node. A deep rule counts towards the depth.
func (b *Builder) Rule(deep bool) (id, start int32) {
	start = b.Node()
	b.p.rules = append(b.p.rules, rule{start: start, deep: deep})
	return int32(len(b.p.rules) - 1), start
}

// Bytes adds an edge for a byte range.
func (b *Builder) Bytes(from int32, lo, hi byte, to int32) {
	n := &b.p.nodes[from]
	n.edges = append(n.edges, edge{lo, hi, to})
}

// Text adds a path for text, and returns its last node.
func (b *Builder) Text(from int32, text string) int32 {
	for i := range len(text) {
		to := b.Node()
		b.Bytes(from, text[i], text[i], to)
		from = to
	}
	return from
}

// Empty adds an edge without a byte.
func (b *Builder) Empty(from, to int32) {
	n := &b.p.nodes[from]
	n.empty = append(n.empty, to)
}

// Call adds a call of a rule. Loops of the rule count from 0 up to at least min
// and at most max, or [Unbounded].
func (b *Builder) Call(from, rule, back, min, max int32) {
	if min < 0 || max != Unbounded && max < min {
		panic(fmt.Sprintf("automaton: a call of %d to %d", min, max))
	}
	n := &b.p.nodes[from]
	n.calls = append(n.calls, call{rule: rule, back: back, min: min, max: max})
}

// Key adds a call of a rule for a text that differs from earlier ones: the rule
// must not call others and must end with [Builder.Leave]. Used texts are
// recorded while the call that contains from is open.
func (b *Builder) Key(from, rule int32) {
	n := &b.p.nodes[from]
	n.calls = append(n.calls, call{rule: rule, back: None, max: Unbounded, key: true})
	b.p.keys = true
}

// Leave ends a key at a node by a byte that cannot continue the key; to, in the
// calling rule, follows.
func (b *Builder) Leave(from int32, by byte, to int32) {
	b.p.nodes[from].leave = edge{by, by, to}
}

// Loop branches on the call's counter: to body if it may grow, and to exit if
// it is large enough. The body returns to this or another loop of the rule and
// takes at least one byte. Either may be None. A rule with a loop without an exit
// must not call others.
func (b *Builder) Loop(rule, from, body, exit int32) {
	b.p.nodes[from].loop = &loop{body, exit}
	r := &b.p.rules[rule]
	r.gaps = r.gaps || exit == None
	r.loops = append(r.loops, from)
}

// End marks a node as an end of the rule.
func (b *Builder) End(at int32) { b.p.nodes[at].end = true }

// Free declares that any number of unescaped characters of JSON strings may
// follow a node; with a counter, as many as it allows, one being counted
// already.
func (b *Builder) Free(at int32) { b.p.nodes[at].free = true }

// Program validates the result; start is the rule of complete texts. depth
// limits nested calls of deep rules. A grammar without texts is ErrEmpty.
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
	p.turns()
	p.classify()
	return &p, nil
}

// never is the depth of a node without a path to the end.
const never = math.MaxInt32 / 2

// measure computes the minimum call depths by iterating over all nodes to a
// fixed point.
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
				if body := p.nodes[l].loop.body; body != None {
					must = max(must, p.need[body])
				}
			}
			if must < r.must {
				r.must, changed = must, true
			}
		}
	}
}

// spread computes the maximum depth along edges.
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

// least returns the call depth from a node, given those of its successors.
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
	switch l := n.loop; {
	case l == nil:
	case l.exit != None:
		out = min(out, p.need[l.exit])
	case l.body != None:
		out = min(out, p.need[l.body])
	}
	return out
}

// through returns the depth of a call and its continuation.
func (p *Program) through(c *call) int32 {
	in := p.entry(c.rule, c.min)
	if c.key { // it continues at its Leave
		return in
	}
	return max(in, p.need[c.back])
}

// entry returns the depth of a rule's calls, including itself.
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

// classify groups bytes that no edge distinguishes.
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

// Bytes returns the bytes in texts of the grammar.
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

// Depth returns the maximum depth of nested deep rules.
func (p *Program) Depth() int { return int(p.depth) }

// Size returns the number of nodes.
func (p *Program) Size() int { return len(p.nodes) }
