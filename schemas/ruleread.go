package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// keyword reads one keyword of a schema.
func (c *compiler) keyword(r *rule, key string, m map[string]any, at place) (err error) {
	v, in := m[key], at.child(key)
	draft := c.legacy[at.base.name]
	switch holds(key) {
	case oneSchema:
		return c.readOne(r, key, m, in, draft)
	case schemaList:
		return c.readList(r, key, v, in)
	case schemaMap:
		return c.readMap(r, key, v, in)
	}
	switch key {
	case "title", "$comment", "contentEncoding", "contentMediaType", "$schema", "$id", "$anchor", "$dynamicAnchor":
		_, err = want[string](v, "string")
	case "description":
		r.description, err = want[string](v, "string")
	case "deprecated", "readOnly", "writeOnly":
		_, err = want[bool](v, "boolean")
	case "uniqueItems":
		r.unique, err = want[bool](v, "boolean")
	case "examples":
		_, err = want[[]any](v, "array")
	case "type":
		r.types, err = readTypes(v)
	case "enum":
		r.enum, err = want[[]any](v, "array")
	case "const":
		r.constant = []any{v}
	case "required":
		r.required, err = readStrings(v)
	case "dependentRequired":
		r.dependentRequired, err = readDependent(v)
	case "format":
		if r.format, err = want[string](v, "string"); err == nil {
			r.form = c.form(r.format)
		}
	case "pattern":
		var expr string
		if expr, err = want[string](v, "string"); err == nil {
			r.pattern, err = c.pattern(expr)
		}
	case "$ref", "$dynamicRef", "$recursiveRef":
		return c.readRef(r, key, v, at)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return readNumber(r, key, m, draft)
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
		if r.counts == nil {
			r.counts = map[string]int{}
		}
		r.counts[key], err = readCount(v)
	}
	return err
}

// want returns a keyword's value, or an error if it has another type.
func want[T any](v any, name string) (T, error) {
	t, ok := v.(T)
	if !ok {
		return t, fmt.Errorf("expected %s, but got %s", name, typeOf(v))
	}
	return t, nil
}

func (c *compiler) readOne(r *rule, key string, m map[string]any, in place, draft int) (err error) {
	v := m[key]
	if list, ok := v.([]any); ok && key == "items" && draft < 2020 {
		if len(list) == 0 {
			return nil
		}
		return c.readList(r, key, list, in)
	}
	if _, tuple := m["items"].([]any); key == "additionalItems" && !(tuple && draft < 2020) {
		return nil
	}
	sub, err := c.rule(v, in)
	if err != nil {
		return err
	}
	switch key {
	case "not":
		r.not = sub
	case "if":
		r.when = sub
	case "then":
		r.then = sub
	case "else":
		r.otherwise = sub
	case "propertyNames":
		r.names = sub
	case "additionalProperties":
		r.additional = sub
	case "items", "additionalItems":
		r.items = sub
	case "contains":
		r.contains = sub
	case "unevaluatedItems":
		r.unevaluatedItems = sub
	case "unevaluatedProperties":
		r.unevaluatedProperties = sub
	}
	return nil
}

func (c *compiler) readList(r *rule, key string, v any, in place) error {
	list, err := want[[]any](v, "array")
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("minimum 1 items required, but found 0 items")
	}
	var subs []*rule
	for i, v := range list {
		sub, err := c.rule(v, in.child(strconv.Itoa(i)))
		if err != nil {
			return err
		}
		subs = append(subs, sub)
	}
	switch key {
	case "allOf":
		r.allOf = subs
	case "anyOf":
		r.anyOf = subs
	case "oneOf":
		r.oneOf = subs
	default:
		r.prefix = subs
	}
	return nil
}

func (c *compiler) readMap(r *rule, key string, v any, in place) error {
	m, err := want[map[string]any](v, "object")
	if err != nil || (key == "$defs" || key == "definitions") && !c.eager {
		return err
	}
	subs := map[string]*rule{}
	for _, name := range sortedKeys(m) {
		if list, ok := m[name].([]any); ok && key == "dependencies" {
			names, err := readStrings(list)
			if err != nil {
				return err
			}
			if r.dependentRequired == nil {
				r.dependentRequired = map[string][]string{}
			}
			r.dependentRequired[name] = names
			continue
		}
		sub, err := c.rule(m[name], in.child(name))
		if err != nil {
			return err
		}
		subs[name] = sub
		if key != "patternProperties" {
			continue
		}
		expr, err := c.pattern(name)
		if err != nil {
			return err
		}
		r.patterns = append(r.patterns, patternRule{expr, sub})
	}
	switch key {
	case "properties":
		r.props = subs
	case "dependencies", "dependentSchemas":
		r.dependent = subs
	}
	return nil
}

func (c *compiler) readRef(r *rule, key string, v any, at place) error {
	ref, err := want[string](v, "string")
	if err != nil {
		return err
	}
	if !c.eager {
		r.ref = sync.OnceValue(func() *rule { return c.must(at, ref) })
		return nil
	}
	to, err := c.resolve(at, ref)
	switch {
	case err != nil:
		return err
	case key == "$ref":
		r.ref = func() *rule { return to }
	default:
		// In a single resource the dynamic scope has one schema with the anchor.
		if len(c.roots) > 1 {
			return fmt.Errorf("unsupported %s with a nested $id", key)
		}
		r.dynamic = to
	}
	return nil
}

func readTypes(v any) (out []string, err error) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, v := range list {
		name, ok := v.(string)
		if !ok || !slices.Contains([]string{"null", "boolean", "integer", "number", "string", "array", "object"}, name) {
			return nil, fmt.Errorf("bad type %.40q", fmt.Sprint(v))
		}
		out = append(out, name)
	}
	if len(out) == 0 {
		return nil, errors.New("minimum 1 items required, but found 0 items")
	}
	return out, nil
}

func readStrings(v any) (out []string, err error) {
	list, err := want[[]any](v, "array")
	for _, v := range list {
		name, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("expected string, but got %s", typeOf(v))
		}
		out = append(out, name)
	}
	return out, err
}

func readDependent(v any) (map[string][]string, error) {
	m, err := want[map[string]any](v, "object")
	out := map[string][]string{}
	for _, name := range sortedKeys(m) {
		if out[name], err = readStrings(m[name]); err != nil {
			return nil, err
		}
	}
	return out, err
}

// readNumber reads a bound. In draft 4 an exclusive bound is a flag of the other.
func readNumber(r *rule, key string, m map[string]any, draft int) error {
	if _, flag := m[key].(bool); flag && draft == 4 {
		return nil
	}
	n, ok := rational(m[key])
	if !ok {
		return fmt.Errorf("expected number, but got %s", typeOf(m[key]))
	}
	switch key {
	case "minimum":
		if r.minimum = n; draft == 4 && m["exclusiveMinimum"] == true {
			r.minimum, r.exclusiveMin = nil, n
		}
	case "maximum":
		if r.maximum = n; draft == 4 && m["exclusiveMaximum"] == true {
			r.maximum, r.exclusiveMax = nil, n
		}
	case "exclusiveMinimum":
		r.exclusiveMin = n
	case "exclusiveMaximum":
		r.exclusiveMax = n
	default:
		if n.Sign() <= 0 {
			return errors.New("must be > 0")
		}
		r.multipleOf = n
	}
	return nil
}

// readCount reads a number of characters, items or members, which may be written 2.0.
// A larger one is the greatest integer: no value reaches it.
func readCount(v any) (int, error) {
	n, ok := rational(v)
	if !ok || !n.IsInt() || n.Sign() < 0 {
		return 0, fmt.Errorf("expected integer of 0 or more, but got %.40s", fmt.Sprint(v))
	}
	if !n.Num().IsInt64() {
		return 1<<63 - 1, nil
	}
	return int(n.Num().Int64()), nil
}

// maxExponent limits the numbers that are compared: the length of a fraction grows with
// the exponent.
const maxExponent = 1100

// rational returns a number exactly, or false for other types and for numbers beyond
// 10^±maxExponent.
func rational(v any) (*big.Rat, bool) {
	var text string
	switch v := v.(type) {
	case int64:
		return new(big.Rat).SetInt64(v), true
	case float64:
		r := new(big.Rat)
		text = strconv.FormatFloat(v, 'g', -1, 64)
		_, ok := r.SetString(text)
		return r, ok
	case json.Number:
		text = v.String()
	default:
		return nil, false
	}
	if len(text) > maxExponent {
		return nil, false
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		if e, err := strconv.Atoi(text[i+1:]); err != nil || e > maxExponent || e < -maxExponent {
			return nil, false
		}
	}
	return new(big.Rat).SetString(text)
}

// compilePattern compiles a regular expression of JSON Schema. The escape of a character
// by its number is the one that RE2 spells in another way.
func compilePattern(expr string) (*regexp.Regexp, error) {
	var out strings.Builder
	for i := 0; i < len(expr); i++ {
		out.WriteByte(expr[i])
		if expr[i] != '\\' || i+1 == len(expr) {
			continue
		}
		i++
		if rest := expr[i+1:]; expr[i] == 'u' && len(rest) >= 4 && strings.Trim(rest[:4], "0123456789abcdefABCDEF") == "" {
			out.WriteString("x{" + rest[:4] + "}")
			i += 4
			continue
		}
		out.WriteByte(expr[i])
	}
	re, err := regexp.Compile(out.String())
	if err != nil {
		return nil, fmt.Errorf("%q is not valid regex: %w", expr, err)
	}
	return re, nil
}
