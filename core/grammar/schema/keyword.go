package schema

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/grammar/automaton"
)

// types is a set of types.
type types uint8

// The types. Numbers are split into integers and fractions.
const (
	null types = 1 << iota
	boolean
	integral
	fractional
	text
	array
	object
	number  = integral | fractional
	anyType = null | boolean | number | text | array | object
)

var typeNames = map[string]types{
	"null": null, "boolean": boolean, "integer": integral, "number": number,
	"string": text, "array": array, "object": object,
}

// node is a parsed schema.
type node struct {
	id        int
	doc       int
	at        string
	synthetic bool // synthesized from part of another's keyword
	never     bool

	types types // of `type`; 0 if missing
	about types // types implied by the other keywords
	enum  []*value
	fixed bool // has an enum or a const

	in                    []*node // $ref and allOf
	anyOf, oneOf          []*node
	not                   *node
	when, then, otherwise *node
	choices               [][]*node // one of each must hold

	lo, hi    automaton.Bound
	multiples []multiple

	min, max [3]int32 // of characters, items, members; max < 0: unlimited
	patterns []string
	formats  []int // indexes of the patterns of formats

	prefix []*node
	items  *node
	unique bool
	// The first items, at least of this number, satisfy contains.
	contains    *node
	minContains int32
	limited     bool // no others do

	props, patternProps []property
	additional, names   *node
	required            []string
	listed              bool // has properties

	// For members and items at which no schema in place has looked.
	restProps, restItems *node
}

// multiple is a multipleOf: a number divided by a power of ten.
type multiple struct{ of, places int }

type property struct {
	name string
	node *node
}

// Indexes of min and max.
const ofText, ofObject, ofArray = 0, 1, 2

// node parses a schema, once.
func (c *compiler) node(doc int, v *value) *node {
	if n, ok := c.nodes[v]; ok {
		return n
	}
	n := c.blank()
	n.doc, n.at = doc, v.at
	c.nodes[v] = n
	switch v.kind {
	case 't':
		return n
	case 'f':
		n.never = true
		return n
	case '{':
	default:
		c.fault(n, "", "bad schema: want an object, true or false")
		return n
	}
	for _, m := range v.members {
		if read := c.keywords[m.name]; read != nil && !(c.docs[doc].draft < 2019 && v.get("$ref") != nil && m.name != "$ref") {
			r := reader{c: c, n: n, keyword: m.name, parent: v}
			read(&r, m.value)
		}
	}
	return n
}

// blank returns an empty schema.
func (c *compiler) blank() *node {
	n := &node{id: len(c.nodes) + c.synthetic}
	for i := range n.max {
		n.max[i] = -1
	}
	return n
}

// reader parses a keyword of a schema.
type reader struct {
	c       *compiler
	n       *node
	keyword string
	parent  *value // the schema
}

func (r *reader) fault(format string, args ...any) {
	r.c.fault(r.n, r.keyword, format, args...)
}

// keywords returns the supported keywords; those with nil are ignored.
func keywords() map[string]func(*reader, *value) {
	count := func(of int, least bool, about types) func(*reader, *value) {
		return func(r *reader, v *value) { r.count(v, of, least, about) }
	}
	bound := func(low, open bool) func(*reader, *value) {
		return func(r *reader, v *value) { r.bound(v, low, open) }
	}
	out := map[string]func(*reader, *value){
		"type": (*reader).types, "enum": (*reader).enum, "const": (*reader).constant,
		"$ref": (*reader).ref, "$dynamicRef": (*reader).dynamic, "$recursiveRef": (*reader).dynamic,
		"allOf":  func(r *reader, v *value) { r.n.in = append(r.n.in, r.schemas(v)...) },
		"anyOf":  func(r *reader, v *value) { r.n.anyOf = r.schemas(v) },
		"oneOf":  func(r *reader, v *value) { r.n.oneOf = r.schemas(v) },
		"not":    func(r *reader, v *value) { r.n.not = r.schema(v) },
		"if":     func(r *reader, v *value) { r.n.when = r.schema(v) },
		"then":   func(r *reader, v *value) { r.n.then = r.schema(v) },
		"else":   func(r *reader, v *value) { r.n.otherwise = r.schema(v) },
		"format": (*reader).format, "pattern": (*reader).pattern,
		"minLength": count(ofText, true, text), "maxLength": count(ofText, false, text),
		"minItems": count(ofArray, true, array), "maxItems": count(ofArray, false, array),
		"minProperties": count(ofObject, true, object), "maxProperties": count(ofObject, false, object),
		"minimum": bound(true, false), "exclusiveMinimum": bound(true, true),
		"maximum": bound(false, false), "exclusiveMaximum": bound(false, true),
		"multipleOf": (*reader).multiple, "uniqueItems": (*reader).uniqueItems,
		"contains": (*reader).contains, "maxContains": (*reader).maxContains,
		"unevaluatedItems":      func(r *reader, v *value) { r.n.restItems, r.n.about = r.schema(v), r.n.about|array },
		"unevaluatedProperties": func(r *reader, v *value) { r.n.restProps, r.n.about = r.schema(v), r.n.about|object },
		"prefixItems":           func(r *reader, v *value) { r.n.prefix, r.n.about = r.schemas(v), r.n.about|array },
		"items":                 (*reader).items, "additionalItems": (*reader).additionalItems,
		"properties":           func(r *reader, v *value) { r.n.props, r.n.listed = r.properties(v), true },
		"patternProperties":    (*reader).patternProperties,
		"additionalProperties": func(r *reader, v *value) { r.n.additional, r.n.about = r.schema(v), r.n.about|object },
		"propertyNames":        func(r *reader, v *value) { r.n.names, r.n.about = r.schema(v), r.n.about|object },
		"required":             func(r *reader, v *value) { r.n.required, r.n.about = r.strings(v), r.n.about|object },
		"dependentRequired":    (*reader).dependent, "dependentSchemas": (*reader).dependent, "dependencies": (*reader).dependent,
	}
	return out
}

func (r *reader) schema(v *value) *node { return r.c.node(r.n.doc, v) }

func (r *reader) schemas(v *value) []*node {
	if v.kind != '[' || len(v.items) == 0 {
		r.fault("bad value: want a list of schemas")
		return nil
	}
	var out []*node
	for _, item := range v.items {
		out = append(out, r.schema(item))
	}
	return out
}

func (r *reader) strings(v *value) []string {
	var out []string
	for _, item := range v.items {
		if item.kind != '"' {
			break
		}
		out = append(out, item.text)
	}
	if v.kind != '[' || len(out) != len(v.items) {
		r.fault("bad value: want a list of strings")
	}
	return out
}

func (r *reader) properties(v *value) []property {
	r.n.about |= object
	if v.kind != '{' {
		r.fault("bad value: want an object of schemas")
	}
	var out []property
	for _, m := range v.members {
		out = append(out, property{m.name, r.schema(m.value)})
	}
	return out
}

func (r *reader) types(v *value) {
	list := v.items
	if v.kind != '[' {
		list = []*value{v}
	}
	for _, item := range list {
		t, ok := typeNames[item.text]
		if item.kind != '"' || !ok {
			r.fault("bad type %.40q", item.text)
			continue
		}
		r.n.types |= t
	}
}

func (r *reader) enum(v *value) {
	if v.kind != '[' {
		r.fault("bad value: want a list of values")
	}
	r.fix(v.items)
}

func (r *reader) constant(v *value) { r.fix([]*value{v}) }

// fix restricts a value to a list. With both enum and const a value must be in
// both, which the validator checks.
func (r *reader) fix(list []*value) {
	if !r.n.fixed || len(list) < len(r.n.enum) {
		r.n.enum = list
	}
	r.n.fixed = true
}

// ref resolves a reference within the document.
func (r *reader) ref(v *value) {
	if v.kind != '"' {
		r.fault("bad value: want a reference")
		return
	}
	to, err := r.c.docs[r.n.doc].resolve(r.n.at, v.text)
	if err != nil {
		r.fault("%v", err)
		return
	}
	r.n.in = append(r.n.in, r.schema(to))
}

// dynamic resolves a reference whose target may depend on the schemas around it. In a
// document of one resource, its target is the only schema with the anchor.
func (r *reader) dynamic(v *value) {
	if len(r.c.docs[r.n.doc].resources) > 1 {
		r.fault("unsupported keyword in a document with a nested $id")
		return
	}
	r.ref(v)
}

// contains parses contains and minContains.
func (r *reader) contains(v *value) {
	r.n.about |= array
	r.n.contains, r.n.minContains = r.schema(v), 1
	least := r.parent.get("minContains")
	if least == nil {
		return
	}
	n, ok := integer(least)
	if !ok || n.Sign() < 0 || n.Cmp(big.NewInt(maxPrefix)) > 0 {
		r.fault("unsupported minContains: want an integer from 0 to %d", maxPrefix)
		return
	}
	r.n.minContains = int32(n.Int64())
}

// maxContains parses maxContains: no more items satisfy contains than must.
func (r *reader) maxContains(v *value) {
	n, ok := integer(v)
	if !ok || n.Sign() < 0 {
		r.fault("bad value: want a number of 0 or more")
		return
	}
	if r.parent.get("contains") == nil {
		return
	}
	r.n.about, r.n.limited = r.n.about|array, true
	least := big.NewInt(1)
	if v := r.parent.get("minContains"); v != nil {
		if least, ok = integer(v); !ok {
			return // a fault of minContains
		}
	}
	if n.Cmp(least) < 0 {
		r.n.in = append(r.n.in, r.c.otherThan(r.n, array))
	}
}

// count parses a limit on the number of characters, items or members.
func (r *reader) count(v *value, of int, least bool, about types) {
	r.n.about |= about
	n, ok := integer(v)
	if !ok || n.Sign() < 0 {
		r.fault("bad value: want a number of 0 or more")
		return
	}
	big := !n.IsInt64() || n.Int64() > math.MaxInt32-1
	switch {
	case least && big:
		r.fault("bad value: %v is too large", n)
	case least:
		r.n.min[of] = int32(n.Int64())
	case !big:
		r.n.max[of] = int32(n.Int64())
	}
}

// integer parses an integer, which may be written 2.0.
func integer(v *value) (*big.Int, bool) {
	x, ok := rational(v)
	if !ok || !x.IsInt() {
		return nil, false
	}
	return x.Num(), true
}

// rational parses a number.
func rational(v *value) (*big.Rat, bool) {
	if v.kind != '0' || len(v.text) > 400 {
		return nil, false
	}
	if i := strings.IndexAny(v.text, "eE"); i >= 0 {
		if e, err := strconv.Atoi(v.text[i+1:]); err != nil || e > 400 || e < -400 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(v.text)
}

func (r *reader) bound(v *value, low, open bool) {
	r.n.about |= number
	if flag := v.kind == 't' || v.kind == 'f'; flag && r.c.docs[r.n.doc].draft == 4 {
		return // of the bound itself, see below
	}
	if other := r.parent.get(map[bool]string{true: "exclusiveMinimum", false: "exclusiveMaximum"}[low]); other != nil && other.kind == 't' {
		open = true
	}
	x, ok := rational(v)
	if !ok {
		r.fault("bad value: want a number of at most 400 digits")
		return
	}
	b := automaton.Bound{At: x, Open: open}
	if low {
		r.n.lo = higher(r.n.lo, b)
	} else {
		r.n.hi = lower(r.n.hi, b)
	}
}

// higher returns the stricter of two lower bounds.
func higher(a, b automaton.Bound) automaton.Bound {
	if a.At == nil || b.At != nil && (b.At.Cmp(a.At) > 0 || b.At.Cmp(a.At) == 0 && b.Open) {
		return b
	}
	return a
}

// lower returns the stricter of two upper bounds.
func lower(a, b automaton.Bound) automaton.Bound {
	if a.At == nil || b.At != nil && (b.At.Cmp(a.At) < 0 || b.At.Cmp(a.At) == 0 && b.Open) {
		return b
	}
	return a
}

func (r *reader) multiple(v *value) {
	r.n.about |= number
	x, ok := rational(v)
	if !ok || x.Sign() <= 0 {
		r.fault("bad value: want a number above 0")
		return
	}
	places := 0
	ten := big.NewRat(10, 1)
	for ; !x.IsInt() && places <= fraction; places++ {
		x = new(big.Rat).Mul(x, ten)
	}
	if !x.IsInt() || x.Num().Cmp(big.NewInt(maxMultiple)) > 0 {
		r.fault("unsupported value: want an integer from 1 to %d, divided by a power of ten", maxMultiple)
		return
	}
	r.n.multiples = append(r.n.multiples, multiple{int(x.Num().Int64()), places})
}

// maxMultiple limits the digits of multipleOf, whose automaton has a state for each rest.
const maxMultiple = 1000

func (r *reader) pattern(v *value) {
	r.n.about |= text
	if v.kind != '"' {
		r.fault("bad value: want a regular expression")
		return
	}
	r.language(v.text)
}

// language adds a pattern.
func (r *reader) language(expr string) {
	if _, err := r.c.pattern(expr); err != nil {
		r.fault("%v", err)
		return
	}
	r.n.patterns = append(r.n.patterns, expr)
}

// format restricts strings to a format. An unknown one is an annotation.
func (r *reader) format(v *value) {
	r.n.about |= text
	if expr, ok := formats[v.text]; ok {
		r.n.formats = append(r.n.formats, len(r.n.patterns))
		r.language(expr)
	}
}

func (r *reader) uniqueItems(v *value) {
	r.n.about |= array
	r.n.unique = v.kind == 't'
}

// items parses the items after prefixItems or, in older dialects, prefixItems
// itself.
func (r *reader) items(v *value) {
	r.n.about |= array
	if v.kind == '[' {
		if len(v.items) > 0 {
			r.n.prefix = r.schemas(v)
		}
		return
	}
	r.n.items = r.schema(v)
}

func (r *reader) additionalItems(v *value) {
	if items := r.parent.get("items"); items != nil && items.kind == '[' {
		r.n.items = r.schema(v)
	}
}

func (r *reader) patternProperties(v *value) {
	for _, p := range r.properties(v) {
		if _, err := r.c.pattern(p.name); err != nil {
			r.c.fault(r.n, r.keyword+"/"+escapePointer.Replace(p.name), "%v", err)
			continue
		}
		r.n.patternProps = append(r.n.patternProps, p)
	}
}

// dependent parses what a member implies: the member is absent, or others are
// present, or a schema holds.
func (r *reader) dependent(v *value) {
	r.n.about |= object
	if v.kind != '{' {
		r.fault("bad value: want an object")
	}
	for _, m := range v.members {
		with := r.c.make(r.n)
		if with.required = []string{m.name}; m.value.kind == '[' {
			with.required = append(with.required, r.strings(m.value)...)
		} else {
			with.in = []*node{r.schema(m.value)}
		}
		r.n.choices = append(r.n.choices, []*node{with, r.c.without(r.n, m.name)})
	}
}
