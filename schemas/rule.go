package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// rule is a compiled JSON Schema: the keywords of draft 2020-12, and of older
// drafts where a document declares one. Unknown keywords are annotations.
type rule struct {
	place       string // URL and JSON pointer
	description string
	never       bool
	types       []string
	enum        []any
	constant    []any // of const: one value
	format      string
	form        func(string) error // of a checked format
	pattern     Matcher

	ref                                          func() *rule // nil: none
	dynamic, not, when, then, otherwise          *rule
	names, additional, items, contains           *rule
	unevaluatedItems, unevaluatedProperties      *rule
	allOf, anyOf, oneOf, prefix                  []*rule
	props, dependent                             map[string]*rule
	patterns                                     []patternRule
	required                                     []string
	dependentRequired                            map[string][]string
	minimum, maximum, exclusiveMin, exclusiveMax *big.Rat
	multipleOf                                   *big.Rat
	unique                                       bool
	counts                                       map[string]int // minLength, maxItems, …
}

type patternRule struct {
	expr Matcher
	rule *rule
}

// place is the position of a schema: a resource, which is a schema with its
// own URL, and a pointer within it.
type place struct {
	base resource
	ptr  string
}

// resource is a URL and its text.
type resource struct {
	*url.URL
	name string
}

func named(u *url.URL) resource { return resource{u, u.String()} }

func (p place) String() string { return p.base.name + "#" + p.ptr }

// target returns the rule that a rule refers to, or nil.
func (r *rule) target() *rule {
	if r == nil || r.ref == nil {
		return nil
	}
	return r.ref()
}

func (p place) child(keys ...string) place {
	for _, key := range keys {
		p.ptr += "/" + escape(key)
	}
	return p
}

// compiler compiles schemas on first use.
type compiler struct {
	roots  map[string]any // resources by URL
	legacy map[string]int // drafts before 2020-12, by URL of the resource
	rules  map[string]*rule
	load   func(url string) (any, error)
	// form returns the check of a format, or nil if it is an annotation.
	form func(name string) func(string) error
	// eager compiles references and definitions before their use, to report their faults.
	eager bool
	// other compiles regular expressions; those that it refuses are RE2's. nil: none.
	other func(expr string) (Matcher, error)
	mu    sync.Mutex
}

// Matcher is a compiled regular expression.
type Matcher interface {
	MatchString(s string) bool
	String() string
}

// pattern compiles a regular expression.
func (c *compiler) pattern(expr string) (Matcher, error) {
	if c.other != nil {
		if m, err := c.other(expr); err == nil {
			return m, nil
		}
	}
	return compilePattern(expr)
}

func newCompiler(load func(string) (any, error)) *compiler {
	return &compiler{roots: map[string]any{}, legacy: map[string]int{}, rules: map[string]*rule{}, load: load,
		form: func(string) func(string) error { return nil }}
}

// draftOf returns the draft that a schema declares.
func draftOf(schema any) (int, error) {
	m, _ := schema.(map[string]any)
	name, _ := m["$schema"].(string)
	draft, err := Dialect(name)
	if err != nil {
		return 0, &schemaError{"/$schema", err}
	}
	return draft, nil
}

// Dialect returns the draft of a $schema: 4, 6, 7, 2019 or 2020. Without a name it is 2020.
func Dialect(name string) (int, error) {
	switch strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, "http://"), "https://"), "#") {
	case "json-schema.org/draft-04/schema":
		return 4, nil
	case "json-schema.org/draft-06/schema":
		return 6, nil
	case "json-schema.org/draft-07/schema":
		return 7, nil
	case "json-schema.org/draft/2019-09/schema":
		return 2019, nil
	case "", "json-schema.org/schema", "json-schema.org/draft/2020-12/schema":
		return 2020, nil
	}
	return 0, fmt.Errorf("unsupported dialect %.80q", name)
}

// add adds a resource, and the resources within it.
func (c *compiler) add(base resource, schema any) error {
	name := base.name
	draft, err := draftOf(schema)
	if err != nil {
		return err
	}
	c.roots[name], c.legacy[name] = schema, draft
	root := true
	return eachSchema(schema, func(v map[string]any) error {
		id := c.idOf(v, base)
		if root || id == "" {
			root = false
			return nil
		}
		at, err := base.Parse(id)
		if err != nil {
			return fmt.Errorf("bad $id: %w", err)
		}
		at.Fragment = ""
		inner := named(at)
		if inner.name == name || c.roots[inner.name] != nil {
			return nil
		}
		if err := c.add(inner, v); err != nil {
			return err
		}
		if _, ok := v["$schema"]; !ok {
			c.legacy[inner.name] = c.legacy[name]
		}
		return nil
	})
}

// idOf returns the $id of a schema that makes it a resource, or "". Before 2019-09 a
// reference hid it, as it hid all keywords next to it.
func (c *compiler) idOf(v any, in resource) string {
	m, _ := v.(map[string]any)
	id, _ := m["$id"].(string)
	if _, hidden := m["$ref"]; strings.HasPrefix(id, "#") || hidden && c.legacy[in.name] < 2019 {
		return ""
	}
	return id
}

// eachSchema calls f for each schema in a schema, itself first, except for those
// in another resource.
func eachSchema(schema any, f func(map[string]any) error) error {
	m, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	if err := f(m); err != nil {
		return err
	}
	below := func(v any) error {
		if inner, ok := v.(map[string]any); ok {
			if id, ok := inner["$id"].(string); ok && !strings.HasPrefix(id, "#") {
				return f(inner)
			}
		}
		return eachSchema(v, f)
	}
	for _, key := range sortedKeys(m) {
		var list []any
		switch v := m[key].(type) {
		case map[string]any:
			switch holds(key) {
			case oneSchema:
				list = []any{v}
			case schemaMap:
				for _, name := range sortedKeys(v) {
					list = append(list, v[name])
				}
			}
		case []any:
			if k := holds(key); k == schemaList || key == "items" {
				list = v
			}
		}
		for _, v := range list {
			if err := below(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// content is the kind of a keyword's value.
type content int

const (
	other content = iota
	oneSchema
	schemaList
	schemaMap
)

func holds(keyword string) content {
	switch keyword {
	case "not", "if", "then", "else", "propertyNames", "additionalProperties", "items", "additionalItems", "contains",
		"unevaluatedItems", "unevaluatedProperties", "contentSchema":
		return oneSchema
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return schemaList
	case "properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions":
		return schemaMap
	}
	return other
}

// resolve finds the schema of a reference.
func (c *compiler) resolve(from place, ref string) (*rule, error) {
	to, fragment := from.base, ref
	if !strings.HasPrefix(ref, "#") {
		u, err := from.base.Parse(ref)
		if err != nil {
			return nil, fmt.Errorf("bad reference %.80q: %w", ref, err)
		}
		_, fragment, _ = strings.Cut(ref, "#")
		u.Fragment, u.RawFragment = "", ""
		to, fragment = named(u), "#"+fragment
		if err := c.open(to); err != nil {
			return nil, err
		}
	}
	fragment, err := url.PathUnescape(fragment[1:])
	if err != nil {
		return nil, fmt.Errorf("bad reference %.80q: %w", ref, err)
	}
	if fragment == "" || fragment[0] == '/' {
		return c.at(place{to, fragment})
	}
	at, err := c.anchor(to, fragment)
	if err != nil {
		return nil, err
	}
	return c.rule(at, place{to, "/#" + fragment})
}

// open loads a resource.
func (c *compiler) open(r resource) error {
	if c.roots[r.name] != nil {
		return nil
	}
	schema, err := c.load(r.name)
	if err != nil {
		return err
	}
	return c.add(r, schema)
}

// anchor finds the only schema of a resource with an anchor.
func (c *compiler) anchor(in resource, name string) (found map[string]any, err error) {
	n := 0
	root := c.roots[in.name]
	own, _ := root.(map[string]any)
	err = eachSchema(root, func(m map[string]any) error {
		inner, _ := m["$id"].(string)
		if inner != "" && inner != "#"+name && own["$id"] != inner {
			return nil
		}
		if m["$anchor"] == name || m["$dynamicAnchor"] == name || inner == "#"+name {
			found = m
			n++
		}
		return nil
	})
	if err == nil && n != 1 {
		err = fmt.Errorf("unknown reference %q: got %d anchors, want 1", "#"+name, n)
	}
	return found, err
}

// at compiles the schema at a pointer of a resource.
func (c *compiler) at(p place) (*rule, error) {
	if r, ok := c.rules[p.String()]; ok {
		return r, nil
	}
	v, base := c.roots[p.base.name], p.base
	own := place{base, ""}
	for _, key := range strings.Split(p.ptr, "/")[1:] {
		own = own.child(unescape(key))
		switch t := v.(type) {
		case map[string]any:
			v = t[unescape(key)]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(t) {
				return nil, fmt.Errorf("unknown reference %q", "#"+p.ptr)
			}
			v = t[i]
		default:
			v = nil
		}
		if v == nil {
			return nil, fmt.Errorf("unknown reference %q", "#"+p.ptr)
		}
		own = c.within(v, own)
	}
	return c.rule(v, own)
}

// within returns the place of a schema that may be a resource.
func (c *compiler) within(v any, at place) place {
	if id := c.idOf(v, at.base); id != "" && at.ptr != "" {
		if u, err := at.base.Parse(id); err == nil {
			u.Fragment = ""
			if r := named(u); c.roots[r.name] != nil {
				return place{r, ""}
			}
		}
	}
	return at
}

// rule compiles a schema.
func (c *compiler) rule(v any, at place) (*rule, error) {
	at = c.within(v, at)
	key := at.String()
	if r, ok := c.rules[key]; ok {
		return r, nil
	}
	r := &rule{place: key}
	c.rules[key] = r
	switch v := v.(type) {
	case bool:
		r.never = !v
		return r, nil
	case map[string]any:
		if _, ok := v["$ref"]; ok && c.legacy[at.base.name] < 2019 {
			v = map[string]any{"$ref": v["$ref"], "definitions": orEmpty(v["definitions"]), "$defs": orEmpty(v["$defs"])}
		}
		for _, key := range sortedKeys(v) {
			if err := c.keyword(r, key, v, at); err != nil {
				return nil, located(at.child(key), err)
			}
		}
		return r, nil
	}
	return nil, located(at, fmt.Errorf("expected object or boolean, but got %s", typeOf(v)))
}

func orEmpty(v any) any {
	if v == nil {
		return map[string]any{}
	}
	return v
}

// schemaError is a fault of a schema with its pointer.
type schemaError struct {
	ptr string
	err error
}

func (e *schemaError) Error() string {
	if e.ptr == "" {
		return "the root: " + e.err.Error()
	}
	return e.ptr + ": " + e.err.Error()
}

func (e *schemaError) Unwrap() error { return e.err }

// located adds the place of a fault unless it has one.
func located(at place, err error) error {
	var placed *schemaError
	if errors.As(err, &placed) {
		return err
	}
	return &schemaError{at.ptr, err}
}

// decode decodes a schema's JSON, with numbers as json.Number.
func decode(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data after the schema")
	}
	return v, nil
}

// endless returns a rule that applies itself to the same value, or nil.
func endless(root *rule) *rule {
	const open, done = 1, 2
	state := map[*rule]int{}
	var visit func(r *rule) *rule
	visit = func(r *rule) *rule {
		if r == nil || state[r] == done {
			return nil
		}
		if state[r] == open {
			return r
		}
		state[r] = open
		list := slices.Concat([]*rule{r.target(), r.dynamic, r.not, r.when, r.then, r.otherwise}, r.allOf, r.anyOf, r.oneOf)
		for _, name := range sortedKeys(r.dependent) {
			list = append(list, r.dependent[name])
		}
		for _, next := range list {
			if found := visit(next); found != nil {
				return found
			}
		}
		state[r] = done
		return nil
	}
	return visit(root)
}
