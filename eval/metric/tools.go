package metric

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Call is a call of a tool.
type Call struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"` // numbers are json.Number
}

// Function describes a tool in the shape of the Berkeley function-calling leaderboard.
type Function struct {
	Name       string    `json:"name"`
	Parameters Parameter `json:"parameters"`
}

// Parameter is the type of an argument, or with Properties of all arguments.
type Parameter struct {
	Type       string               `json:"type"`
	Items      *Parameter           `json:"items"`
	Properties map[string]Parameter `json:"properties"`
	Required   []string             `json:"required"`
}

// Gold is an expected call: the accepted values of each argument, among them "" if it
// may be absent.
type Gold struct {
	Name      string
	Arguments map[string][]any
}

// UnmarshalJSON reads {"name": {"argument": [value, …]}}.
func (g *Gold) UnmarshalJSON(data []byte) error {
	var one map[string]map[string][]any
	if err := numbers(data, &one); err != nil {
		return err
	}
	for g.Name, g.Arguments = range one {
	}
	return nil
}

// numbers decodes JSON with numbers as they are written.
func numbers(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(v)
}

// Calls reads the calls in an answer: JSON of one call or a list of calls, each as
// {"name": …, "arguments": {…}} or as {NAME: {…}}. Text without JSON has none.
func Calls(answer string) []Call {
	var out []Call
	for text := answer; ; {
		at := strings.IndexAny(text, "[{")
		if at < 0 {
			return out
		}
		d := json.NewDecoder(strings.NewReader(text[at:]))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			text = text[at+1:]
			continue
		}
		out = append(out, callsOf(v)...)
		text = text[at+int(d.InputOffset()):]
	}
}

func callsOf(v any) (out []Call) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			out = append(out, callsOf(one)...)
		}
	case map[string]any:
		name, named := v["name"].(string)
		for _, key := range []string{"arguments", "parameters"} {
			if args, ok := v[key].(map[string]any); ok && named {
				return []Call{{name, args}}
			}
		}
		for name, args := range v {
			if args, ok := args.(map[string]any); ok && len(v) == 1 {
				return []Call{{name, args}}
			}
		}
	}
	return out
}

// ToolSchema returns 1 if every call names a described function, has its required
// arguments, and has only described arguments of the described types.
func ToolSchema(calls []Call, functions []Function) float64 {
	for _, c := range calls {
		i := slices.IndexFunc(functions, func(f Function) bool { return f.Name == c.Name })
		if i < 0 || !functions[i].fits(c) {
			return 0
		}
	}
	return 1
}

func (f Function) fits(c Call) bool {
	for _, r := range f.Parameters.Required {
		if _, ok := c.Arguments[r]; !ok {
			return false
		}
	}
	for name, v := range c.Arguments {
		p, ok := f.Parameters.Properties[name]
		if !ok || kindOf(coerced(v, p)) != p.kind() {
			return false
		}
	}
	return true
}

// ToolNames returns 1 if the calls name the expected functions, in any order.
func ToolNames(calls []Call, golds []Gold) float64 {
	var got, want []string
	for _, c := range calls {
		got = append(got, c.Name)
	}
	for _, g := range golds {
		want = append(want, g.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	return number(slices.Equal(got, want))
}

// ToolCalls returns 1 if the calls are the expected ones in any order, by the rules of
// the leaderboard's checker: each argument has one of the accepted values, and text is
// compared without case, spaces and some punctuation.
func ToolCalls(calls []Call, functions []Function, golds []Gold) float64 {
	if len(calls) != len(golds) {
		return 0
	}
	var used []int
	for _, g := range golds {
		at := slices.IndexFunc(functions, func(f Function) bool { return f.Name == g.Name })
		if at < 0 {
			return 0
		}
		found := -1
		for i, c := range calls {
			if !slices.Contains(used, i) && functions[at].accepts(c, g) {
				found = i
				break
			}
		}
		if found < 0 {
			return 0
		}
		used = append(used, found)
	}
	return 1
}

// accepts reports whether a call is the expected one.
func (f Function) accepts(c Call, g Gold) bool {
	if c.Name != f.Name {
		return false
	}
	for _, r := range f.Parameters.Required {
		if _, ok := c.Arguments[r]; !ok {
			return false
		}
	}
	for name, v := range c.Arguments {
		p, described := f.Parameters.Properties[name]
		want, expected := g.Arguments[name]
		if !described || !expected || !p.accepts(v, want) {
			return false
		}
	}
	for name, want := range g.Arguments {
		if _, ok := c.Arguments[name]; !ok && !slices.Contains(want, any("")) {
			return false
		}
	}
	return true
}

// The names of Python's types.
const (
	kindString, kindInt, kindFloat, kindBool = "str", "int", "float", "bool"
	kindList, kindDict, kindNone             = "list", "dict", "NoneType"
)

// kind returns Python's type of a parameter.
func (p Parameter) kind() string {
	switch p.Type {
	case "integer":
		return kindInt
	case "float", "number":
		return kindFloat
	case "boolean":
		return kindBool
	case "array", "tuple":
		return kindList
	case "dict", "object":
		return kindDict
	}
	return kindString
}

// kindOf returns the name of Python's type of a JSON value.
func kindOf(v any) string {
	switch v := v.(type) {
	case string:
		return kindString
	case bool:
		return kindBool
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return kindFloat
		}
		return kindInt
	case float64:
		return kindFloat
	case []any:
		return kindList
	case map[string]any:
		return kindDict
	}
	return kindNone
}

// coerced returns an integer as a float if the parameter is one.
func coerced(v any, p Parameter) any {
	if n, ok := v.(json.Number); ok && p.kind() == kindFloat {
		if f, err := n.Float64(); err == nil {
			return f
		}
	}
	return v
}

// accepts reports whether a value is one of the accepted ones. A value of the type of
// the accepted ones rather than of the parameter's is a variable, compared exactly.
func (p Parameter) accepts(v any, want []any) bool {
	v = coerced(v, p)
	variable, ok := p.typed(v, want)
	if !ok {
		return false
	}
	nested := ""
	if p.kind() == kindList && p.Items != nil {
		nested = p.Items.kind()
	}
	switch {
	case variable:
	case p.kind() == kindDict:
		return dictAmong(v, want)
	case nested == kindDict:
		return dictsAmong(v, want)
	case p.kind() == kindString, p.kind() == kindList:
		v = standard(v)
		return slices.ContainsFunc(want, func(w any) bool {
			if w == any("") && p.kind() == kindList {
				w = []any{} // in the checker, an argument that may be absent may be empty
			}
			return kindOf(w) == p.kind() && same(standard(w), v)
		})
	}
	return slices.ContainsFunc(want, func(w any) bool { return same(w, v) })
}

// typed reports whether a value has the type of the parameter, or that of the accepted
// values, which makes it a variable.
func (p Parameter) typed(v any, want []any) (variable, ok bool) {
	accepted := kindNone
	for _, w := range want {
		if w != any("") {
			accepted = kindOf(w)
			break
		}
	}
	variable = accepted != kindNone && accepted != p.kind()
	switch {
	case kindOf(v) != p.kind():
		return true, accepted != kindNone && kindOf(v) == accepted
	case p.kind() != kindList || p.Items == nil:
		return variable, true
	}
	for _, w := range want {
		list, isList := w.([]any)
		fits := func(item any) bool {
			_, ok := Parameter{Type: p.Items.Type}.typed(item, list)
			return ok
		}
		if !isList || !slices.ContainsFunc(v.([]any), func(item any) bool { return !fits(item) }) {
			return variable, true
		}
	}
	return variable, false
}

// dictAmong reports whether a dict is one of the accepted ones, which list the accepted
// values of each key.
func dictAmong(v any, want []any) bool {
	got, ok := v.(map[string]any)
	return ok && slices.ContainsFunc(want, func(w any) bool {
		accepted, ok := w.(map[string]any)
		if !ok {
			return false
		}
		for key, x := range got {
			list, _ := accepted[key].([]any)
			if !slices.ContainsFunc(list, func(a any) bool { return same(word(a), word(x)) }) {
				return false
			}
		}
		for key, a := range accepted {
			list, _ := a.([]any)
			if _, has := got[key]; !has && !slices.Contains(list, any("")) {
				return false
			}
		}
		return true
	})
}

// dictsAmong reports whether a list of dicts is one of the accepted ones.
func dictsAmong(v any, want []any) bool {
	got, ok := v.([]any)
	return ok && slices.ContainsFunc(want, func(w any) bool {
		list, ok := w.([]any)
		if !ok || len(list) != len(got) {
			return false
		}
		for i := range got {
			if !dictAmong(got[i], list[i:i+1]) {
				return false
			}
		}
		return true
	})
}

// unimportant are the characters that the comparison of text ignores.
var unimportant = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[ ,./\-_*^]`) })

// word returns a value with text in the form in which it is compared.
func word(v any) any {
	if s, ok := v.(string); ok {
		return strings.ReplaceAll(strings.ToLower(unimportant().ReplaceAllString(s, "")), "'", `"`)
	}
	return v
}

// standard is word, also for the elements of a list.
func standard(v any) any {
	list, ok := v.([]any)
	if !ok {
		return word(v)
	}
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = word(x)
	}
	return out
}

// same reports whether two JSON values are equal in Python: numbers by value, also
// booleans.
func same(a, b any) bool {
	if x, ok := numeric(a); ok {
		y, ok := numeric(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, has := b[k]
			if !has || !same(v, w) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

func numeric(v any) (float64, bool) {
	switch v := v.(type) {
	case bool:
		return number(v), true
	case float64:
		return v, true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}
