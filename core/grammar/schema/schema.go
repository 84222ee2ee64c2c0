// Package schema compiles JSON Schemas to grammars: every text of the grammar
// is JSON that the schema accepts.
//
// It supports a closed subset: an unsupported keyword, format or combination is
// a [Fault], and all faults are reported together. If a schema accepts more
// than the grammar, the grammar is smaller: members are in the order of the
// schema, an object with properties has no others unless additionalProperties
// is set, a schema whose keywords concern one type is of that type, numbers
// have 15 digits. docs/GRAMMAR.md has the table.
//
// A schema is first expanded ([compiler.expand]) to alternatives, each a
// conjunction of schemas without anyOf, oneOf, if and $ref. Each alternative
// becomes nodes of an [automaton.Program] by its types. For an alternative that
// is a list of values, a validator library decides which are accepted; the same
// holds for names. Equal lists of schemas share one rule, so that recursion
// terminates.
package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/core/grammar/automaton"
	"mm-abi.org/mm/schemas"
)

// Fault is an unsupported or invalid part of a schema.
type Fault struct {
	Document string // its name; "" if there is only one
	Pointer  string // JSON pointer to the keyword
	Problem  string
}

// String formats the fault as one line.
func (f Fault) String() string {
	return fmt.Sprintf("%s%s: %s", f.Document, place(f.Pointer), f.Problem)
}

// Error holds all faults of schemas.
type Error struct{ Faults []Fault }

// Error returns the faults, one a line.
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
	OneSpace         // after each comma and colon
	MaybeSpace       // there, none or one
)

// Options select the texts of a schema in the grammar. The zero value is
// compact JSON.
type Options struct {
	Space Space
	// Depth limits the nesting of arrays and objects. If zero, it is 32.
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
	// Object restricts the values to objects.
	Object bool
}

// Compile returns the grammar of all documents' values together, each with the
// text around it. Faults in the schemas are an [Error].
func Compile(docs []Document, opt Options) (*automaton.Program, error) {
	if opt.Depth == 0 {
		opt.Depth = defaultDepth
	}
	if opt.Depth < 0 || opt.Depth > deepest {
		return nil, fmt.Errorf("bad depth: got %d, want 1 to %d", opt.Depth, deepest)
	}
	c := &compiler{
		opt: opt, nodes: map[*value]*node{}, rules: map[string]int32{}, parts: map[partKey]*node{},
		patterns: map[string]*automaton.DFA{}, broader: map[string]*automaton.DFA{}, text: automaton.None, reported: map[Fault]bool{}, keywords: keywords(),
	}
	start, at := c.b.Rule(false)
	for _, d := range docs {
		root, err := parse(d.Schema)
		if err != nil {
			return nil, fmt.Errorf("reading the schema%s: %w", ofName(d.Name), err)
		}
		c.docs = append(c.docs, newDocument(d, root))
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
		return nil, &Error{append(c.hints, Fault{Problem: fmt.Sprintf("no supported value of depth %d or less satisfies the schema", opt.Depth)})}
	}
	return p, err
}

func ofName(name string) string {
	if name == "" {
		return ""
	}
	return " of " + name
}

// compiler compiles a grammar.
type compiler struct {
	opt       Options
	b         automaton.Builder
	docs      []document
	nodes     map[*value]*node
	synthetic int // nodes without a value
	parts     map[partKey]*node
	rules     map[string]int32 // by the required nodes
	work      []job
	text      int32 // the rule of a string's characters
	patterns  map[string]*automaton.DFA
	broader   map[string]*automaton.DFA // the patterns in any dialect
	doubt     bool                      // dialects differ in a pattern of a value that was judged
	faults    []Fault
	hints     []Fault // reasons for an empty grammar
	reported  map[Fault]bool
	spent     int // work
	keywords  map[string]func(*reader, *value)
}

// document is a parsed schema.
type document struct {
	Document
	root      *value
	draft     int            // as of [schemas.Dialect]
	shape     *schemas.Shape // judges given values, of an enum or a name
	resources map[string]*value
}

// partKey identifies a synthetic node.
type partKey struct {
	of         *node
	kind, name string
}

// job is a rule still to be built.
type job struct {
	set   []*node
	start int32
}

// fault reports a fault once.
func (c *compiler) fault(n *node, keyword, format string, args ...any) {
	f := Fault{Document: c.docs[n.doc].Name, Pointer: n.at, Problem: fmt.Sprintf(format, args...)}
	if f.Document != "" {
		f.Document += " "
	}
	if keyword != "" {
		f.Pointer += "/" + keyword
	}
	if !c.reported[f] {
		c.reported[f] = true
		c.faults = append(c.faults, f)
	}
}

// hint records a reason for an empty schema, in case the grammar is empty.
func (c *compiler) hint(n *node, format string, args ...any) {
	if len(c.hints) < 8 {
		c.hints = append(c.hints, Fault{Document: c.docs[n.doc].Name, Pointer: n.at, Problem: fmt.Sprintf(format, args...)})
	}
}

// document adds the texts of a document.
func (c *compiler) document(i int, at int32) {
	d := &c.docs[i]
	n := c.node(i, d.root)
	before := len(c.faults)
	var err error
	if d.shape, err = schemas.ReadShape(d.root.anything(), schemas.ShapeOptions{Pattern: c.matcher}); err != nil && before == 0 {
		c.fault(n, "", "invalid schema: %v", err)
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

// of returns a schema of an alternative, for faults that concern all of them.
func (c *compiler) of(a alternative) *node {
	if len(a.nodes) == 0 {
		return &node{}
	}
	return a.nodes[0]
}

// make adds a synthetic schema.
func (c *compiler) make(n *node) *node {
	out := c.blank()
	c.synthetic++
	out.synthetic, out.doc, out.at = true, n.doc, n.at
	return out
}

// without returns the schema of objects that lack a member.
func (c *compiler) without(n *node, name string) *node {
	return c.derive(partKey{n, "without", name}, func(p *node) { p.props = []property{{name, c.never(n)}} })
}

// derive returns the synthetic schema of a key; the first call makes and fills it.
func (c *compiler) derive(key partKey, fill func(*node)) *node {
	p, ok := c.parts[key]
	if !ok {
		p = c.make(key.of)
		fill(p)
		c.parts[key] = p
	}
	return p
}

// pattern returns the language of a regular expression.
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

// language judges texts by an automaton.
type language struct {
	*automaton.DFA
	expr string
	c    *compiler
}

// MatchString implements schemas.Matcher. It reports whether all dialects find the
// pattern, and notes if only some do.
func (l language) MatchString(s string) bool {
	if l.Label(s) != automaton.No {
		return true
	}
	if d, err := l.c.broad(l.expr); err != nil || d.Label(s) != automaton.No {
		l.c.doubt = true
	}
	return false
}

// String returns the regular expression.
func (l language) String() string { return l.expr }

// matcher implements schemas.ShapeOptions.
func (c *compiler) matcher(expr string) (schemas.Matcher, error) {
	d, err := c.pattern(expr)
	return language{d, expr, c}, err
}

// call adds a value for which all of the schemas hold.
func (c *compiler) call(from int32, set []*node, back int32) {
	c.b.Call(from, c.value(set), back, 0, automaton.Unbounded)
}

// value returns the rule of values for which all of the schemas hold.
func (c *compiler) value(set []*node) int32 {
	set = slices.Clone(set)
	unique := set[:0]
	for _, n := range set {
		if !slices.Contains(unique, n) {
			unique = append(unique, n)
		}
	}
	set = unique
	key := keyOf(set)
	if r, ok := c.rules[key]; ok {
		return r
	}
	r, start := c.b.Rule(false)
	c.rules[key] = r
	c.work = append(c.work, job{set, start})
	return r
}

// keyOf returns the key of a list of schemas.
func keyOf(set []*node) string {
	var key strings.Builder
	for _, n := range set {
		fmt.Fprintf(&key, "%d,", n.id)
	}
	return key.String()
}

// maxRules limits the number of lists of schemas.
const maxRules = 20000

// build builds the rules, and those that they call.
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
