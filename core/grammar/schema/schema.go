// Package schema makes grammars of JSON Schemas: every text of the grammar is
// JSON that the schema accepts.
//
// It is a subset, and closed: a keyword, format or combination that it does not
// know is a [Fault], and all faults are told at once. Where a schema accepts
// more than the grammar holds, the grammar is the smaller: members come in the
// order of the schema, an object that lists its properties has no others
// unless additionalProperties says so, a schema whose keywords speak of one
// type is of that type, numbers have 15 digits. docs/GRAMMAR.md has the table.
//
// A schema is first taken apart ([compiler.expand]) into alternatives, each a
// list of schemas without anyOf, oneOf, if and $ref that must hold together.
// Each alternative becomes nodes of an [automaton.Program] by its types. Where
// an alternative is a list of values, a validator that others keep says which
// of them may stand; so it does for names. Two lists of the same schemas are one
// rule, which is what makes recursion end.
package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/core/grammar/automaton"
)

// Fault is something in a schema that is not in the subset.
type Fault struct {
	Document string // its name; "" where there is one
	Pointer  string // JSON pointer to the keyword
	Problem  string
}

// String is the fault in one line.
func (f Fault) String() string {
	return fmt.Sprintf("%s%s: %s", f.Document, place(f.Pointer), f.Problem)
}

// Error is all that is wrong with schemas.
type Error struct{ Faults []Fault }

// Error tells the faults, one a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// Space is the white space between values.
type Space int

// The white space.
const (
	NoSpace    Space = iota
	OneSpace         // behind each comma and colon
	MaybeSpace       // there, one or none
)

// Options say which texts of a schema are in the grammar. The zero value is
// compact JSON.
type Options struct {
	Space Space
	// Depth is how deep arrays and objects stand in each other at most; 0
	// means 32.
	Depth int
}

const (
	defaultDepth = 32
	deepest      = 512
)

// Document is a schema with the text around its values.
type Document struct {
	Name          string
	Schema        []byte
	Before, After string
	// Object says that nothing but objects is wanted.
	Object bool
}

// Compile makes the grammar of all documents' values together, each with the
// text around it. What is wrong with the schemas is an [Error].
func Compile(docs []Document, opt Options) (*automaton.Program, error) {
	if opt.Depth == 0 {
		opt.Depth = defaultDepth
	}
	if opt.Depth < 0 || opt.Depth > deepest {
		return nil, fmt.Errorf("a depth of %d, not 1 to %d", opt.Depth, deepest)
	}
	c := &compiler{
		opt: opt, nodes: map[*value]*node{}, rules: map[string]int32{}, parts: map[partKey]*node{},
		patterns: map[string]*automaton.DFA{}, text: automaton.None, told: map[Fault]bool{}, keywords: keywords(),
	}
	start, at := c.b.Rule(false)
	for _, d := range docs {
		root, err := parse(d.Schema)
		if err != nil {
			return nil, fmt.Errorf("reading the schema%s: %w", ofName(d.Name), err)
		}
		c.docs = append(c.docs, document{Document: d, root: root})
	}
	for i := range c.docs {
		c.document(i, at)
	}
	if len(c.faults) == 0 {
		c.build()
	}
	if len(c.faults) > 0 {
		slices.SortStableFunc(c.faults, func(a, b Fault) int { return strings.Compare(a.Document+a.Pointer, b.Document+b.Pointer) })
		return nil, &Error{c.faults}
	}
	p, err := c.b.Program(start, opt.Depth)
	if errors.Is(err, automaton.ErrEmpty) {
		return nil, &Error{append(c.hints, Fault{Problem: fmt.Sprintf("no value of the subset, %d deep at most, satisfies it", opt.Depth)})}
	}
	return p, err
}

func ofName(name string) string {
	if name == "" {
		return ""
	}
	return " of " + name
}

// compiler makes a grammar.
type compiler struct {
	opt      Options
	b        automaton.Builder
	docs     []document
	nodes    map[*value]*node
	made     int // nodes that are not of a value
	parts    map[partKey]*node
	rules    map[string]int32 // by the nodes that must hold
	work     []job
	text     int32 // the rule of a string's characters
	patterns map[string]*automaton.DFA
	faults   []Fault
	hints    []Fault // why something is empty
	told     map[Fault]bool
	spent    int // work
	keywords map[string]func(*reader, *value)
}

// document is a schema that is read.
type document struct {
	Document
	root  *value
	valid validator
}

// partKey names a node that is not of a value.
type partKey struct {
	of   *node
	name string
}

// job is a rule that is yet to be written.
type job struct {
	set   []*node
	start int32
}

// fault tells that a schema is not in the subset, once.
func (c *compiler) fault(n *node, keyword, format string, args ...any) {
	f := Fault{Document: c.docs[n.doc].Name, Pointer: n.at, Problem: fmt.Sprintf(format, args...)}
	if f.Document != "" {
		f.Document += " "
	}
	if keyword != "" {
		f.Pointer += "/" + keyword
	}
	if !c.told[f] {
		c.told[f] = true
		c.faults = append(c.faults, f)
	}
}

// hint remembers why a schema has no value, in case that none is left.
func (c *compiler) hint(n *node, format string, args ...any) {
	if len(c.hints) < 8 {
		c.hints = append(c.hints, Fault{Document: c.docs[n.doc].Name, Pointer: n.at, Problem: fmt.Sprintf(format, args...)})
	}
}

// document writes one of the texts of the grammar.
func (c *compiler) document(i int, at int32) {
	d := &c.docs[i]
	n := c.node(i, d.root)
	before := len(c.faults)
	if err := d.valid.open(d.root); err != nil && before == 0 {
		c.fault(n, "", "%v", err)
	}
	set := []*node{n}
	if d.Object {
		only := c.make(n)
		only.types = object
		set = append(set, only)
	}
	from := c.b.Node()
	c.b.Empty(at, from)
	back := c.b.Node()
	c.call(c.b.Text(from, d.Before), set, back)
	c.b.End(c.b.Text(back, d.After))
}

// of is a schema of an alternative, for what is told of all of them.
func (c *compiler) of(a alternative) *node {
	if len(a.nodes) == 0 {
		return &node{}
	}
	return a.nodes[0]
}

// make gives a schema that says something of its own, for another.
func (c *compiler) make(n *node) *node {
	out := c.blank()
	c.made++
	out.made, out.doc, out.at = true, n.doc, n.at
	return out
}

// without is the schema of objects that lack a member.
func (c *compiler) without(n *node, name string) *node {
	key := partKey{n, name}
	if p, ok := c.parts[key]; ok {
		return p
	}
	never, p := c.make(n), c.make(n)
	never.never = true
	p.props = []property{{name, never}}
	c.parts[key] = p
	return p
}

// pattern is the language of a regular expression.
func (c *compiler) pattern(expr string) (*automaton.DFA, error) {
	if d, ok := c.patterns[expr]; ok {
		return d, nil
	}
	d, err := automaton.Pattern(expr)
	if err == nil {
		c.patterns[expr] = d
	}
	return d, err
}

// anchor finds the only schema that names itself so.
func (c *compiler) anchor(v *value, name string) *value {
	var found []*value
	var look func(*value)
	look = func(v *value) {
		if a := v.get("$anchor"); a != nil && a.kind == '"' && a.text == name {
			found = append(found, v)
		}
		for _, m := range v.members {
			look(m.value)
		}
		for _, item := range v.items {
			look(item)
		}
	}
	look(v)
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// call goes by a value of which all of the schemas hold.
func (c *compiler) call(from int32, set []*node, back int32) {
	c.b.Call(from, c.value(set), back, 0, automaton.Unbounded)
}

// value is the rule of values of which all of the schemas hold.
func (c *compiler) value(set []*node) int32 {
	set = slices.Clone(set)
	kept := set[:0]
	for _, n := range set {
		if !slices.Contains(kept, n) {
			kept = append(kept, n)
		}
	}
	set = kept
	key := keyOf(set)
	if r, ok := c.rules[key]; ok {
		return r
	}
	r, start := c.b.Rule(false)
	c.rules[key] = r
	c.work = append(c.work, job{set, start})
	return r
}

// keyOf names a list of schemas; their order is that of their members.
func keyOf(set []*node) string {
	var key strings.Builder
	for _, n := range set {
		fmt.Fprintf(&key, "%d,", n.id)
	}
	return key.String()
}

// maxRules bounds what lists of schemas there may be.
const maxRules = 20000

// build writes the rules, and those that they call.
func (c *compiler) build() {
	for len(c.work) > 0 && len(c.faults) < 100 && c.b.Err() == nil {
		if len(c.rules) > maxRules {
			c.fault(c.work[0].set[0], "", "more than %d combinations of schemas", maxRules)
			return
		}
		j := c.work[0]
		c.work = c.work[1:]
		end := c.b.Node()
		c.b.End(end)
		for _, a := range c.expand(j.set) {
			c.alternative(a, j.start, end)
		}
	}
}
