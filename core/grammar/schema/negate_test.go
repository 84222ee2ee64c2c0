package schema

import (
	"strings"
	"testing"
)

// TestOpposites has schemas with a not, oneOf or if that only holds for some of the
// values of an alternative: texts of each by lines, refused ones with a leading !.
func TestOpposites(t *testing.T) {
	for _, c := range []struct{ schema, texts string }{
		// Types.
		{`{"oneOf":[{"type":["string","null"]},{"type":["number","null"]}]}`, `"a"|1|1.5|!null|!true`},
		{`{"oneOf":[{"type":"integer"},{"type":"number","minimum":0}]}`, `-1|0.5|1.50|!0|!3|!-0.5|!2.0|!1.000`},
		{`{"type":"number","not":{"type":"integer"}}`, `0.5|-1.25|!1|!1.0|!5e-1|!15e1`},
		{`{"type":["string","null"],"not":{"enum":[1,"a",null]}}`, `"b"|""|"aa"|!"a"|!null|!1`},
		{`{"type":["boolean","string"],"not":{"const":true}}`, `false|"x"|!true`},
		{`{"type":"boolean","not":{"enum":[true,false]},"properties":{}}`, ``},
		// Numbers.
		{`{"oneOf":[{"type":"integer","minimum":1},{"const":1}]}`, `2|3|!1|!0`},
		{`{"type":"integer","minimum":0,"not":{"const":0}}`, `1|10|!0|!-1`},
		{`{"type":"number","not":{"enum":[1,2.5]}}`, `1.5|0|3|2.51|!1|!2.5|!1.0|!2.50`},
		{`{"type":"integer","not":{"minimum":3,"maximum":5}}`, `2|6|!3|!4|!5`},
		{`{"type":"number","not":{"exclusiveMinimum":3}}`, `3|2.5|!3.1|!4`},
		{`{"type":"integer","not":{"anyOf":[{"minimum":10},{"maximum":-10}]}}`, `0|9|-9|!10|!-10`},
		{`{"type":"integer","not":{"not":{"minimum":3}}}`, `3|4|!2`},
		// Strings, in all dialects of patterns.
		{`{"type":["string","integer"],"not":{"minLength":2}}`, `""|"a"|!"ab"|!1`},
		{`{"type":["string","null"],"not":{"type":"string","maxLength":2}}`, `"abc"|null|!"ab"`},
		{`{"type":"string","not":{"pattern":"\\S"}}`, `""|" "|"\t"|!"a"|!"é"|!"` + "\u00a0" + `"|!"\u000b"`},
		{`{"type":"string","pattern":"^\\s$"}`, `" "|"\t"|!"\u000b"|!"` + "\u00a0" + `"`},
		{`{"type":"string","not":{"pattern":"^\\d+$"}}`, `""|"a"|"1a"|!"1"|!"` + "\u0663" + `"|!"1\n"`},
		{`{"type":"string","not":{"pattern":"^(?!b)."}}`, `""|"b"|"bc"|!"a"|"\n"`},
		{`{"type":["string","null"],"not":{"pattern":"^a","type":"string"}}`, `null|"b"|!"a"|!"ab"`},
		{`{"enum":["é","a","", " "],"not":{"pattern":"\\S"}}`, `""|" "|!"é"|!"a"`},
		{`{"enum":["` + "\u0663" + `","1","x"],"not":{"pattern":"\\d"}}`, `"x"|!"1"|!"` + "\u0663" + `"`},
		{`{"enum":["` + "\u00a0" + `","x"],"pattern":"\\S"}`, `"x"|!"` + "\u00a0" + `"`},
		{`{"type":"string","not":{"anyOf":[{"const":"a"},{"pattern":"^b"}]}}`, `"c"|""|!"a"|!"b"`},
		{`{"type":"string","maxLength":3,"not":{"maxLength":1}}`, `"ab"|"abc"|!"a"|!""|!"abcd"`},
		{`{"type":["string","null"],"maxLength":1,"not":{"type":"string","maxLength":1}}`, `null|!"a"|!"ab"`},
		// Arrays.
		{`{"items":{"type":["integer","null"]},"not":{"items":{"type":"integer"}}}`, `[null]|[null,1]|![]|![1]|!1`},
		{`{"type":"array","items":{"enum":[1,2]},"not":{"contains":{"const":1}}}`, `[]|[2]|[2,2]|![1]|![2,1]`},
		{`{"type":"array","items":{"enum":[1,2]},"not":{"prefixItems":[{"const":1},{"const":2}]}}`, `[2]|[1,1]|[2,2,2]|![]|![1]|![1,2]|![1,2,1]`},
		{`{"type":"array","items":{"enum":[1,2]},"not":{"prefixItems":[true],"items":{"const":1}}}`, `[1,2]|[2,2,1]|![]|![2]|![2,1]|![2,1,1]`},
		{`{"type":"array","items":{"const":1},"not":{"minItems":1,"maxItems":2}}`, `[]|[1,1,1]|![1]|![1,1]`},
		{`{"type":"array","items":{"type":"integer"},"not":{"contains":{"type":"integer"}},"maxItems":2}`, `[]|![1]`},
		{`{"type":"array","items":{"enum":[1,2,3]},"contains":{"minimum":2},"maxContains":2}`, `[2]|[3,1,1]|![]|![1]|![2,2,2]`},
		{`{"type":"array","items":{"enum":[1,2]},"contains":{"const":2},"minContains":2,"maxContains":2}`, `[2,2]|[2,2,1]|![2]|![2,2,2]`},
		{`{"type":"array","items":{"enum":[1,2]},"contains":{"const":2},"minContains":0,"maxContains":0}`, `[]|[1,1]|![2]`},
		{`{"type":"array","prefixItems":[{"enum":[1,2]}],"items":{"enum":[1,2]},"contains":{"const":2},"maxContains":1}`, `[1,2]|[1,2,1]|![2,2]|![1]`},
		{`{"type":["array","null"],"contains":{"const":2},"maxContains":0}`, `null|![2]|![]`},
		{`{"type":"array","items":{"enum":[1,2]},"allOf":[{"contains":{"const":1},"maxContains":1},{"contains":{"const":2},"maxContains":1}]}`, `[1,2]|![1,2,1]|![2,1,2]|![1]`},
		{`{"oneOf":[{"items":{"type":"integer"}},{"pattern":"b"},{"type":"string","not":{"properties":{"a":{"const":1}}}}]}`, ``},
		// Objects.
		{`{"oneOf":[{"type":"object","properties":{"a":{"const":1}}},{"type":"object","properties":{"b":{"const":2}}}]}`, `{"a":1,"b":3}|{"b":2,"a":null}|!{}|!{"a":1}|!{"b":2}|!{"a":1,"b":2}`},
		{`{"type":["object","null"],"properties":{"a":{"type":"null"},"b":{"type":"null"}},"not":{"required":["a","b"]}}`, `{}|{"a":null}|{"b":null}|!{"a":null,"b":null}|!null`},
		{`{"type":"object","properties":{"p":{"enum":["free","team"]},"s":{"type":"integer"}},"required":["p"],"if":{"properties":{"p":{"const":"team"}},"required":["p"]},"then":{"required":["s"]}}`,
			`{"p":"free"}|{"p":"free","s":1}|{"p":"team","s":1}|!{"p":"team"}|!{}`},
		{`{"type":"object","properties":{"c":{"enum":["us","ca"]},"z":{"type":"string"}},"allOf":[{"if":{"properties":{"c":{"const":"us"}}},"then":{"properties":{"z":{"pattern":"^[0-9]{2}$"}}}},{"if":{"properties":{"c":{"const":"ca"}},"required":["c"]},"then":{"properties":{"z":{"pattern":"^[A-Z]$"}}}}]}`,
			`{"c":"us","z":"12"}|{"c":"ca","z":"A"}|{"c":"us"}|{"z":"12"}|!{"c":"us","z":"A"}|!{"c":"ca","z":"12"}|!{"z":"A"}`},
		{`{"type":"object","properties":{"any":{"const":1},"not":{"const":2}},"dependentRequired":{"any":["not"],"not":["any"]},"unevaluatedProperties":false}`, `{}|{"any":1,"not":2}|!{"any":1}|!{"not":2}`},
		{`{"type":"object","properties":{"k":{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}},"required":["k"],"not":{"properties":{"k":{"properties":{"a":{"const":true}}}}}}`, `{"k":{"a":false}}|!{"k":{"a":true}}|!{}`},
		{`{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"not":{"minProperties":2}}`, `{}|{"a":null}|{"b":null}|!{"a":null,"b":null}`},
		{`{"type":"object","properties":{"a":{"type":"null"}},"not":{"required":["a"],"properties":{"a":true}}}`, `{}|!{"a":null}`},
		{`{"oneOf":[{"required":["b"]},{"properties":{"a":{"minimum":2}}},{"oneOf":[{"properties":{"b":{"type":"string"}}},{"required":["b"]}]}]}`, `{"a":1,"b":""}|!{"b":""}|!{"b":1}|!{"b":"","a":2}`},
		// Names in which only some dialects find a pattern.
		{`{"type":"object","patternProperties":{"^\\w$":{"type":"null"}},"additionalProperties":{"type":"integer"}}`, `{"a":null}|{"-":1}|!{"a":1}|!{"é":1}|!{"é":null}`},
		{`{"type":"object","properties":{"é":{}},"patternProperties":{"^\\w$":{"type":["null","integer"]}},"additionalProperties":{"type":["integer","string"]}}`, `{"é":1}|!{"é":null}|!{"é":"x"}`},
		// Exclusions by keywords that the grammar cannot negate are refused.
		{`{"type":"object","additionalProperties":{"type":"integer"},"not":{"additionalProperties":{"const":1}}}`, ``},
		{`{"type":"array","items":{"type":"string"},"not":{"uniqueItems":true}}`, ``},
		{`{"type":"string","not":{"format":"uuid"}}`, ``},
		{`{"type":["string","null"],"not":{"format":"uuid","type":"string"}}`, `null|!"a"`},
	} {
		p, err := Compile([]Document{{Schema: []byte(c.schema)}}, Options{})
		if (err != nil) != (c.texts == "") {
			t.Errorf("%s: %v", c.schema, err)
		}
		if err != nil {
			continue
		}
		for _, text := range strings.Split(c.texts, "|") {
			text, out := strings.CutPrefix(text, "!")
			if got := holds(p, text); got == out {
				t.Errorf("%s: %s is %v", c.schema, text, got)
			}
		}
	}
}
