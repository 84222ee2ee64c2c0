package jinja

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/internal/testfiles"
)

// render compiles and runs a template.
func render(template string, vars map[string]any, opt Options) (string, error) {
	t, err := Parse(template)
	if err != nil {
		return "", err
	}
	return t.Render(vars, opt)
}

// snippets are templates for one feature each; TestSnippets compares them with
// Jinja if Python is available, and always with the recorded output.
var snippets = []struct{ template, want string }{
	// White space.
	{"a\n{% if true %}\nb\n{% endif %}\nc\n", "a\nb\nc"},
	{"a  \n  {% if true %}  \n  b\n  {% endif %}  c", "a  \n  \n  b\n  c"},
	{"a {%- if true -%} b {%- endif -%} c", "abc"},
	{"a {{- ' b ' -}} c", "a b c"},
	{"  {{ 1 }}\n{{ 2 }}\n", "  1\n2"},
	{"x{# a\ncomment #}\ny {#- z -#} w", "xyw"},
	{"a\n   {%+ if true %}b{% endif +%}\nc", "a\n   b\nc"},
	{"{% raw %}{{ not }} {% this %}{% endraw %}!", "{{ not }} {% this %}!"},
	{"{% raw -%}  x  {%- endraw %}\ny", "xy"},
	{"{{ '}}' }}{{ \"%}\" }}{{ {'a': {'b': 1}}.a.b }}", "}}%}1"},
	{"a\r\nb\rc", "a\nb\nc"},
	{"{% set x = 1 %}\n{{ x }}", "1"},
	// Literals.
	{`{{ 'it\'s' }} {{ "a\tb\n" }}{{ '\x41\u00e9\U0001F600' }} {{ '\d' }} {{ 'a' 'b' }}`, "it's a\tb\nAé😀 \\d ab"},
	{"{{ 1_000 }} {{ 1.5 }} {{ 1e3 }} {{ 2.0 }} {{ -3 }} {{ +4 }} {{ 1e-7 }} {{ 12345678901234567.0 }}", "1000 1.5 1000.0 2.0 -3 4 1e-07 1.2345678901234568e+16"},
	{"{{ true }} {{ True }} {{ false }} {{ none }} {{ None }}", "True True False None None"},
	{"{{ [1, 'a', [2], (3,), {'k': none}] }}", "[1, 'a', [2], (3,), {'k': None}]"},
	{"{{ (1, 2) }} {{ () }} {{ [1, 2,] }} {{ {'a': 1,} }} {{ 1, 2 }}", "(1, 2) () [1, 2] {'a': 1} (1, 2)"},
	{`{{ ["it's", 'say "x"', 'a\nb\\'] }}`, `["it's", 'say "x"', 'a\nb\\']`},
	// Operators.
	{"{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 2 ** -1 }}", "7 9 3.5 3 -4 2 1024 0.5"},
	{"{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ [1] + [2] }} {{ 'a' ~ 1 ~ none ~ 2.5 }} {{ [0] * 2 }}", "ab ababab [1, 2] a1None2.5 [0, 0]"},
	{"{{ 1 < 2 <= 2 < 3 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 != 2 }} {{ 3 > 2 >= 2 }}", "True True True True True True True"},
	{"{{ 'b' in 'abc' }} {{ 2 in [1, 2] }} {{ 'k' in {'k': 1} }} {{ 3 not in [1] }} {{ not 1 in [1] }} {{ 1 in (1, 2) }}", "True True True True False True"},
	{"{{ 1 and 'x' }} {{ 0 or 'y' }} {{ not '' }} {{ 0 and 1 }} {{ none or false or 'z' }}", "x y True 0 z"},
	{"{{ 'a' if 1 > 2 else 'b' }} {{ 'a' if false }}| {{ 1 if true else 2 if true else 3 }}", "b | 1"},
	{"{{ -2 ** 2 }} {{ -1|abs }} {{ (-1)|abs }} {{ 1 + 2|string|length }}", "4 1 1 2"},
	{"{{ {'a': 1} == {'a': 1.0} }} {{ [1] == (1,) }} {{ none == none }} {{ '1' == 1 }}", "True False True False"},
	// Subscripts and attributes.
	{"{{ 'abc'[0] }} {{ 'abc'[-1] }} {{ 'héé'[1:] }} {{ [1,2,3][::-1] }} {{ [1,2,3,4][1:3] }} {{ 'abc'[::2] }} {{ [1,2,3][:-1] }} {{ [1][5:] }}", "a c éé [3, 2, 1] [2, 3] ac [1, 2] []"},
	{"{{ [1,2,3,4,5][4:0:-2] }} {{ 'abc'[-2:] }} {{ 'abc'[-9:2] }} {{ [1,2][::-1][0] }}", "[5, 3] bc ab 2"},
	{"{% set d = {'a': {'b': [10, 20]}, 'items': 5} %}{{ d.a.b[1] }} {{ d['a']['b'].0 }} {{ d['items'] }} {{ d.get('x') }} {{ d.get('x', 7) }} {{ d.nope }}|", "20 10 5 None 7 |"},
	{"{% for k, v in {'x': 1, 'y': 2}.items() %}{{ k }}={{ v }};{% endfor %}{{ {'x': 1}.keys()|list }}{{ {'x': 1}.values()|list }}", "x=1;y=2;['x'][1]"},
	// Statements.
	{"{% for x in [1,2,3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.length }} {% endfor %}", "10TrueFalse33 21FalseFalse23 32FalseTrue13 "},
	{"{% for x in 'ab' %}{{ loop.previtem }}-{{ x }}-{{ loop.nextitem }};{{ loop.cycle('o', 'e') }}{% endfor %}", "-a-b;oa-b-;e"},
	{"{% for x in [] %}a{% else %}none{% endfor %}{% for x in [1] %}a{% else %}none{% endfor %}", "nonea"},
	{"{% for x in [1,2,3,4] if x is even %}{{ x }}:{{ loop.length }} {% endfor %}", "2:2 4:2 "},
	{"{% for x in [1,2,3,4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}", "13"},
	{"{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }} {% endfor %}{% for (a, b) in [[5, 6]] %}{{ a }}{% endfor %}", "12 34 5"},
	{"{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}", "21"},
	{"{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "2"},
	{"{% set ns = namespace(n=0, s='') %}{% for i in [1,2,3] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}{{ ns.s }}", "6"},
	{"{% set a, b = 1, 2 %}{{ a }}{{ b }}", "12"},
	{"{% set x %}a{{ 1 }}b{% endset %}{{ x|upper }}{% set y | trim %}  z {% endset %}{{ y }}", "A1Bz"},
	{"{% filter upper %}a{{ 'b' }}{% endfilter %}{% filter trim | upper %} c {% endfilter %}", "ABC"},
	{"{% macro m(a, b='y', c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m('x') }} {{ m(1, 2, 3) }} {{ m(b='q', a='p') }} {{ m() }}", "xyx 123 pqp y"},
	{"{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "3210"},
	{"{% set x = 'top' %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 'later' %}{{ m() }}", "later"},
	{"{% if 0 %}a{% elif [] %}b{% elif 'x' %}c{% else %}d{% endif %}", "c"},
	{"{% generation %}g{% endgeneration %}", "g"},
	{"{% for i in range(3) %}{{ i }}{% endfor %}{{ range(5, 1, -2)|list }}{{ range(2, 4)|list }}", "012[5, 3][2, 3]"},
	{"{% for row in [[1,2],[3]] %}{% for x in row %}{{ loop.index }}{{ x }}{% endfor %};{% endfor %}", "1122;13;"},
	{"{{ dict(a=1, b=2) }}{{ namespace(a=1).a }}", "{'a': 1, 'b': 2}1"},
	{"{% macro box(t) %}<{{ t }}:{{ caller() }}>{% endmacro %}{% call box('a') %}in {{ 1 + 1 }}{% endcall %}", "<a:in 2>"},
	{"{% macro each(l) %}{% for x in l %}{{ caller(x, loop.index) }};{% endfor %}{% endmacro %}{% call(x, i=0) each('ab') %}{{ x }}{{ i }}{% endcall %}", "a1;b2;"},
	{"{% macro m() %}{{ caller is defined }}{{ caller() if caller }}{% endmacro %}{{ m() }}{% call m() %}x{% endcall %}", "FalseTruex"},
	{"{% macro inner() %}[{{ caller() }}]{% endmacro %}{% macro out() %}{% call inner() %}{{ 1 }}{% endcall %}({{ caller() }}){% endmacro %}{% call out() %}y{% endcall %}", "[1](y)"},
	{"{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }}{{ m(1, 2, 3, z=4) }}", "12(){}12(3,){'z': 4}"},
	{"{% macro m(a, b) %}{{ a }}-{{ b }}{% endmacro %}{{ m(*[1, 2]) }} {{ m(*'xy') }} {{ m(**{'b': 1, 'a': 2}) }} {{ m(1, *[2]) }} {{ m(*[1], **{'b': 3}) }} {{ m(*[1], b=4) }}", "1-2 x-y 2-1 1-2 1-3 1-4"},
	{"{{ dict(**{'z': 1, 'a': 2}) }} {{ dict(b=1, a=2) }} {{ dict({'c': 0, 'b': 9}, b=1, a=2) }} {{ range(*[1, 4])|list }}", "{'z': 1, 'a': 2} {'b': 1, 'a': 2} {'c': 0, 'b': 1, 'a': 2} [1, 2, 3]"},
	{"{% set m = [[1, 2], [3, 4]] %}{{ m.0.1 }}{{ m.1.0 }} {{ 0.5 }} {{ m.1.0.nope }}", "23 0.5 "},
	// Marked text.
	{"{{ '<a>'|safe + '<b>' }} {{ '<b>' + '<a>'|safe }} {{ '<a>'|safe ~ '<b>' }} {{ '<a>'|safe * 2 + '&' }} {{ ['<a>'|safe] }}", "<a>&lt;b&gt; &lt;b&gt;<a> <a><b> <a><a>&amp; [Markup('<a>')]"},
	{"{{ ('<a>'|e) + '<b>' }} {{ '<'|e|e }} {{ '<'|safe|e }} {{ ('<a> '|safe|trim) + '<' }} {{ ('<a>'|safe|upper) + '<' }} {{ ('<a>'|safe|replace('a', 'b')) + '<' }}", "&lt;a&gt;&lt;b&gt; &lt; < <a>&lt; <A>&lt; <b><"},
	{"{% set s = '<a>'|safe %}{{ s.replace('a', '<') }} {{ (s.upper()) + '<' }} {{ s.split('a')[0] + '<' }} {{ ','|safe|string + '<' }} {{ s[0] + '<' }} {{ s.join(['<', s]) }} {{ s ~ '' + '<' }}", "<&lt;> <A>&lt; <&lt; ,&lt; <&lt; &lt;<a><a> <a><"},
	{"{% set s = '<a>'|safe %}{{ s == '<a>' }} {{ s in ['<a>'] }} {{ s is string }} {{ s|length }} {{ s|tojson }} {{ {s: 1}['<a>'] }} {{ '<'|safe < '=' }} {{ s|default('x') + '<' }} {{ [s, '<']|join('&') }} {{ s.startswith('<') }} {% for c in s %}{{ c + '<' }}{% endfor %}", "True True True 3 \"<a>\" 1 True <a>&lt; <a>&< True <<a<><"},
	// Undefined.
	{"[{{ nope }}] {{ nope is defined }} {{ nope|default('d') }} {{ ''|default('d') }}|{{ ''|default('d', true) }} {{ nope|length }} {{ nope == '' }}", "[] False d |d 0 False"},
	{"{% for x in nope %}{{ x }}{% endfor %}{{ 'a' ~ nope }}{{ not nope }}", "aTrue"},
	{"{% if nope is not defined and nope is undefined %}x{% endif %}", "x"},
	// Tests.
	{"{{ 1 is number }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is sequence }} {{ 'a' is iterable }} {{ 1 is iterable }} {{ none is none }} {{ 1 is none }}", "True True True True True False True False"},
	{"{{ true is boolean }} {{ 1 is boolean }} {{ true is true }} {{ 1 is true }} {{ 1 is integer }} {{ true is integer }} {{ 1.5 is float }} {{ false is false }}", "True False True False True False True True"},
	{"{{ 4 is divisibleby 2 }} {{ 4 is divisibleby(3) }} {{ 3 is odd }} {{ 3 is eq 3 }} {{ 3 is in [1, 3] }} {{ 3 is not in [1] }} {{ 'AB' is upper }} {{ 2 is gt(1) }}", "True False True True True True True True"},
	{"{{ 1 is defined and 2 is defined }} {{ 'y' if 'x' is string else 2 }}", "True y"},
	// Filters.
	{"{{ ' a b '|trim }}|{{ 'xxaxx'|trim('x') }}|{{ 'ab'|upper }}{{ 'AB'|lower }}{{ 'hello world'|title }}{{ 'hELLO'|capitalize }}", "a b|a|ABabHello WorldHello"},
	{"{{ [1,2]|join('-') }} {{ ['a','b']|join }} {{ [{'n':1},{'n':2}]|join(',', attribute='n') }} {{ 'abc'|join('.') }}", "1-2 ab 1,2 a.b.c"},
	{"{{ [1,2,3]|first }}{{ [1,2,3]|last }}{{ 'abc'|first }}{{ [3,1,2]|sort }}{{ [3,1,2]|max }}{{ [3,1,2]|min }}{{ [1,2]|sum }}{{ 'abc'|reverse }}{{ [1,2]|reverse|list }}", "13a[1, 2, 3]313cba[2, 1]"},
	{"{{ {'b': 1, 'A': 2}|dictsort }} {{ {'b': 1, 'a': 2}|dictsort(by='value') }} {{ {'b': 1}|items|list }}", "[('A', 2), ('b', 1)] [('b', 1), ('a', 2)] [('b', 1)]"},
	{"{{ ['b','A','c']|sort }} {{ ['b','A']|sort(case_sensitive=true) }} {{ [1,2]|sort(reverse=true) }} {{ [{'k':2},{'k':1}]|sort(attribute='k') }}", "['A', 'b', 'c'] ['A', 'b'] [2, 1] [{'k': 1}, {'k': 2}]"},
	{"{{ [1,2,3,4]|select('even')|list }} {{ [1,2,3]|reject('odd')|list }} {{ [0,1]|select|list }} {{ [{'r':'u'},{'r':'a'}]|selectattr('r','equalto','u')|list }} {{ [{'r':1},{}]|rejectattr('r')|list }}", "[2, 4] [2] [1] [{'r': 'u'}] [{}]"},
	{"{{ ['a','b']|map('upper')|list }} {{ [{'a':{'b':1}}]|map(attribute='a.b')|list }} {{ [{'a':1},{}]|map(attribute='a', default=0)|list }}", "['A', 'B'] [1] [1, 0]"},
	{"{{ 'a-b-c'|replace('-', '+') }} {{ 'aaa'|replace('a', 'b', 2) }} {{ 5|string + '!' }} {{ '5'|int + 1 }} {{ 'x'|int }} {{ 'x'|int(9) }} {{ '1.5'|float }} {{ 2.9|int }}", "a+b+c bba 5! 6 0 9 1.5 2"},
	{"{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(1, blank=true) }}|{{ 'a\nb'|indent('> ') }}", "a\n    b\n\n    c|  a\n  b|a\n \n b|a\n> b"},
	{"{{ 2.567|round(2) }} {{ 2.5|round }} {{ 2.1|round(0, 'ceil') }} {{ 7|abs }} {{ [1,1,2]|unique|list }} {{ 'a b c'|wordcount }}", "2.57 2.0 3.0 7 [1, 2] 3"},
	{"{{ [1,2,3]|batch(2)|list }} {{ 'x<y>&'|escape }} {{ [1,2]|count }} {{ {'a':1}|length }} {{ 'héé'|length }} {{ (1,2)|list }}", "[[1, 2], [3]] x&lt;y&gt;&amp; 2 1 3 [1, 2]"},
	{`{{ {'a': [1, 2.0, none, true, 'é"\n']}|tojson }} {{ [1,{'b':2}]|tojson(indent=2) }} {{ {}|tojson(indent=2) }}{{ []|tojson }}`, "{\"a\": [1, 2.0, null, true, \"é\\\"\\n\"]} [\n  1,\n  {\n    \"b\": 2\n  }\n] {}[]"},
	{`{{ {'b':1,'a':'é'}|tojson(ensure_ascii=true, sort_keys=true) }} {{ [1,2]|tojson(separators=(',',':')) }}`, `{"a": "\u00e9", "b": 1} [1,2]`},
	{"{{ '%s is %d%%'|format('x', 3) }}", "x is 3%"},
	// Methods.
	{"{{ '  a '.strip() }}|{{ 'xax'.lstrip('x') }}|{{ 'xax'.rstrip('x') }}|{{ 'a,b,c'.split(',') }}|{{ 'a,b,c'.split(',', 1) }}|{{ ' a  b '.split() }}|{{ 'a,b,c'.rsplit(',', 1) }}", "a|ax|xa|['a', 'b', 'c']|['a', 'b,c']|['a', 'b']|['a,b', 'c']"},
	{"{{ ' a  b c '.split(none, 1) }} {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.replace('b', 'x') }} {{ 'aXa'.lower() }} {{ 'a'.upper() }} {{ 'ab cd'.title() }}", "['a', 'b c '] True True axc axa A Ab Cd"},
	{"{{ 'abcb'.find('b') }} {{ 'abcb'.rfind('b') }} {{ 'abc'.find('z') }} {{ 'abab'.count('ab') }} {{ '12'.isdigit() }} {{ 'a b'.isalpha() }} {{ ','.join(['a','b']) }}", "1 3 -1 2 True False a,b"},
	{"{{ 'a{}b{}'.format(1, 'x') }} {{ '{1}{0}'.format('a','b') }} {{ '{n}{{}}'.format(n=5) }} {{ 'a\nb\n'.splitlines() }} {{ 'ab'.removeprefix('a') }} {{ '7'.zfill(3) }} {{ 'a'.ljust(3) }}|", "a1bx ba 5{} ['a', 'b'] b 007 a  |"},
	{"{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}{{ l.pop(0) }}{{ l }}{{ l.index(2) }}{% set d = {'a': 1} %}{{ d.pop('a') }}{{ d }}", "[1, 2]1[2]01{}"},
}

func TestSnippets(t *testing.T) {
	t.Run("recorded", func(t *testing.T) {
		for _, s := range snippets {
			got, err := render(s.template, nil, Options{})
			if err != nil || got != s.want {
				t.Errorf("%q\n got  %q, %v\n want %q", s.template, got, err, s.want)
			}
		}
	})
	t.Run("as Jinja", func(t *testing.T) {
		reference := testfiles.Jinja(t)
		for _, s := range snippets {
			if got, failed := reference(s.template, map[string]any{}); got != s.want {
				t.Errorf("%q\n Jinja: %q %s\n want %q", s.template, got, failed, s.want)
			}
		}
	})
}

func TestRaise(t *testing.T) {
	_, err := render("{{ raise_exception('no ' ~ messages|length ~ ' turns') }}", nil, Options{})
	var raised *RaisedError
	if !errors.As(err, &raised) || raised.Message != "no 0 turns" {
		t.Errorf("%v", err)
	}
}

func TestNow(t *testing.T) {
	const template = "{{ strftime_now('%d %B %Y, %H:%M %%') if strftime_now is defined else 'no clock' }}"
	if got, err := render(template, nil, Options{}); err != nil || got != "no clock" {
		t.Errorf("%q, %v", got, err)
	}
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	if got, err := render(template, nil, Options{Now: now}); err != nil || got != "04 March 2026, 05:06 %" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestVars(t *testing.T) {
	got, err := render("{{ o }}{{ n }}{{ j|tojson }}{{ d }}", map[string]any{
		"o": map[string]any{"b": []any{1, 2.5, nil}, "a": true}, "n": int64(3),
		"j": json.RawMessage(`{"z":1,"a":{"c":1e2}}`), "d": Object{{"z", "y"}, {"a", Object{}}},
	}, Options{})
	if want := `{'a': True, 'b': [1, 2.5, None]}3{"z": 1, "a": {"c": 100.0}}{'z': 'y', 'a': {}}`; err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for want, v := range map[string]any{
		"variable x: unsupported Go type chan int": make(chan int),
		"unexpected EOF": json.RawMessage(`{`),
		"variable x: extra data after the JSON value": json.RawMessage(`{} {}`),
		"variable x: nesting too deep":                json.RawMessage(strings.Repeat("[", 200)),
	} {
		if _, err := render("x", map[string]any{"x": v}, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, should hold %q", err, want)
		}
	}
	b, err := json.Marshal(Object{{"b", 1}, {"a", Object{}}})
	if err != nil || string(b) != `{"b":1,"a":{}}` {
		t.Errorf("%s, %v", b, err)
	}
}

// TestRefused has invalid and unsupported templates.
func TestRefused(t *testing.T) {
	for template, want := range map[string]string{
		"{{ 1":                                "unclosed tag, want }}",
		"{% if 1 %}":                          "missing endif",
		"{% for x in y %}":                    "missing endfor",
		"{% endif %}":                         `unsupported block "endif"`,
		"{# x":                                "unclosed comment",
		"{{ 'x }}":                            "unclosed string",
		"{{ ) }}":                             "unexpected )",
		"{{ }}":                               "unexpected end of expression",
		"{{ 1 2 }}":                           `unexpected "2"`,
		"{{ a. }}":                            "unexpected",
		"\n\n{{ x|nope }}":                    `line 3: unknown filter "nope"`,
		"{{ x is nope }}":                     `unknown test "nope"`,
		"{{ x | map }}":                       "unknown filter \"\"",
		"{% include 'x' %}":                   `unsupported block "include"`,
		"{% import 'os' as os %}":             `unsupported block "import"`,
		"{% extends 'x' %}":                   `unsupported block "extends"`,
		"{% break %}":                         "break outside of a loop",
		"{{ '\\u12' }}":                       "is not a number",
		"{{ 99999999999999999999 }}":          "number 99999999999999999999 too large",
		"{% raw %}x":                          "unclosed raw",
		"{{ @ }}":                             "unexpected character '@'",
		"{{ x[1:2:3:4] }}":                    "unexpected",
		"{{ x[] }}":                           "empty subscript",
		"{{ nope.x }}":                        "undefined nope",
		"{{ nope['x'] }}":                     "undefined nope",
		"{{ nope() }}":                        "call of undefined nope",
		"{{ {}.x.y }}":                        "undefined x of dict",
		"{{ 'a' + 1 }}":                       "unsupported operands: str + int",
		"{{ 1 < 'a' }}":                       "unordered types int and str",
		"{{ 1 in 'a' }}":                      "unsupported operands: int in str",
		"{{ 1 // 0 }}":                        "division by zero",
		"{{ 1 % 0 }}":                         "division by zero",
		"{{ 1 / 0 }}":                         "division by zero",
		"{{ 9223372036854775807 + 1 }}":       "out of range",
		"{{ 9223372036854775807 * 2 }}":       "out of range",
		"{{ 3 ** 99 }}":                       "out of range",
		"{% for x in 5 %}{% endfor %}":        "int is not iterable",
		"{% for a, b in [1] %}{% endfor %}":   "int is not iterable",
		"{% for a, b in [[1]] %}{% endfor %}": "cannot unpack 1 values to 2 names",
		"{% set x.y = 1 %}":                   "x is not a namespace",
		"{{ 5() }}":                           "cannot call int",
		"{{ {[]: 1} }}":                       "unhashable key of type list",
		"{{ [1][::0] }}":                      "zero slice step",
		"{{ nope|tojson }}":                   "filter tojson: Undefined is not JSON serializable",
		"{{ 'x'.split('') }}":                 "split: empty separator",
		"{{ '{0.__class__}'.format(1) }}":     "format: missing argument for {0.__class__}",
		"{{ '{'.format(1) }}":                 "single bracket",
		"{% macro m() %}{% endmacro %}{{ m(1) }}":                   "m: too many arguments: got 1, want 0",
		"{% macro m() %}{% endmacro %}{{ m(x=1) }}":                 "unknown argument name",
		"{% macro m() %}{% endmacro %}{% call m() %}x{% endcall %}": "unknown argument name",
		"{% call 5 %}x{% endcall %}":                                "call without a macro call",
		"{% call dict() %}x":                                        "missing endcall",
		"{{ dict(*[1], 2) }}":                                       "positional argument after",
		"{{ dict(a=1, 2) }}":                                        "positional argument after",
		"{{ dict(**[1]) }}":                                         "got list, want dict",
		"{{ dict(**{1: 2}) }}":                                      "bad argument name of type int",
		"{{ dict(a=1, **{'a': 2}) }}":                               "duplicate argument a",
		"{{ dict(*5) }}":                                            "int is not iterable",
		"{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}":             "duplicate argument a",
		"{{ dict(**nope) }}":                                        "got Undefined, want dict",
		"{{ ''.__class__.__mro__ }}":                                "undefined __class__ of str",
		"{{ [].__init__.__globals__ }}":                             "undefined __init__ of list",
		"{{ raise_exception.__globals__ }}{{ 1 // 0 }}":             "division by zero",
		"{{ self._TemplateReference__context }}":                    "undefined self",
		"{{ cycler.__init__ }}":                                     "undefined cycler",
	} {
		got, err := render(template, nil, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, error %v, should hold %q", template, got, err, want)
		}
	}
}

// TestLimits has templates that would exhaust memory or never end.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name, template string
		want           error
	}{
		{"source", strings.Repeat("x", maxTemplate+1), ErrTemplate},
		{"output", "{% set s = 'x' * 100000 %}{% for i in range(100) %}{{ s }}{% endfor %}", ErrOutput},
		{"one string", "{{ 'x' * 1000000000 }}", ErrOutput},
		{"doubling", "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", ErrOutput},
		{"replace", "{{ ('a' * 10000)|replace('a', 'b' * 10000) }}", ErrOutput},
		{"indent", "{{ ('\n' * 100000)|indent(1000) }}", ErrOutput},
		{"join", "{{ (['x'] * 100000)|join('y' * 10000) }}", ErrOutput},
		{"pad", "{{ 'x'.ljust(1000000000) }}", ErrOutput},
		{"tojson of a list of strings", "{{ (['x' * 100000] * 10000)|tojson }}", ErrOutput},
		{"a list", "{{ [1] * 1000000000 }}", ErrItems},
		{"range", "{{ range(1000000000) }}", ErrItems},
		{"doubling a list", "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}", ErrItems},
		{"nested loops", "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}", ErrSteps},
		{"power", "{% for i in range(99999) %}{{ (-1) ** 9223372036854775807 }}{% set x = range(99999) %}{% endfor %}", ErrSteps},
		{"copying a string", "{% set s = 'x' * 4000000 %}{% for i in range(99999) %}{% set t = s[1:] %}{% endfor %}", ErrSteps},
		{"searching a list", "{% set l = range(99999)|list %}{% for i in l %}{% if -1 in l %}{% endif %}{% endfor %}", ErrSteps},
		{"sorting", "{% set l = range(99999)|list %}{% for i in range(999) %}{% set m = l|sort %}{% endfor %}", ErrSteps},
		{"brackets", "{{ " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000) + " }}", ErrNesting},
		{"lists", "{{ " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + " }}", ErrNesting},
		{"not", "{{ " + strings.Repeat("not ", 5000) + "1 }}", ErrNesting},
		{"minus", "{{ " + strings.Repeat("-", 5000) + "1 }}", ErrNesting},
		{"blocks", strings.Repeat("{% if 1 %}", 3000) + strings.Repeat("{% endif %}", 3000), ErrNesting},
		{"recursion", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", ErrNesting},
		{"a list in itself", "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", ErrNesting},
		{"a list in itself as JSON", "{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}", ErrNesting},
		{"lists in themselves compared", "{% set l = [] %}{% set _ = l.append(l) %}{% set m = [] %}{% set _ = m.append(m) %}{{ l == m }}", ErrNesting},
	} {
		if testing.Short() && c.want == ErrSteps {
			t.Logf("skipped in short mode: %s runs to the limit of steps", c.name)
			continue
		}
		start := time.Now()
		if _, err := render(c.template, nil, Options{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("%s took %v", c.name, d)
		}
	}
	// Long chains are not nested.
	if got, err := render("{{ "+strings.Repeat("1 + ", 10000)+"1 }}", nil, Options{}); err != nil || got != "10001" {
		t.Errorf("%q, %v", got, err)
	}
	if testing.Short() {
		t.Skip("skipped in short mode: a long conversation runs to the limit of steps")
	}
	// A template may go over a long conversation at each of its messages, but
	// not at each pair of them.
	talk := make([]any, 1500)
	for i := range talk {
		talk[i] = Object{{"role", "user"}, {"content", "a message"}}
	}
	vars := map[string]any{"messages": talk}
	const each = "{% for a in messages %}{% for b in messages %}{% if b.role == 'x' %}{% endif %}{% endfor %}{% endfor %}"
	if _, err := render(each, vars, Options{}); err != nil {
		t.Errorf("a long talk: %v", err)
	}
	if _, err := render("{% for c in messages %}"+each+"{% endfor %}", vars, Options{}); !errors.Is(err, ErrSteps) {
		t.Errorf("pairs in a long talk: %v", err)
	}
}

// TestLimitValues has a template at each limit, and one beyond it.
func TestLimitValues(t *testing.T) {
	for _, c := range []struct {
		name     string
		limit    int
		template func(n int) string
		want     error
	}{
		{"maxTemplate", maxTemplate, func(n int) string { return strings.Repeat("x", n) }, ErrTemplate},
		{"maxOutput of a string", maxOutput, func(n int) string { return fmt.Sprintf("{{ ('x' * %d)|length }}", n) }, ErrOutput},
		{"maxOutput", maxOutput - 1, func(n int) string { return fmt.Sprintf("{%% set s = 'x' * %d %%}{{ s }}y", n) }, ErrOutput},
		{"maxItems", maxItems, func(n int) string { return fmt.Sprintf("{{ range(%d)|length }}", n) }, ErrItems},
		{"maxItems of a product", maxItems, func(n int) string { return fmt.Sprintf("{{ ([0] * %d)|length }}", n) }, ErrItems},
		{"maxItems of append", maxItems - 1, func(n int) string { return fmt.Sprintf("{%% set l = [0] * %d %%}{%% set _ = l.append(1) %%}", n) }, ErrItems},
		{"maxItems of a string", maxItems, func(n int) string { return fmt.Sprintf("{%% for c in 'x' * %d %%}{%% break %%}{%% endfor %%}", n) }, ErrItems},
		{"maxCalls", maxCalls - 1, func(n int) string {
			return fmt.Sprintf("{%% macro f(n) %%}{%% if n %%}{{ f(n - 1) }}{%% endif %%}{%% endmacro %%}{{ f(%d) }}", n)
		}, ErrNesting},
	} {
		if _, err := render(c.template(c.limit), nil, Options{}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := render(c.template(c.limit+1), nil, Options{}); !errors.Is(err, c.want) {
			t.Errorf("%s + 1: %v, want %v", c.name, err, c.want)
		}
	}
	r := run{most: maxSteps}
	if r.step(maxSteps) != nil || !errors.Is(r.step(1), ErrSteps) {
		t.Errorf("%d steps of %d", r.steps, maxSteps)
	}
	p := parser{tokens: make([]token, 1)}
	for range maxNesting {
		if _, err := p.nest(); err != nil {
			t.Errorf("level %d of %d: %v", p.depth, maxNesting, err)
		}
	}
	if _, err := p.nest(); !errors.Is(err, ErrNesting) {
		t.Errorf("level %d of %d: %v", p.depth, maxNesting, err)
	}
	for n, want := range map[int]error{maxNesting + 1: nil, maxNesting + 2: ErrNesting} { // the innermost list is empty
		if _, err := fromJSON(json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n))); !errors.Is(err, want) {
			t.Errorf("%d lists: %v", n, err)
		}
	}
	// The steps grow with the variables up to mostSteps.
	for values, want := range map[int]int{0: maxSteps, 1: maxSteps + stepsEach, (mostSteps - maxSteps) / stepsEach: mostSteps, 1 << 20: mostSteps} {
		if got := stepLimit(values); got != want {
			t.Errorf("%d values have %d steps, want %d", values, got, want)
		}
	}
}

// FuzzRender checks that any template ends without a panic, within the limits.
func FuzzRender(f *testing.F) {
	for _, s := range snippets {
		f.Add(s.template)
	}
	vars := map[string]any{
		"messages": []any{
			Object{{"role", "user"}, {"content", " Hi "}},
			Object{{"role", "assistant"}, {"content", []any{Object{{"type", "text"}, {"text", "x"}}}}},
		},
		"tools": []any{json.RawMessage(`{"function":{"name":"f","parameters":{"a":[1,2.5,null]}}}`)}, "n": 3, "s": "aé日\n",
	}
	f.Fuzz(func(t *testing.T, template string) {
		text, err := render(template, vars, Options{})
		if err == nil && len(text) > maxOutput {
			t.Fatalf("%d bytes of text", len(text))
		}
	})
}

func Example() {
	t, err := Parse("{% for k, v in d.items() %}{{ k }}={{ v|join('+') }}{{ ';' if not loop.last }}{% endfor %}")
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := t.Render(map[string]any{"d": Object{{"x", []any{1, 2}}, {"a", []any{"b"}}}}, Options{})
	fmt.Println(text, err)
	// Output: x=1+2;a=b <nil>
}

// The syntax of other programs keeps white space and refuses undefined values.
func TestSyntax(t *testing.T) {
	const source = "  {% if a %}\n x {{ a }}\n {# note #}\n{% endif %}\n"
	for _, c := range []struct {
		syntax Syntax
		want   string
	}{{Syntax{}, " x 1\n"}, {Syntax{Keep: true}, "  \n x 1\n \n\n"}} {
		tmpl, err := ParseAs(source, c.syntax)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tmpl.Render(map[string]any{"a": 1}, Options{}); err != nil || got != c.want {
			t.Errorf("%+v: got %q, %v, want %q", c.syntax, got, err, c.want)
		}
	}
	for _, source := range []string{"{{ b }}", "{{ 'x' ~ b }}", "{{ a.b }}"} {
		for _, strict := range []bool{false, true} {
			tmpl, err := ParseAs(source, Syntax{Strict: strict})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tmpl.Render(map[string]any{"a": map[string]any{}}, Options{}); (err != nil) != strict {
				t.Errorf("%s, strict %v: got %v", source, strict, err)
			}
		}
	}
}
