package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
	pattern     *regexp.Regexp

	ref, dynamic, not, when, then, otherwise     *rule
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
	expr *regexp.Regexp
	rule *rule
}

// place is the position of a schema: a resource, which is a schema with a URL
// of its own, and a pointer within it.
type place struct {
	base *url.URL
	ptr  string
}

func (p place) String() string { return p.base.String() + "#" + p.ptr }

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
	// whole compiles unused definitions as well, to report their faults.
	whole bool
}

func newCompiler(load func(string) (any, error)) *compiler {
	return &compiler{roots: map[string]any{}, legacy: map[string]int{}, rules: map[string]*rule{}, load: load,
		form: func(string) func(string) error { return nil }}
}

// drafts are the drafts before 2020-12, whose keywords differ.
func draftOf(schema any) int {
	m, _ := schema.(map[string]any)
	name, _ := m["$schema"].(string)
	switch strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, "http://"), "https://"), "#") {
	case "json-schema.org/draft-04/schema":
		return 4
	case "json-schema.org/draft-06/schema":
		return 6
	case "json-schema.org/draft-07/schema":
		return 7
	case "json-schema.org/draft/2019-09/schema":
		return 2019
	}
	return 2020
}

// add adds a resource, and the resources within it.
func (c *compiler) add(base *url.URL, schema any) error {
	name := base.String()
	c.roots[name], c.legacy[name] = schema, draftOf(schema)
	return eachSchema(schema, func(v map[string]any) error {
		id, ok := v["$id"].(string)
		if !ok || strings.HasPrefix(id, "#") {
			return nil
		}
		at, err := base.Parse(id)
		if err != nil {
			return fmt.Errorf("bad $id: %w", err)
		}
		at.Fragment = ""
		if at.String() == name || c.roots[at.String()] != nil {
			return nil
		}
		if err := c.add(at, v); err != nil {
			return err
		}
		if _, ok := v["$schema"]; !ok {
			c.legacy[at.String()] = c.legacy[name]
		}
		return nil
	})
}

// eachSchema calls f for each schema in a schema, itself first, except for those
// in a resource of its own.
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
	for _, key := range slices.Sorted(maps.Keys(m)) {
		var list []any
		switch v := m[key].(type) {
		case map[string]any:
			switch holds(key) {
			case oneSchema:
				list = []any{v}
			case schemaMap:
				for _, name := range slices.Sorted(maps.Keys(v)) {
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

// content is what a keyword's value holds.
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
	to, err := from.base.Parse(ref)
	if err != nil {
		return nil, fmt.Errorf("bad reference %.80q: %w", ref, err)
	}
	fragment := to.Fragment
	to.Fragment, to.RawFragment = "", ""
	if err := c.open(to); err != nil {
		return nil, err
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
func (c *compiler) open(u *url.URL) error {
	if c.roots[u.String()] != nil {
		return nil
	}
	schema, err := c.load(u.String())
	if err != nil {
		return err
	}
	return c.add(u, schema)
}

// anchor finds the only schema of a resource with an anchor.
func (c *compiler) anchor(u *url.URL, name string) (found map[string]any, err error) {
	n := 0
	root := c.roots[u.String()]
	err = eachSchema(root, func(m map[string]any) error {
		inner, _ := m["$id"].(string)
		if r, ok := root.(map[string]any); ok && inner != "" && inner != "#"+name && fmt.Sprint(r["$id"]) != inner {
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
	v, base := c.roots[p.base.String()], p.base
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

// within returns the place of a schema that may be a resource of its own.
func (c *compiler) within(v any, at place) place {
	m, _ := v.(map[string]any)
	if id, ok := m["$id"].(string); ok && at.ptr != "" && !strings.HasPrefix(id, "#") {
		if u, err := at.base.Parse(id); err == nil {
			u.Fragment = ""
			if _, ok := c.roots[u.String()]; ok {
				return place{u, ""}
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
		if _, ok := v["$ref"]; ok && c.legacy[at.base.String()] < 2019 {
			v = map[string]any{"$ref": v["$ref"], "definitions": orEmpty(v["definitions"]), "$defs": orEmpty(v["$defs"])}
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
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
	var known *schemaError
	if errors.As(err, &known) {
		return err
	}
	return &schemaError{at.ptr, err}
}

// decode decodes a schema's JSON, with numbers as json.Number.
func decode(data []byte) (any, error) {
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if dec.More() {
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
		list := slices.Concat([]*rule{r.ref, r.dynamic, r.not, r.when, r.then, r.otherwise}, r.allOf, r.anyOf, r.oneOf)
		for _, name := range slices.Sorted(maps.Keys(r.dependent)) {
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
