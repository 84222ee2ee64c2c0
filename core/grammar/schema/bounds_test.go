package schema

import (
	"fmt"
	"strings"
	"testing"
)

// repeated returns n copies of a text with commas between them.
func repeated(text string, n int) string {
	return strings.TrimSuffix(strings.Repeat(text+",", n), ",")
}

// TestBounds has a text on either side of each keyword's bound, alone and where
// two schemas together give the stricter one: in a text of want, ! is refused.
func TestBounds(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		// Characters.
		{`{"type":"string","minLength":2,"maxLength":4}`, `!"a"|"ab"|"abcd"|!"abcde"`},
		{`{"type":"string","minLength":0,"maxLength":0}`, `""|!"a"`},
		{`{"type":"string","minLength":3,"maxLength":3}`, `!"ab"|"abc"|!"abcd"`},
		{`{"allOf":[{"type":"string","minLength":1,"maxLength":5},{"minLength":2,"maxLength":3}]}`, `!"a"|"ab"|"abc"|!"abcd"`},
		{`{"allOf":[{"minLength":2,"maxLength":3},{"type":"string","minLength":1,"maxLength":5}]}`, `!"a"|"ab"|"abc"|!"abcd"`},
		{`{"type":"string","pattern":"^a*$","minLength":1,"maxLength":2}`, `!""|"a"|"aa"|!"aaa"|!"b"`},
		{`{"type":"string","pattern":"^a","minLength":2}`, `!"a"|"ab"|"abcdef"|!"ba"`},
		// Items.
		{`{"type":"array","items":{"const":1},"minItems":2,"maxItems":3}`, `![]|![1]|[1,1]|[1,1,1]|![1,1,1,1]`},
		{`{"type":"array","items":{"const":1},"maxItems":0}`, `[]|![1]`},
		{`{"type":"array","items":{"const":1},"minItems":1}`, `![]|[1]|[1,1,1,1]`},
		{`{"type":"array","prefixItems":[{"const":1},{"const":2}],"items":{"const":3}}`, `[]|[1]|[1,2]|[1,2,3]|[1,2,3,3]|![2]|![1,3]|![1,2,2]`},
		{`{"type":"array","prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"minItems":1,"maxItems":3}`, `![]|[1]|[1,2]|[1,2,3]|![1,2,3,3]`},
		{`{"type":"array","prefixItems":[{"const":1},{"const":2}],"minItems":2,"maxItems":2}`, `![1]|[1,2]|![1,2,3]`},
		{`{"type":"array","prefixItems":[{"const":1},{"const":2}],"maxItems":1}`, `[]|[1]|![1,2]`},
		{`{"type":"array","prefixItems":[{"const":1}],"items":{"const":3},"minItems":3}`, `![1]|![1,3]|[1,3,3]|[1,3,3,3]`},
		{`{"type":"array","items":{"enum":[1,2,3]},"uniqueItems":true,"minItems":1,"maxItems":2}`, `![]|[1]|[2,3]|![1,2,3]|![2,2]`},
		{`{"type":"array","items":{"enum":[1,1,2]},"uniqueItems":true}`, `[]|[1]|[1,2]|![1,1]`},
		{`{"type":"array","items":{"type":"string"},"uniqueItems":true,"minItems":2,"maxItems":2}`, `!["a"]|["a","b"]|!["a","a"]|!["a","b","c"]`},
		{`{"type":"array","items":{"enum":[1,1.0,10e-1,2]},"uniqueItems":true}`, `[]|[1]|[1,2]|![1,1.0]|![1.0]|![1,1]`},
		{`{"type":"array","items":{"enum":[{"a":1,"b":[2]},{"b":[2.0],"a":1},{"a":1}]},"uniqueItems":true}`, `[{"a":1,"b":[2]},{"a":1}]|![{"a":1,"b":[2]},{"b":[2.0],"a":1}]`},
		{`{"type":"array","items":{"type":"integer","minimum":-1,"maximum":2},"uniqueItems":true}`, `[]|[-1]|[-1,0,1,2]|[0,2]|![2,0]|![0,0]|![3]|![-2]|![-0]|![1.0]`},
		{`{"type":"array","items":{"type":"integer","exclusiveMinimum":0.5,"exclusiveMaximum":4},"uniqueItems":true,"minItems":2}`, `[1,2,3]|[1,3]|![1]|![0,1]|![3,4]`},
		{`{"type":"array","items":{"type":"integer","minimum":1,"maximum":10,"multipleOf":4},"uniqueItems":true}`, `[4]|[4,8]|![1]|![8,8]`},
		{`{"type":"array","items":{"type":"integer","minimum":1,"maximum":4,"not":{"enum":[2,3.0]}},"uniqueItems":true}`, `[1,4]|[4]|![1,2]|![3]`},
		{`{"type":"array","items":{"type":"boolean"},"uniqueItems":true}`, `[]|[true]|[false,true]|![true,true]|![false,false]`},
		{`{"type":"array","items":{"type":["boolean","null"]},"uniqueItems":true,"minItems":3}`, `[null,false,true]|![null,false]`},
		{`{"type":"array","items":{"anyOf":[{"enum":["a",1]},{"type":"integer","minimum":0,"maximum":2},{"type":"null"}]},"uniqueItems":true}`, `["a",1,0,2,null]|["a",null]|[0]|![1,1]|!["a","a"]`},
		{`{"type":"array","items":{"const":1},"uniqueItems":true,"maxItems":1}`, `[]|[1]|![1,1]`},
		{`{"allOf":[{"type":"array","items":{"const":1},"minItems":1,"maxItems":4},{"minItems":2,"maxItems":2}]}`, `![1]|[1,1]|![1,1,1]`},
		// Strings without others.
		{`{"oneOf":[{"type":"string"},{"type":"string","maxLength":3}]}`, `"abcd"|!"abc"|!""`},
		{`{"oneOf":[{"type":"string"},{"const":"a"}]}`, `"b"|""|"aa"|!"a"`},
		{`{"oneOf":[{"type":"string","pattern":"^a"},{"type":"string","pattern":"z$"}]}`, `"ab"|"yz"|!"az"|!"b"`},
		{`{"type":"string","not":{"pattern":"^tmp"}}`, `"x"|""|"atmp"|!"tmp"|!"tmpx"`},
		{`{"type":"string","pattern":"^[a-z]+$","not":{"enum":["root","admin",1]}}`, `"user"|"roots"|"roo"|!"root"|!"admin"|!""`},
		{`{"type":"string","minLength":2,"not":{"maxLength":3}}`, `"abcd"|!"abc"|!"ab"|!""`},
		{`{"type":"string","not":{"anyOf":[{"const":"a"},{"pattern":"^b"}]}}`, `"c"|"ab"|!"a"|!"b"|!"bc"`},
		{`{"type":"string","pattern":"^(?!tmp)[a-z]+$"}`, `"x"|"tm"|!"tmp"|!"tmpx"`},
		{`{"enum":["ab","tmp"],"pattern":"^(?!tmp)"}`, `"ab"|!"tmp"`},
		{`{"type":"string","pattern":"^(?=.*[0-9])[a-z0-9]{2}$"}`, `"a1"|"1a"|"11"|!"aa"|!"1"`},
		// Members.
		{`{"properties":{"a":{"const":1},"b":{"const":2}},"required":["a"]}`, `!{}|{"a":1}|{"a":1,"b":2}|!{"b":2}|!{"a":2}`},
		{`{"properties":{"a":{"const":1},"b":{"const":2}}}`, `{}|{"a":1}|{"b":2}|{"a":1,"b":2}|!{"b":2,"a":1}|!{"c":1}`},
		{`{"properties":{"a":{"const":1},"b":{"const":2}},"required":["b","a"]}`, `!{"a":1}|!{"b":2}|{"a":1,"b":2}`},
		{`{"properties":{"a":{"const":1}},"required":["z"]}`, `!{}|!{"a":1}|{"z":0}|{"a":1,"z":null}`},
		{`{"properties":{"a":{"const":1},"b":{"const":1},"c":{"const":1}},"minProperties":1,"maxProperties":2}`, `!{}|{"a":1}|{"c":1}|{"a":1,"c":1}|!{"a":1,"b":1,"c":1}`},
		{`{"properties":{"a":{"const":1},"b":{"const":1},"c":{"const":1}},"required":["a"],"maxProperties":1}`, `!{}|{"a":1}|!{"b":1}|!{"a":1,"b":1}`},
		{`{"properties":{"a":{"const":1},"b":{"const":1}},"minProperties":2}`, `!{}|!{"a":1}|!{"b":1}|{"a":1,"b":1}`},
		{`{"properties":{"a":{"const":1}},"additionalProperties":{"const":2},"minProperties":2,"maxProperties":2}`, `!{"a":1}|!{"x":2}|{"a":1,"x":2}|{"x":2,"y":2}|!{"a":1,"x":2,"y":2}|!{"a":1,"x":1}`},
		{`{"type":"object","additionalProperties":{"const":2},"maxProperties":1}`, `{}|{"x":2}|!{"x":2,"y":2}`},
		{`{"type":"object","additionalProperties":false}`, `{}|!{"a":1}`},
		{`{"properties":{"a":{"const":1}},"additionalProperties":false}`, `{}|{"a":1}|!{"b":1}`},
		{`{"type":"object","maxProperties":0}`, `{}|!{"a":1}`},
		{`{"type":"object","propertyNames":{"minLength":2},"additionalProperties":{"const":1}}`, `{}|{"ab":1}|{"abc":1}|!{"a":1}`},
		{`{"type":"object","propertyNames":{"enum":["a.b","c",1]},"additionalProperties":{"const":1}}`, `{}|{"a.b":1}|{"c":1}|!{"axb":1}|!{"d":1}|!{"":1}`},
		{`{"type":"object","propertyNames":{"enum":["ab","c"],"minLength":2},"additionalProperties":{"const":1}}`, `{}|{"ab":1}|!{"c":1}`},
		{`{"type":"object","propertyNames":{"pattern":"^x"},"additionalProperties":{"const":1}}`, `{}|{"x":1}|{"xy":1}|!{"y":1}`},
		{`{"type":"object","patternProperties":{"^a":{"const":1},"b$":{"const":1}},"additionalProperties":{"const":2}}`, `{"a":1}|{"b":1}|{"ab":1}|{"c":2}|!{"a":2}|!{"b":2}|!{"c":1}`},
		{`{"properties":{"a":{"const":1},"b":{"const":1}},"dependentRequired":{"a":["b"]}}`, `{}|{"b":1}|{"a":1,"b":1}|!{"a":1}`},
		{`{"properties":{"a":{"const":1},"b":{"enum":[1,2]}},"dependentSchemas":{"a":{"properties":{"b":{"const":2}},"required":["b"]}}}`, `{}|{"b":1}|{"b":2}|{"a":1,"b":2}|!{"a":1}|!{"a":1,"b":1}`},
		{`{"allOf":[{"properties":{"a":{"enum":[1,2]}}},{"properties":{"a":{"enum":[2,3]}},"required":["a"]}]}`, `{"a":2}|!{}|!{"a":1}|!{"a":3}`},
		// Numbers.
		{`{"type":"integer","minimum":5,"maximum":12}`, `!4|5|9|10|12|!13|!50`},
		{`{"type":"integer","exclusiveMinimum":5,"exclusiveMaximum":12}`, `!5|6|11|!12`},
		{`{"type":"integer","minimum":-12,"maximum":-5}`, `!-13|-12|-10|-5|!-4|!5`},
		{`{"type":"integer","minimum":-1,"maximum":1}`, `!-2|-1|0|1|!2`},
		{`{"type":"integer","minimum":5,"exclusiveMinimum":5}`, `!5|6`},
		{`{"type":"integer","maximum":5,"exclusiveMaximum":5}`, `4|!5`},
		{`{"allOf":[{"type":"integer","minimum":1,"maximum":9},{"minimum":3,"maximum":7}]}`, `!2|3|7|!8`},
		{`{"allOf":[{"type":"integer","exclusiveMinimum":3},{"minimum":3}],"exclusiveMaximum":5}`, `!3|4|!5`},
		{`{"allOf":[{"type":"integer","exclusiveMaximum":5},{"maximum":5}]}`, `4|!5`},
		{`{"type":"number","minimum":0.5,"maximum":1.5}`, `!0.4|0.5|1|1.5|!1.51|!2`},
		{`{"type":"number","exclusiveMinimum":0.5,"exclusiveMaximum":1.5}`, `!0.5|0.500000001|1.499999999|!1.5`},
		{`{"type":"integer","multipleOf":3,"minimum":1}`, `!0|!1|3|!4|12`},
		{`{"type":"integer","multipleOf":100}`, `0|100|!1|!10|!101`},
		{`{"type":"number","minimum":0}`, `0.123456789|!0.1234567891|123456789.123456|!123456789.1234567|123456789012345|!1234567890123456`},
		{`{"type":"number"}`, `1e5|1E+05|1e-12|!1e123|!1e`},
		{`{"type":"number","maximum":9}`, `9|!1e1`},
		{`{"type":"number","maximum":12345678901234.5}`, `12345678901234.5|!12345678901234.6`},
		{`{"type":"number","maximum":123456789012345.5}`, ``},
		{`{"type":"integer","multipleOf":0}`, ``}, {`{"type":"integer","multipleOf":1001}`, ``}, {`{"type":"integer","multipleOf":1.5}`, `3|-6|!1.5|!2`}, {`{"minimum":1e401}`, ``},
		{`{"type":"number","multipleOf":0.01}`, `1|0.5|0.07|-3.25|0.070|!0.001|!1e3`},
		{`{"type":"number","multipleOf":0.25,"maximum":2}`, `0.25|0.5|2|1.750|!0.2|!2.25|!0.26`},
		{`{"allOf":[{"multipleOf":0.5},{"multipleOf":0.3}]}`, `1.5|3|!0.5|!0.3`},
		{`{"multipleOf":1e-10}`, `0.5|1`}, {`{"multipleOf":1e-400}`, ``}, {fmt.Sprintf(`{"multipleOf":%d}`, maxMultiple+1), ``}, {fmt.Sprintf(`{"type":"integer","multipleOf":%d,"minimum":0,"maximum":9999}`, maxMultiple), `0|1000|!500`},
		{`{"type":"number","exclusiveMinimum":true,"minimum":2,"$schema":"http://json-schema.org/draft-04/schema#"}`, `!2|2.1`},
		{`{"type":"integer","exclusiveMaximum":true,"maximum":2,"$schema":"http://json-schema.org/draft-04/schema#"}`, `!2|1`},
		{`{"type":"integer","exclusiveMaximum":false,"maximum":2,"$schema":"http://json-schema.org/draft-04/schema#"}`, `2|1|!3`},
		// Keywords that look at the others.
		{`{"type":"array","items":{"type":"integer"},"contains":{"const":7},"maxItems":3}`, `[7]|[7,1]|[7,7,1]|![]|![1]|![7,1,1,1]`},
		{`{"type":"array","contains":{"type":"string"},"minContains":2,"items":{"enum":["a",1]}}`, `["a","a"]|["a","a",1]|!["a"]|!["a",1]`},
		{`{"type":"array","contains":{"const":1},"minContains":0,"items":{"enum":[1,2]}}`, `[]|[2]|[1]`},
		{`{"type":"array","prefixItems":[{"const":"x"}],"allOf":[{"contains":{"const":1}},{"contains":{"const":2}}]}`, `["x",1,2]|["x",1,2,null]|!["x"]|!["x",1]`},
		{`{"type":"array","contains":{"const":1},"maxItems":0}`, ``},
		{fmt.Sprintf(`{"type":"array","contains":{"const":1},"minContains":%d}`, maxPrefix+1), ``},
		{`{"properties":{"a":{"const":1}},"allOf":[{"properties":{"b":{"const":2}}}],"unevaluatedProperties":false}`, `{}|{"a":1}|{"a":1,"b":2}|!{"c":1}`},
		{`{"properties":{"a":{"const":1}},"allOf":[{"properties":{"b":{"const":2}},"unevaluatedProperties":false}]}`, `{}|{"b":2}|!{"a":1}`},
		{`{"properties":{"a":{"const":1}},"unevaluatedProperties":{"const":2}}`, `{}|{"a":1,"z":2}|!{"z":1}`},
		{`{"anyOf":[{"properties":{"k":{"const":1},"x":{"const":1}},"required":["k"]},{"properties":{"k":{"const":2},"y":{"const":1}},"required":["k"]}],"unevaluatedProperties":false}`, `{"k":1,"x":1}|{"k":2,"y":1}|!{"k":1,"y":1}`},
		{`{"patternProperties":{"^p":{"const":1}},"required":["q"],"unevaluatedProperties":{"const":3}}`, `{"q":3}|{"q":3,"p":1}|{"q":3,"r":3}|!{"q":1}|!{"q":3,"p":3}`},
		{`{"required":["q"],"unevaluatedProperties":false}`, ``},
		{`{"additionalProperties":{"const":1},"unevaluatedProperties":false}`, `{}|{"a":1}|!{"a":2}`},
		{`{"prefixItems":[{"const":1}],"unevaluatedItems":false}`, `[]|[1]|![1,1]`},
		{`{"allOf":[{"prefixItems":[{"const":1}]}],"unevaluatedItems":{"const":2}}`, `[]|[1]|[1,2]|![1,1]`},
		{`{"items":{"const":1},"unevaluatedItems":false}`, `[]|[1,1]|![2]`},
		{`{"$dynamicRef":"#n","$defs":{"n":{"$dynamicAnchor":"n","const":1}}}`, `1|!2`},
		{`{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","properties":{"a":{"$recursiveRef":"#"}}}`, `{}|{"a":{}}|!{"a":1}`},
		// Resources, older dialects, annotations.
		{`{"$id":"https://x.example/a","$ref":"b","$defs":{"b":{"$id":"https://x.example/b","$ref":"#/$defs/c","$defs":{"c":{"const":1}}},"c":{"const":2}}}`, `1|!2`},
		{`{"$ref":"other.json","$defs":{"b":{"$id":"b","const":1}}}`, ``},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a","minimum":5,"definitions":{"a":{"type":"integer","maximum":3}}}`, `1|!4`},
		{`{"type":"string","format":"color","x-order":1,"discriminator":{"propertyName":"a"},"strict":true,"enumDescriptions":["a"],"maxLength":1}`, `""|"a"|!"ab"|!1`},
		{`{"type":"string","pattern":"^[\\u00e0-\\u00ff]\\u0041$"}`, `"éA"|!"aA"`},
		// Combinations.
		{`{"not":false,"type":"null"}`, `null|!1`},
		{`{"properties":{"a":{"const":1}},"maxProperties":0}`, `{}|!{"a":1}`},
		{`{"$ref":"#x","$defs":{"a":{"$anchor":"x"},"b":{"$anchor":"x"}}}`, ``},
		{`{"anyOf":[{"type":"integer","maximum":2},{"type":"integer","minimum":8}]}`, `2|8|!3|!7`},
		{`{"type":["string","null"],"maxLength":1}`, `null|"a"|!"ab"|!1`},
		{`{"type":"integer","minimum":1,"maximum":3,"not":{"const":2}}`, `1|3|!2`},
		{`{"enum":[1,2,3],"not":{"const":2}}`, `1|3|!2`},
		{`{"enum":["a","bb","ccc"],"minLength":2}`, `!"a"|"bb"|"ccc"`},
		{`{"const":5,"minimum":5,"maximum":5}`, `5|!6`},
	} {
		p, err := Compile([]Document{{Schema: []byte(c.schema)}}, Options{})
		if c.want == "" {
			if err == nil {
				t.Errorf("%s is accepted", c.schema)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		for _, text := range strings.Split(c.want, "|") {
			text, refused := strings.CutPrefix(text, "!")
			if got := holds(p, text); got == refused {
				t.Errorf("%s: %s is %v", c.schema, text, got)
			}
		}
	}
}

// TestEmpty has schemas whose bounds cross: they have no value.
func TestEmpty(t *testing.T) {
	for _, text := range []string{
		`{"type":"string","minLength":3,"maxLength":2}`, `{"type":"array","minItems":2,"maxItems":1}`, `{"type":"object","minProperties":2,"maxProperties":1}`,
		`{"type":"integer","minimum":3,"maximum":2}`, `{"type":"integer","exclusiveMinimum":2,"exclusiveMaximum":3}`, `{"enum":[]}`, `{"enum":[1],"minimum":2}`, `false`,
		`{"properties":{"a":{}},"required":["a"],"maxProperties":0}`, `{"properties":{"a":false},"required":["a"]}`, `{"type":"array","items":false,"minItems":1}`,
		`{"properties":{"a":{},"b":{}},"additionalProperties":false,"minProperties":3}`,
	} {
		if p, err := Compile([]Document{{Schema: []byte(text)}}, Options{}); err == nil {
			t.Errorf("%s: %d nodes", text, p.Size())
		}
	}
}

// TestLimits has a schema at each limit, and one beyond it.
func TestLimits(t *testing.T) {
	anyOf := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"const":%d}`, i)
		}
		return `{"anyOf":[` + b.String()[1:] + `]}`
	}
	words := func(n int) string { // n names of one character
		var b strings.Builder
		for i := range n {
			b.WriteRune(rune(0x4e00 + i))
		}
		return `{"type":"object","propertyNames":{"pattern":"^[` + b.String() + `]$"},"additionalProperties":{"const":1}}`
	}
	for _, c := range []struct {
		name  string
		limit int
		text  func(n int) string
		fault string
	}{
		{"maxBytes", maxBytes, func(n int) string { return `true` + strings.Repeat(" ", n-4) }, "schema too large"},
		{"maxDepth", maxDepth, func(n int) string { return `{"const":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}` }, "a depth of 128"},
		{"maxValues", maxValues, func(n int) string { return `{"type":"array","default":[` + repeated("0", n-3) + `]}` }, "65536 values"},
		{"maxPrefix of distinct integers", maxPrefix, func(n int) string {
			return fmt.Sprintf(`{"type":"array","items":{"type":"integer","minimum":1,"maximum":%d},"uniqueItems":true}`, n)
		}, "of at most 1000 values"},
		{"maxPrefix", maxPrefix, func(n int) string { return `{"type":"array","prefixItems":[` + repeated(`{"const":1}`, n) + `]}` }, "more than 1000 items"},
		{"maxAlternatives", maxAlternatives, anyOf, "more than 256 alternatives"},
		{"maxWords", maxWords, words, "more than 64"},
	} {
		for n, want := range map[int]bool{c.limit: true, c.limit + 1: false} {
			_, err := Compile([]Document{{Schema: []byte(c.text(n))}}, Options{Depth: deepest})
			if (err == nil) != want || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %d: %v", c.name, n, err)
			}
		}
	}
	for depth, want := range map[int]bool{-1: false, 0: true, deepest: true, deepest + 1: false} {
		if _, err := Compile([]Document{{Schema: []byte(`true`)}}, Options{Depth: depth}); (err == nil) != want {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}

// TestWork: the work of expanding schemas, the depth of comparing them, the
// number of rules and the nodes of a grid are limited.
func TestWork(t *testing.T) {
	n := &node{}
	c := &compiler{reported: map[Fault]bool{}, docs: []document{{}}}
	if !c.spend(n, maxWork) || len(c.faults) > 0 || c.spend(n, 1) || len(c.faults) != 1 || c.spend(n, 1) || len(c.faults) != 1 {
		t.Errorf("spent %d of %d: %v", c.spent, maxWork, c.faults)
	}
	words, numbers := alternative{nodes: []*node{{types: text}}}, alternative{nodes: []*node{{types: number}}}
	for depth, want := range map[int]bool{maxCompared: true, maxCompared + 1: false} {
		c := &compiler{reported: map[Fault]bool{}, docs: []document{{}}}
		if got := c.disjoint(words, numbers, depth); got != want {
			t.Errorf("maxCompared: %d: %v", depth, got)
		}
	}
	for values, want := range map[int]bool{maxRanges: true, maxRanges + 1: false} {
		var list []string
		for i := range values {
			list = append(list, fmt.Sprint(2*i))
		}
		schema := `{"type":"integer","not":{"enum":[` + strings.Join(list, ",") + `]}}`
		if _, err := Compile([]Document{{Schema: []byte(schema)}}, Options{}); (err == nil) != want {
			t.Errorf("maxRanges: %d: %v", values, err)
		}
	}
	for rules, want := range map[int]int{maxRules: 0, maxRules + 1: 1} {
		c := &compiler{reported: map[Fault]bool{}, docs: []document{{}}, rules: map[string]int32{}, work: []job{{set: []*node{{never: true}}}}}
		for i := range rules {
			c.rules[fmt.Sprint(i)] = 0
		}
		if c.build(); len(c.faults) != want {
			t.Errorf("maxRules: %d: %v", rules, c.faults)
		}
	}
	side := 1
	for (side+2)*(side+2) <= maxGrid {
		side++
	}
	for members, want := range map[int]int{side: 0, side + 1: 1} {
		c := &compiler{reported: map[Fault]bool{}, docs: []document{{}}}
		c.grid(grid{owner: n, n: members, least: 1, most: -1}, c.b.Node(), c.b.Node(), func(int) bool { return false }, func(int, int32, int32) {})
		if len(c.faults) != want {
			t.Errorf("maxGrid: %d members: %v", members, c.faults)
		}
	}
}
