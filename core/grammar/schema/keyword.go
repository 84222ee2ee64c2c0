package schema

import (
	"math"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/grammar/automaton"
)

// types is a set of types.
type types uint8

// The types. A number is whole or it has a fraction.
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

// node is a schema as it is written.
type node struct {
	id    int
	doc   int
	at    string
	made  bool // of a part of another's keyword
	never bool

	types types // of `type`; 0: it says nothing
	about types // what its other keywords speak of
	enum  []*value
	fixed bool // there is an enum or a const

	in                    []*node // $ref and allOf
	anyOf, oneOf          []*node
	not                   *node
	when, then, otherwise *node
	choices               [][]*node // one of each must hold

	lo, hi    automaton.Bound
	multiples []int

	min, max [3]int32 // of characters, items, members; max < 0: no bound
	patterns []string

	prefix []*node
	items  *node
	unique bool

	props, patternProps []property
	additional, names   *node
	required            []string
	listed              bool // there are properties
}

type property struct {
	name string
	node *node
}

// What min and max are of.
const ofText, ofObject, ofArray = 0, 1, 2

// node reads a schema, once.
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
		c.fault(n, "", "a schema is an object, true or false")
		return n
	}
	for _, m := range v.members {
		read, known := c.keywords[m.name]
		switch {
		case !known:
			c.fault(n, m.name, "the keyword is not in the subset")
		case read != nil:
			r := reader{c: c, n: n, keyword: m.name, whole: v}
			read(&r, m.value)
		}
	}
	return n
}

// blank makes a schema that says nothing.
func (c *compiler) blank() *node {
	n := &node{id: len(c.nodes) + c.made}
	for i := range n.max {
		n.max[i] = -1
	}
	return n
}

// reader reads a keyword of a schema.
type reader struct {
	c       *compiler
	n       *node
	keyword string
	whole   *value // the schema
}

func (r *reader) fault(format string, args ...any) {
	r.c.fault(r.n, r.keyword, format, args...)
}

// keywords are those of the subset; nil ones say nothing about values.
func keywords() map[string]func(*reader, *value) {
	count := func(of int, least bool, about types) func(*reader, *value) {
		return func(r *reader, v *value) { r.count(v, of, least, about) }
	}
	bound := func(low, open bool) func(*reader, *value) {
		return func(r *reader, v *value) { r.bound(v, low, open) }
	}
	out := map[string]func(*reader, *value){
		"type": (*reader).types, "enum": (*reader).enum, "const": (*reader).constant,
		"$ref": (*reader).ref, "$id": (*reader).identity, "$schema": (*reader).dialect,
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
		"prefixItems": func(r *reader, v *value) { r.n.prefix, r.n.about = r.schemas(v), r.n.about|array },
		"items":       (*reader).items, "additionalItems": (*reader).additionalItems,
		"properties":           func(r *reader, v *value) { r.n.props, r.n.listed = r.properties(v), true },
		"patternProperties":    (*reader).patternProperties,
		"additionalProperties": func(r *reader, v *value) { r.n.additional, r.n.about = r.schema(v), r.n.about|object },
		"propertyNames":        func(r *reader, v *value) { r.n.names, r.n.about = r.schema(v), r.n.about|object },
		"required":             func(r *reader, v *value) { r.n.required, r.n.about = r.strings(v), r.n.about|object },
		"dependentRequired":    (*reader).dependent, "dependentSchemas": (*reader).dependent, "dependencies": (*reader).dependent,
	}
	for _, name := range []string{
		"$comment", "$defs", "$anchor", "definitions", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
	} {
		out[name] = nil
	}
	return out
}

func (r *reader) schema(v *value) *node { return r.c.node(r.n.doc, v) }

func (r *reader) schemas(v *value) []*node {
	if v.kind != '[' || len(v.items) == 0 {
		r.fault("it is a list of schemas")
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
		r.fault("it is a list of strings")
	}
	return out
}

func (r *reader) properties(v *value) []property {
	r.n.about |= object
	if v.kind != '{' {
		r.fault("it is an object of schemas")
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
			r.fault("%.40q is no type", item.text)
			continue
		}
		r.n.types |= t
	}
}

func (r *reader) enum(v *value) {
	if v.kind != '[' {
		r.fault("it is a list of values")
	}
	r.fix(v.items)
}

func (r *reader) constant(v *value) { r.fix([]*value{v}) }

// fix says that a value is one of list. With enum and const there are two; a
// value must be in both, which the validator sees to.
func (r *reader) fix(list []*value) {
	if !r.n.fixed || len(list) < len(r.n.enum) {
		r.n.enum = list
	}
	r.n.fixed = true
}

// ref resolves a reference within the document.
func (r *reader) ref(v *value) {
	fragment, ok := strings.CutPrefix(v.text, "#")
	if v.kind != '"' || !ok {
		r.fault("%.80q leads out of the document", v.text)
		return
	}
	root := r.c.docs[r.n.doc].root
	var to *value
	if fragment == "" || fragment[0] == '/' {
		pointer, err := url.PathUnescape(fragment)
		if err != nil {
			r.fault("%.80q is no reference: %v", v.text, err)
			return
		}
		to = root.find(pointer)
	} else {
		to = r.c.anchor(root, fragment)
	}
	if to == nil {
		r.fault("%.80q is not in the document", v.text)
		return
	}
	r.n.in = append(r.n.in, r.schema(to))
}

func (r *reader) identity(v *value) {
	if r.n.at != "" {
		r.fault("a schema within a schema has no name of its own here")
	}
}

// dialects are the versions of JSON Schema whose keywords mean what they do
// here.
var dialects = []string{
	"https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema",
	"http://json-schema.org/draft-07/schema", "http://json-schema.org/draft-06/schema",
}

func (r *reader) dialect(v *value) {
	if !slices.Contains(dialects, strings.TrimSuffix(v.text, "#")) {
		r.fault("%.80q is none of the dialects that are known", v.text)
	}
}

// count reads a bound on a number of characters, items or members.
func (r *reader) count(v *value, of int, least bool, about types) {
	r.n.about |= about
	n, ok := integer(v)
	if !ok || n.Sign() < 0 {
		r.fault("it is a number of 0 or more")
		return
	}
	big := !n.IsInt64() || n.Int64() > math.MaxInt32-1
	switch {
	case least && big:
		r.fault("%v is too many", n)
	case least:
		r.n.min[of] = int32(n.Int64())
	case !big:
		r.n.max[of] = int32(n.Int64())
	}
}

// integer reads a whole number, which may be written 2.0.
func integer(v *value) (*big.Int, bool) {
	x, ok := rational(v)
	if !ok || !x.IsInt() {
		return nil, false
	}
	return x.Num(), true
}

// rational reads a number.
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
	x, ok := rational(v)
	if !ok {
		r.fault("it is a number of at most 400 digits")
		return
	}
	b := automaton.Bound{At: x, Open: open}
	if low {
		r.n.lo = higher(r.n.lo, b)
	} else {
		r.n.hi = lower(r.n.hi, b)
	}
}

// higher is the stricter of two lower bounds.
func higher(a, b automaton.Bound) automaton.Bound {
	if a.At == nil || b.At != nil && (b.At.Cmp(a.At) > 0 || b.At.Cmp(a.At) == 0 && b.Open) {
		return b
	}
	return a
}

// lower is the stricter of two upper bounds.
func lower(a, b automaton.Bound) automaton.Bound {
	if a.At == nil || b.At != nil && (b.At.Cmp(a.At) < 0 || b.At.Cmp(a.At) == 0 && b.Open) {
		return b
	}
	return a
}

func (r *reader) multiple(v *value) {
	r.n.about |= number
	n, ok := integer(v)
	if !ok || n.Sign() <= 0 || n.Cmp(big.NewInt(1000)) > 0 {
		r.fault("only multiples of whole numbers from 1 to 1000 are in the subset")
		return
	}
	r.n.multiples = append(r.n.multiples, int(n.Int64()))
}

func (r *reader) pattern(v *value) {
	r.n.about |= text
	if v.kind != '"' {
		r.fault("it is a regular expression")
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

func (r *reader) format(v *value) {
	r.n.about |= text
	expr, ok := formats[v.text]
	if !ok {
		r.fault("the format %.40q is not in the subset", v.text)
		return
	}
	r.language(expr)
}

func (r *reader) uniqueItems(v *value) {
	r.n.about |= array
	r.n.unique = v.kind == 't'
}

// items are the rest behind prefixItems, or, in older dialects, what
// prefixItems are.
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
	if items := r.whole.get("items"); items != nil && items.kind == '[' {
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

// dependent reads what a member asks of the whole: either it is not there, or
// others are, or a schema holds.
func (r *reader) dependent(v *value) {
	r.n.about |= object
	if v.kind != '{' {
		r.fault("it is an object")
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
