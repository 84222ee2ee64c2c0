package schemas

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// fault is a violated keyword.
type fault struct {
	at      string // JSON pointer of the value
	keyword string
	rule    *rule
	names   []string // of unknown or missing members
	either  []string // of which one suffices, with the missing one
	message string
	ofName  bool // the value is the name of a member
}

// maxSteps limits the schemas that are applied to the parts of a value: references
// to references may double them at each level.
const maxSteps = 1 << 20

// evaluator applies a rule to a value and collects the faults.
type evaluator struct {
	faults []fault
	steps  int
	ofName bool
}

// seen are the names or indexes of members that a schema has looked at.
type seen map[string]bool

// validate returns the faults of a value.
func (r *rule) validate(v any) []fault {
	var e evaluator
	if e.check(r, v, "", nil) {
		return nil
	}
	return e.faults
}

func (e *evaluator) fault(r *rule, at, keyword, format string, args ...any) bool {
	e.faults = append(e.faults, fault{at: at, keyword: keyword, rule: r, message: fmt.Sprintf(format, args...), ofName: e.ofName})
	return false
}

// check reports whether a value satisfies a rule, and adds the members that the rule
// looked at to those of the rule around it.
func (e *evaluator) check(r *rule, v any, at string, outer seen) bool {
	if e.steps++; e.steps > maxSteps {
		if e.steps == maxSteps+1 {
			e.fault(r, at, "", "more than %d schemas to apply", maxSteps)
		}
		return false
	}
	if r.never {
		return e.fault(r, at, "", "not allowed")
	}
	if len(r.types) > 0 && !slices.ContainsFunc(r.types, func(name string) bool { return isType(v, name) }) {
		return e.fault(r, at, "type", "expected %s, but got %s", strings.Join(r.types, " or "), typeOf(v))
	}
	own := outer
	if outer != nil || r.unevaluatedItems != nil || r.unevaluatedProperties != nil {
		own = seen{}
	}
	ok := e.fixed(r, v, at)
	switch v := v.(type) {
	case map[string]any:
		ok = e.object(r, v, at, own) && ok
	case []any:
		ok = e.array(r, v, at, own) && ok
	case string:
		ok = e.text(r, v, at) && ok
	case int64, float64, json.Number:
		ok = e.number(r, v, at) && ok
	}
	ok = e.inPlace(r, v, at, own) && ok
	ok = e.unevaluated(r, v, at, own) && ok
	if ok && outer != nil {
		maps.Copy(outer, own)
	}
	return ok
}

// fixed checks enum, const and format.
func (e *evaluator) fixed(r *rule, v any, at string) bool {
	ok := true
	if r.constant != nil && !equal(v, r.constant[0]) {
		ok = e.fault(r, at, "const", "value must be %s", toJSON(r.constant[0]))
	}
	if r.enum != nil && !slices.ContainsFunc(r.enum, func(w any) bool { return equal(v, w) }) {
		var list []string
		for _, w := range r.enum {
			list = append(list, toJSON(w))
		}
		ok = e.fault(r, at, "enum", "value must be one of %s", strings.Join(list, ", "))
	}
	if s, text := v.(string); text && r.form != nil && r.form(s) != nil {
		ok = e.fault(r, at, "format", "%s is not valid %s", quoteName(s), quoteName(r.format))
	}
	return ok
}

// count checks a number of characters, items or members.
func (e *evaluator) count(r *rule, at string, n int, of, low, high string) bool {
	ok := true
	if want, set := r.counts["min"+of]; set && n < want {
		ok = e.fault(r, at, "min"+of, low, want, n)
	}
	if want, set := r.counts["max"+of]; set && n > want {
		ok = e.fault(r, at, "max"+of, high, want, n)
	}
	return ok
}

func (e *evaluator) object(r *rule, v map[string]any, at string, own seen) bool {
	ok := e.count(r, at, len(v), "Properties", "minimum %d properties allowed, but found %d properties", "maximum %d properties allowed, but found %d properties")
	var missing []string
	for _, name := range r.required {
		if _, has := v[name]; !has {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		ok = e.fault(r, at, "required", "missing properties: %s", quoteNames(missing))
		e.faults[len(e.faults)-1].names = missing
	}
	var extra []string
	for _, name := range sortedKeys(v) {
		in := at + "/" + escape(name)
		if r.names != nil {
			before := e.ofName
			e.ofName = true
			ok = e.check(r.names, name, in, nil) && ok
			e.ofName = before
		}
		claimed := false
		if sub, has := r.props[name]; has {
			claimed = true
			ok = e.check(sub, v[name], in, nil) && ok
		}
		for _, p := range r.patterns {
			if p.expr.MatchString(name) {
				claimed = true
				ok = e.check(p.rule, v[name], in, nil) && ok
			}
		}
		switch {
		case claimed:
		case r.additional == nil:
			continue
		case r.additional.never:
			extra = append(extra, name)
		default:
			ok = e.check(r.additional, v[name], in, nil) && ok
		}
		if own != nil {
			own[name] = true
		}
	}
	if len(extra) > 0 {
		ok = e.fault(r, at, "additionalProperties", "additionalProperties %s not allowed", quoteNames(extra))
		e.faults[len(e.faults)-1].names = extra
	}
	for _, name := range sortedKeys(r.dependentRequired) {
		if _, has := v[name]; !has {
			continue
		}
		for _, other := range r.dependentRequired[name] {
			if _, has := v[other]; !has {
				ok = e.fault(r, at, "dependentRequired", "property %s is required, if %s property exists", quoteName(other), quoteName(name))
			}
		}
	}
	for _, name := range sortedKeys(r.dependent) {
		if _, has := v[name]; has {
			ok = e.check(r.dependent[name], v, at, own) && ok
		}
	}
	return ok
}

func (e *evaluator) array(r *rule, v []any, at string, own seen) bool {
	ok := e.count(r, at, len(v), "Items", "minimum %d items required, but found %d items", "maximum %d items required, but found %d items")
	if r.unique {
		if i, j := repeated(v); j > 0 {
			ok = e.fault(r, at, "uniqueItems", "items at index %d and %d are equal", i, j)
		}
	}
	for i, item := range v {
		in := at + "/" + strconv.Itoa(i)
		switch {
		case i < len(r.prefix):
			ok = e.check(r.prefix[i], item, in, nil) && ok
		case r.items != nil:
			ok = e.check(r.items, item, in, nil) && ok
		default:
			continue
		}
		if own != nil {
			own[strconv.Itoa(i)] = true
		}
	}
	if r.contains == nil {
		return ok
	}
	found, before := 0, len(e.faults)
	for i, item := range v {
		if e.check(r.contains, item, at+"/"+strconv.Itoa(i), nil) {
			if found++; own != nil {
				own[strconv.Itoa(i)] = true
			}
		}
	}
	least, set := r.counts["minContains"]
	if !set {
		least = 1
	}
	if found >= least {
		e.faults = e.faults[:before]
	} else if ok = false; len(e.faults) == before {
		e.fault(r, at, "minContains", "valid must be >= %d, but got %d", least, found)
	}
	if most, set := r.counts["maxContains"]; set && found > most {
		ok = e.fault(r, at, "maxContains", "valid must be <= %d, but got %d", most, found)
	}
	return ok
}

func (e *evaluator) text(r *rule, v, at string) bool {
	ok := true
	if r.counts != nil {
		ok = e.count(r, at, utf8.RuneCountInString(v), "Length", "length must be >= %d, but got %d", "length must be <= %d, but got %d")
	}
	if r.pattern != nil && !r.pattern.MatchString(v) {
		ok = e.fault(r, at, "pattern", "does not match pattern %s", quoteName(r.pattern.String()))
	}
	return ok
}

func (e *evaluator) number(r *rule, v any, at string) bool {
	if r.minimum == nil && r.maximum == nil && r.exclusiveMin == nil && r.exclusiveMax == nil && r.multipleOf == nil {
		return true
	}
	n, ok := rational(v)
	if !ok {
		return e.fault(r, at, "", "%.40s is too large to compare", fmt.Sprint(v))
	}
	refuse := func(keyword, words string, bound *big.Rat, bad bool) {
		if bad {
			f, _ := bound.Float64()
			ok = e.fault(r, at, keyword, words, f, v)
		}
	}
	refuse("minimum", "must be >= %v but found %v", r.minimum, r.minimum != nil && n.Cmp(r.minimum) < 0)
	refuse("exclusiveMinimum", "must be > %v but found %v", r.exclusiveMin, r.exclusiveMin != nil && n.Cmp(r.exclusiveMin) <= 0)
	refuse("maximum", "must be <= %v but found %v", r.maximum, r.maximum != nil && n.Cmp(r.maximum) > 0)
	refuse("exclusiveMaximum", "must be < %v but found %v", r.exclusiveMax, r.exclusiveMax != nil && n.Cmp(r.exclusiveMax) >= 0)
	refuse("multipleOf", "not multipleOf %v: %v", r.multipleOf, r.multipleOf != nil && !new(big.Rat).Quo(n, cmp.Or(r.multipleOf, big.NewRat(1, 1))).IsInt())
	return ok
}

// inPlace applies the schemas that concern the same value.
func (e *evaluator) inPlace(r *rule, v any, at string, own seen) bool {
	ok := true
	for _, sub := range []*rule{r.target(), r.dynamic} {
		if sub != nil {
			ok = e.check(sub, v, at, own) && ok
		}
	}
	for _, sub := range r.allOf {
		ok = e.check(sub, v, at, own) && ok
	}
	if r.not != nil {
		if _, valid := e.quiet(r.not, v, at, own); valid {
			ok = e.fault(r, at, "not", "not failed")
		}
	}
	if r.anyOf != nil {
		ok = e.some(r, "anyOf", r.anyOf, v, at, own) && ok
	}
	if r.oneOf != nil {
		ok = e.some(r, "oneOf", r.oneOf, v, at, own) && ok
	}
	if r.when == nil {
		return ok
	}
	next := r.then
	if _, valid := e.quiet(r.when, v, at, own); !valid {
		next = r.otherwise
	}
	if next != nil {
		ok = e.check(next, v, at, own) && ok
	}
	return ok
}

// quiet applies a rule without its faults being reported.
func (e *evaluator) quiet(r *rule, v any, at string, own seen) (faults []fault, ok bool) {
	before := len(e.faults)
	ok = e.check(r, v, at, own)
	faults = slices.Clone(e.faults[before:])
	e.faults = e.faults[:before]
	return faults, ok
}

// some checks that a value satisfies one of the schemas, of oneOf no other.
func (e *evaluator) some(r *rule, keyword string, list []*rule, v any, at string, own seen) bool {
	first := -1
	var all []fault
	for i, sub := range list {
		faults, ok := e.quiet(sub, v, at, own)
		all = append(all, faults...)
		switch {
		case !ok:
		case first < 0:
			first = i
		case keyword == "oneOf":
			return e.fault(r, at, keyword, "valid against schemas at indexes %d and %d", first, i)
		}
	}
	if first >= 0 {
		return true
	}
	for i, names := 0, alternatives(all, at, len(list)); i < len(names); i++ {
		all[i].either = names
	}
	e.faults = append(e.faults, all...)
	return false
}

// alternatives returns the members of which one is missing, if each of n schemas lacks one at
// the same value; otherwise nil.
func alternatives(all []fault, at string, n int) (names []string) {
	if n < 2 || len(all) != n {
		return nil
	}
	for _, f := range all {
		if f.at != at || f.keyword != "required" || len(f.names) != 1 {
			return nil
		}
		names = append(names, f.names[0])
	}
	return names
}

// unevaluated checks the members at which no schema has looked.
func (e *evaluator) unevaluated(r *rule, v any, at string, own seen) bool {
	ok := true
	rest := func(sub *rule, name string, item any) {
		if !own[name] {
			ok = e.check(sub, item, at+"/"+escape(name), nil) && ok
			own[name] = true
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range sortedKeys(v) {
			if r.unevaluatedProperties != nil {
				rest(r.unevaluatedProperties, name, v[name])
			}
		}
	case []any:
		for i, item := range v {
			if r.unevaluatedItems != nil {
				rest(r.unevaluatedItems, strconv.Itoa(i), item)
			}
		}
	}
	return ok
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
