package schema

import (
	"errors"
	"os"
	"strings"
	"testing"

	"mm-abi.org/mm/core/grammar/automaton"
)

// holds reports whether a text is in a grammar.
func holds(p *automaton.Program, text string) bool {
	m := p.Run()
	s := m.Start()
	for i := range len(text) {
		if s = m.Step(s, text[i]); s == nil {
			return false
		}
	}
	return s.Accepts()
}

func compile(t testing.TB, text string, opt Options) *automaton.Program {
	t.Helper()
	p, err := Compile([]Document{{Schema: []byte(text)}}, opt)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

// Texts of a schema, by lines: accepted ones, and refused ones with a leading
// !.
func TestTexts(t *testing.T) {
	x20 := strings.Repeat("x", 20)
	for _, c := range []struct{ schema, texts string }{
		{`{"type": "string", "maxLength": 2}`, `""|"a"|"é\n"|"\ud83d\ude00x"|"😀x"|!"abc"|!"\ud83d"|!"\ude00"|!a|!"a` + "\n" + `"|!"\x"`},
		{`{"type": "string", "minLength": 2}`, `"ab"|"\u00e9x"|!"a"|!""|!"\ud83d\ude00"`},
		{`{"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}, "c": {"type": "null"}}, "required": ["b"]}`,
			`{"b":null}|{"a":null,"b":null}|{"a":null,"b":null,"c":null}|!{}|!{"a":null}|!{"b":null,"a":null}|!{"b":null,"d":null}|!{"b":null,}|!{"b":null,"b":null}`},
		{`{"type": "object", "properties": {"a": {}}, "required": ["z"], "additionalProperties": {"type": "null"}}`,
			`{"z":null}|{"a":{"q":[1]},"z":null}|{"z":null,"x":null,"y":null}|!{"z":null,"x":null,"x":null}|!{"z":null,"z":null}|!{"z":null,"a":null}|!{"z":1}|!{"z":null,"\u0061":null}`},
		{`{"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 1, "maxProperties": 2}`,
			`{"":null}|{"a":null,"ab":null}|!{}|!{"a":null,"b":null,"c":null}|!{"a":null,"a":null}`},
		{`{"type": "object", "patternProperties": {"^[ab]$": {"type": "null"}}, "additionalProperties": false}`, `{}|{"a":null}|{"a":null,"b":null}|!{"c":null}|!{"a":1}`},
		{`{"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2}`, `[true]|[true,false]|![]|![true,true,true]|![true,]|![1]`},
		{`{"type": "array", "prefixItems": [{"const": 1}, {"const": "x"}], "items": false}`, `[]|[1]|[1,"x"]|!["x"]|![1,"x",2]`},
		{`{"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": true, "minItems": 2}`, `[1,2]|[1,3]|[1,2,3]|![1,1]|![1]|![3,1]`},
		{`{"type": "array", "items": {"type": "string"}, "uniqueItems": true}`, `[]|["a","ab"]|!["a","a"]|!["a","\u0061"]`},
		{`{"type": "integer", "minimum": -2, "maximum": 10}`, `-2|0|9|10|!-3|!11|!-0|!01|!1.0|!1e1`},
		{`{"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}`, `0.5|0.25|0.50|!0|!0.0|!0.51|!1|!-0.1`},
		{`{"type": "number"}`, `0|-1.5|12e3|1.25E-07|!1.|!.5|!1e100|!-0|!NaN`},
		{`{"enum": ["a", 1, null, {"b": [true]}], "type": ["string", "object"]}`, `"a"|{"b":[true]}|!1|!null`},
		{`{"const": "a\u001f\"/"}`, `"a\u001f\"/"|!"a"`},
		{`{"anyOf": [{"type": "integer"}, {"const": "x"}], "not": {"type": "string"}}`, `1|!"x"`},
		{`{"type": "string", "pattern": "^a", "maxLength": 3}`, `"a"|"ab\n"|"a\"b"|!"b"|!"abcd"`},
		{`{"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}], "multipleOf": 2}`, `4|!3|!6`},
		{`{"properties": {"a": {"type": "null"}}}`, `{}|{"a":null}|!1|!{"b":1}`},
		{`{"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}`, `[]|[[],[[]]]|![1]`},
		{`{"$ref": "#x", "$defs": {"t": {"$anchor": "x", "const": 1}}}`, `1|!2`},
		{`{"properties": {"a/b": {"type": "null"}, "c~": {"$ref": "#/properties/a~1b"}}}`, `{"a/b":null,"c~":null}|!{"c~":1}`},
		{`{"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "dependentRequired": {"a": ["b"]}}`, `{}|{"b":null}|{"a":null,"b":null}|!{"a":null}`},
		{`{"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}`, `{"a":null}|{"b":null}|!{}|!{"a":null,"b":null}`},
		{`{"if": {"type": "string"}, "then": {"maxLength": 1}, "else": {"type": "null"}}`, `"a"|null|!"ab"|!1`},
		{`true`, `null|{"a":[1,{}]}|!|!{"a":1,"a":2}`},
		{`{"type": "string", "format": "email"}`, `"a@b.c"|"` + x20 + "." + x20 + "-" + x20 + `@b.c"|!"a@b"|!"` + x20 + `x@b.c"|!"a@` + x20 + `.c"|!"a@b.c.d.e.f"`},
		{`{"oneOf": [{"type": "string", "minLength": 2}, {"const": "a"}]}`, `"ab"|"a"|!""|!"b"`},
		{`{"oneOf": [{"type": "integer", "minimum": 2}, {"enum": [1, "x"]}]}`, `1|2|"x"|!0`},
		{`{"oneOf": [{"type": "string", "pattern": "^b"}, {"const": "a"}]}`, `"a"|"b"|!"c"`},
		{`{"oneOf": [{"type": "object", "properties": {"k": {"const": 1}, "l": {"type": "null"}}, "required": ["k", "l"]}, {"enum": [{"k": 1}, {"k": 2, "l": null}]}]}`,
			`{"k":1}|{"k":1,"l":null}|{"k":2,"l":null}|!{}`},
		{`{"oneOf": [{"type": "array", "items": {"type": "null"}, "minItems": 1}, {"const": []}]}`, `[]|[null]|![1]`},
		{`{"patternProperties": {"^a": {"type": "null"}, "^b[xy]?$": {"type": "boolean"}}, "minProperties": 2}`, `{"a":null,"ab":null}|{"b":true,"bx":true}|{"by":false,"a":null}|!{"a":true,"b":true}|!{"b":true,"b":true}`},
	} {
		p := compile(t, c.schema, Options{})
		for _, text := range strings.Split(c.texts, "|") {
			text, out := strings.CutPrefix(text, "!")
			if got := holds(p, text); got == out {
				t.Errorf("%s: %s is %v", c.schema, text, got)
			}
		}
	}
}

// White space occurs exactly where the options allow it.
func TestSpace(t *testing.T) {
	const text = `{"properties": {"a": {"items": {"const": {"x": 1, "y": 2}}}}, "required": ["a"]}`
	compact, one := `{"a":[{"x":1,"y":2},{"x":1,"y":2}]}`, `{"a": [{"x": 1, "y": 2}, {"x": 1, "y": 2}]}`
	for space, want := range map[Space][2]bool{NoSpace: {true, false}, OneSpace: {false, true}} {
		p := compile(t, text, Options{Space: space})
		if got := [2]bool{holds(p, compact), holds(p, one)}; got != want {
			t.Errorf("space %d: %v, want %v", space, got, want)
		}
	}
	p := compile(t, `{"properties": {"a": {"items": {"const": 1}}}, "required": ["a"]}`, Options{Space: MaybeSpace})
	for text, want := range map[string]bool{`{"a":[1,1]}`: true, `{"a": [1, 1,1]}`: true, `{"a":  [1]}`: false, `{ "a":[1]}`: false} {
		if holds(p, text) != want {
			t.Errorf("%s is %v", text, !want)
		}
	}
}

// All unsupported parts are reported, with their location.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`{"type": "object", "properties": {"a": {"contains": {}, "maxContains": -2}, "c": {"pattern": "\\bx"}, "d/": {"type": "int"}}}`,
			"/properties/a/maxContains: bad value|/properties/c/pattern: |/properties/d~1/type: bad type \"int\""},
		{`{"$ref": "http://example.com/x"}`, "/$ref: unsupported reference \"http://example.com/x\""},
		{`{"$ref": "#/$defs/x"}`, "/$ref: unknown reference \"#/$defs/x\""},
		{`{"$ref": "#/enum/2", "enum": [{}, {}]}`, "/$ref: unknown reference \"#/enum/2\""},
		{`{"$ref": "#"}`, "infinite loop"},
		{`{"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}}`, "infinite loop"},
		{`{"type": "string", "minLength": 3, "maxLength": 2}`, "3 characters at least and 2 at most|no supported value"},
		{`{"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}`, "no supported value"},
		{`{"type": "integer", "multipleOf": 0.7777}`, "/multipleOf: "},
		{`{"type": "number", "maximum": 0.12345678901234567}`, "more than 15 digits"},
		{`{"type": "array", "items": {"type": "integer"}, "uniqueItems": true}`, "/uniqueItems: "},
		{`{"type": "array", "items": {"type": "integer", "minimum": 0}, "uniqueItems": true}`, "/uniqueItems: "},
		{`{"type": "array", "items": {"type": "integer", "maximum": 0}, "uniqueItems": true}`, "/uniqueItems: "},
		{`{"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}, "uniqueItems": true}`, "/uniqueItems: "},
		{`{"type": "array", "items": {"type": ["string", "boolean"]}, "uniqueItems": true}`, "/uniqueItems: "},
		{`{"type": "array", "items": {"type": "array", "items": {"type": "boolean"}}, "uniqueItems": true}`, "/uniqueItems: "},
		{`{"type": "array", "items": {"type": "integer", "minimum": 1e300, "maximum": 2e300}, "uniqueItems": true}`, "/uniqueItems: "},
		{`{"enum": []}`, "no supported value"},
		{`{"type": "string", "pattern": "^(a|b{300})$", "minLength": 3, "maxLength": 90000}`, "states"},
		{`{"$schema": "http://json-schema.org/draft-03/schema#"}`, "unsupported dialect"},
		{`{"$schema": "http://json-schema.org/draft-0", "type": "string"}`, "unsupported dialect"},
		{`{"minLength": -1}`, "/minLength: "},
		{`{"$dynamicRef": "#x"}`, "/$dynamicRef: unknown reference"},
		{`{"$dynamicRef": "#x", "$defs": {"a": {"$dynamicAnchor": "x"}, "b": {"$id": "b"}}}`, "/$dynamicRef: unsupported keyword"},
		{`{"type": "string", "not": {"format": "email"}}`, "no string has"},
		{`{"type": "integer", "not": {"multipleOf": 2}}`, "cannot be distinguished"},
		{`{"type": "array", "items": {"type": "null"}, "not": {"const": []}}`, "cannot be distinguished"},
		{`{"oneOf": [{"type": "object", "properties": {"k": {"enum": [1, 2]}}}, {"const": {"k": 2}}]}`, "cannot be distinguished"},
		{`[]`, "want an object, true or false"},
		{`{"title": 3}`, "invalid schema"},
	} {
		_, err := Compile([]Document{{Schema: []byte(c.schema)}}, Options{})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		for _, want := range strings.Split(c.want, "|") {
			if !strings.Contains(e.Error(), want) {
				t.Errorf("%s: %q lacks %q", c.schema, e.Error(), want)
			}
		}
	}
	for _, text := range []string{"", "{", `{"a":1,"a":2}`, "{} {}", `{"const": "\ud800"}`, "\xff", strings.Repeat("[", 200) + strings.Repeat("]", 200), `{"enum": [` + strings.Repeat("1,", 1<<16) + "1]}"} {
		if _, err := Compile([]Document{{Schema: []byte(text)}}, Options{}); err == nil {
			t.Errorf("%.40q is a schema", text)
		}
	}
}

// Schemas with too many expansions are refused, not computed.
func TestLargeSchemas(t *testing.T) {
	many := strings.Repeat(`{"anyOf":[{"minLength":1},{"maxLength":9}]},`, 12)
	for _, text := range []string{
		`{"allOf":[` + strings.TrimSuffix(many, ",") + `]}`,
		`{"properties":{` + strings.TrimSuffix(strings.Repeat(`"a":1,`, 3), ",") + `}}`,
		`{"type":"object","minProperties":2,"properties":{` + func() string {
			var names []string
			for i := range 2000 {
				names = append(names, `"`+strings.Repeat("x", i%7)+string(rune('0'+i%10))+string(rune(0x4e00+i))+`":{}`)
			}
			return strings.Join(names, ",")
		}() + `}}`,
	} {
		if _, err := Compile([]Document{{Schema: []byte(text)}}, Options{}); err == nil {
			t.Errorf("%.60s is read", text)
		}
	}
}

// Any bytes as a schema are refused, or give a grammar without dead ends.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","properties":{"a":{"type":"string","pattern":"^a+$"}},"required":["a"],"additionalProperties":{"type":"integer","minimum":3}}`,
		`{"oneOf":[{"const":1},{"type":"array","items":{"$ref":"#"}}]}`, `{"if":{},"then":false}`, `{"enum":[1.5,"x"],"not":{"const":1.5}}`,
		`{"type":"array","items":{"enum":[1,2]},"uniqueItems":true}`, `{"patternProperties":{"a":{},"b":true},"propertyNames":{"maxLength":2}}`,
	} {
		f.Add([]byte(seed))
	}
	if data, err := os.ReadFile("../testdata/schemas.json"); err == nil {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			t.Skip()
		}
		p, err := Compile([]Document{{Schema: data}}, Options{Depth: 4})
		if err != nil {
			return
		}
		m := p.Run()
		s := m.Start()
		for i := 0; i < 40 && !s.Done(); i++ {
			near := m.Near(s)
			pick, n := -1, 0
			for b := range 256 {
				if near[b>>6]>>(b&63)&1 != 0 && m.Step(s, byte(b)) != nil {
					if n++; int(data[i%len(data)])%n == 0 {
						pick = b
					}
				}
			}
			if pick < 0 {
				t.Fatalf("a dead end in %s", data)
			}
			s = m.Step(s, byte(pick))
		}
	})
}
