# Writes golden.jsonl: templates rendered by Python's Jinja 3.1.6, set up as Hugging Face transformers does for chat
# templates. Run: python3 golden.py > golden.jsonl
import json

import jinja2

from reference import env

MESSAGES = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hi <b>\n"}, {"role": "assistant", "content": "Ho", "tool_calls": [{"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": [2, None]}}}]}], "tools": None, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
DATA = {"n": 7, "z": 0, "f": 2.5, "neg": -3, "t": True, "no": False, "nil": None, "s": "Hello World", "e": "", "u": "Grüße, 世界 😀", "w": "  pad\t", "csv": "a,b,,c", "ml": "one\ntwo\n\nthree", "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "le": [], "lm": [1, "x", None, True, 2.0, [4], {"k": 1}], "d": {"b": 1, "a": 2, "C": 0}, "de": {}, "big": [9223372036854775807, 9223372036854775808, -12345678901234567890], "chars": "a\x00b\x85c\u2028d\x1ce\u200bf\xad\ue000\U0001f600\U000e0001\u0378", "nest": {"x": {"y": [10, {"z": "deep"}]}}, "rows": [{"n": "x", "v": 2, "g": {"h": 1}}, {"n": "y", "v": 1, "g": {"h": 2}}, {"n": "x", "v": 3, "g": {"h": 0}}], "html": "<a href='x'>\"&</a>"}

# White space control.
SPACE = r"""
a{% if t %} b {% endif %} c
a {%- if t %} b {% endif -%} c
a {% if t -%} b {%- endif %} c
  {% if t %}x{% endif %}\n  y
  {%+ if t %}x{% endif %}\ny
x\n  {%- if t %}\n  y\n  {%- endif %}\nz
x\n{% if t +%}\ny{% endif %}\nz
a\n  {# note #}  \nb
a {#- note -#} b
a\n{# one\n two #}\nb
{# a #}{# b #}x
{{ n }}\n\n{{ n }}
{{- n -}}\n {{- n }}
  {{ n }}  \n
a\n\n{% for x in l %}\n{{ x }}\n{% endfor %}\n\nb
{% for x in l %}  {{ x }}\n  {% endfor %}!
{% for x in l -%}\n  {{ x }}\n{%- endfor %}
\t{% set q = 1 %}\t\n{{ q }}
{% raw %}{{ n }}{% if %}{# x #}{% endraw %}
{% raw -%} {{ n }} {%- endraw %} z
 {% raw %}\n x {% endraw %}\n y
a\r\nb{% if t %}\r\nc{% endif %}
{% if t %}\n\n{% endif %}x
x{% if no %}\ny{% else %}\nz{% endif %}\n
x \n {% if t %} {% endif %} \n y
{{ 'a\\nb' }}\n
trailing\n\n
\n\nleading
{%- set a = 1 -%} {{ a }}
{% macro m() %}\n  in\n{% endmacro %}\n[{{ m() }}]
{% call m2() %}x{% endcall %}{% macro m2() %}{% endmacro %}
"""

# Literals and operators.
OPERATORS = r"""
{{ 1 }} {{ 1.0 }} {{ 1.50 }} {{ 1e2 }} {{ 1E-2 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_0.5 }}
{{ 0.1 + 0.2 }} {{ 1 / 3 }} {{ 1e16 }} {{ 1e15 }} {{ 123456789012345678 }} {{ 1e-5 }} {{ 1e300 * 10 }}
{{ 'a' "b" 'c' }} {{ 'q\'q' }} {{ "q\"q" }} {{ 'tab\tx' }} {{ '\u4e16\x41' }} {{ 'back\\slash' }} {{ '\q' }}
{{ true }} {{ false }} {{ none }} {{ True }} {{ False }} {{ None }}
{{ [] }} {{ [1, [2, (3, 4)], 'x'] }} {{ (1,) }} {{ () }} {{ {} }} {{ {'a': 1, 'b': [2]} }} {{ {1: 2, none: 3, true: 4} }}
{{ n + 1 }} {{ n - 10 }} {{ n * 2 }} {{ n / 2 }} {{ n // 2 }} {{ n % 3 }} {{ n ** 2 }} {{ -n }} {{ +n }}
{{ -7 // 2 }} {{ 7 // -2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ -7.5 // 2 }} {{ 7.5 % -2 }} {{ 6 / 3 }} {{ 2 ** 0.5 }} {{ 2 ** -2 }} {{ 0 ** 0 }}
{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ (-2) ** 2 }} {{ 1 - 2 - 3 }} {{ 8 / 4 / 2 }} {{ 2 + 3 * 4 - 1 }} {{ (2 + 3) * 4 }}
{{ f + 1 }} {{ f * 2 }} {{ f // 1 }} {{ n + f }} {{ t + 1 }} {{ t + t }} {{ no * 5 }}
{{ 's' + 't' }} {{ s + '!' }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ 'x' * 0 }} {{ 'x' * -1 }} {{ l + [4] }} {{ [0] * 3 }} {{ (1,) + (2,) }}
{{ s ~ n ~ f ~ nil ~ t }} {{ n ~ l }} {{ 'a' ~ nope ~ 'b' }} {{ 1 ~ 2 }}
{{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' == 'a' }} {{ '1' == 1 }} {{ l == [3, 1, 2] }} {{ d == {'a': 2, 'b': 1, 'C': 0} }} {{ none == false }} {{ [1] == (1,) }}
{{ 1 != 2 }} {{ n > 5 }} {{ n >= 7 }} {{ n < 7 }} {{ n <= 7 }} {{ 'a' < 'b' }} {{ 'B' < 'a' }} {{ [1, 2] < [1, 3] }} {{ [1] < [1, 0] }} {{ (1, 'b') > (1, 'a') }}
{{ 1 < n < 10 }} {{ 1 < 2 > 1 }} {{ 1 < 2 == 2 }} {{ 3 > 2 > 2 }} {{ 'a' in s or n }}
{{ 'World' in s }} {{ 'x' in s }} {{ '' in s }} {{ 3 in l }} {{ 9 not in l }} {{ 'a' in d }} {{ 2 in d }} {{ 1 in (1, 2) }} {{ 1.0 in l }}
{{ t and n }} {{ no and n }} {{ z or 'x' }} {{ e or nil or 'last' }} {{ not t }} {{ not e }} {{ not l }} {{ not not n }} {{ not n > 5 }}
{{ no or no and t }} {{ (no or t) and no }} {{ not no and no }} {{ t and not no }}
{{ 'y' if t else 'n' }} {{ 'y' if no else 'n' }} {{ 'y' if no }}| {{ 1 if no else 2 if no else 3 }} {{ ('a' if t else 'b') ~ 'c' }} {{ 'a' if t else 'b' ~ 'c' }}
{{ 1, 2, 'x' }} {{ (1, 2)[1] }} {{ 1 if t else 2, 3 }}
{{ 1 is odd and 2 is even }} {{ not 1 is even }} {{ 1 + 1 is even }} {{ 2 * 3|string }} {{ (2 * 3)|string|length }} {{ -1|abs }} {{ 'a'|upper ~ 'b' }}
{{ l|length > 2 }} {{ l|length * 2 }} {{ n|string + '!' }} {{ not l|length }} {{ l[0] + l[-1] }} {{ -l[0] }}
{{ 9223372036854775807 }} {{ -9223372036854775807 }} {{ 4611686018427387904 * 1.0 }} {{ 10 // 3.0 }} {{ 1 / 1 }}
"""

# Truthiness.
TRUTH = ["{{ 'T' if %s else 'F' }}" % x for x in ["0", "1", "-1", "0.0", "0.1", "''", "' '", "'0'", "[]", "[0]", "()", "(0,)", "{}", "{0: 0}", "none", "true", "false", "nope", "nope|default(1)", "d", "de", "le", "z", "f", "namespace()", "range(0)", "range(1)", "dict"]]

# Slices, subscripts and attributes.
SLICES = ["{{ %s }}" % x for x in """
l[0]|l[-1]|l[5] is defined|l[1:]|l[:1]|l[:]|l[::2]|l[::-1]|l[-2:]|l[:-1]|l[5:]|l[-9:2]|l[2:0:-1]|l[::-2]|l[1:1]|l[0:3:2]
s[0]|s[-1]|s[1:4]|s[:5]|s[6:]|s[::-1]|s[::3]|s[-5:-2]|s[99:]|s[99] is defined|u[0]|u[-1]|u[2:5]|u[::-1]|u[7:9]
(1,2,3)[1:]|(1,2,3)[::-1]|[[1,2],[3]][0][1]|'abc'[1]|'abc'[n-6]|l[z]|l[t]|le[:1]|''[:1]
d.a|d['a']|d['a' ~ '']|d.nope is defined|d['nope'] is defined|d.C|nest.x.y[1].z|nest['x']['y'][0]|nest.x.y.0|nest.x['y'].1['z']|rows[0].n|rows[-1].g.h|rows.1.v|d.items()|list|d.keys()|list|d.values()|list
d['items'] is defined|d.items is defined|s.upper is defined|nil.x is defined|n.x is defined|l.x is defined|nope is defined|messages is defined
""".replace("|list", "\x01list").replace("\n", "|").split("|") if x.strip()]
SLICES = [x.replace("\x01", "|") for x in SLICES]

# Statements, loop variables, scopes, macros, namespaces.
STATEMENTS = r"""
{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}{% if n < 5 %}a{% elif n > 6 %}b{% elif t %}d{% else %}c{% endif %}
{% if nope %}a{% else %}b{% endif %}{% if not nope %}c{% endif %}{% if nope is defined and nope.x %}d{% endif %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}
{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}
{% for x in ls %}{{ loop.changed(x|lower) }}{% endfor %}
{% for x in le %}a{% else %}none{% endfor %}{% for x in l %}b{% else %}none{% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% else %}none{% endfor %}
{% for x in l if x > 9 %}{{ x }}{% else %}none{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for k, v in d|items %}{{ k }}{{ v }}{% endfor %}
{% for k, v in d|dictsort %}{{ k }}{{ v }}{% endfor %}{% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}
{% for c in 'añ😀' %}[{{ c }}]{% endfor %}{% for i in range(3) %}{{ i }}{% endfor %}{% for i in (1, 2) %}{{ i }}{% endfor %}
{% for x in l %}{% for y in l %}{% if y > x %}{% continue %}{% endif %}{{ x }}{{ y }} {% endfor %}{% if loop.index == 2 %}{% break %}{% endif %}{% endfor %}
{% for x in l %}{% set outer = loop %}{% for y in [1] %}{{ outer.index }}{{ loop.index }}{% endfor %}{% endfor %}
{% set x = 1 %}{% for i in l %}{% set x = i %}{% endfor %}{{ x }}{% if t %}{% set x = 5 %}{% endif %}{{ x }}
{% for n in l %}{{ n }}{% endfor %}{{ n }}
{% set ns = namespace(c=0, seen=[]) %}{% for x in l %}{% set ns.c = ns.c + x %}{% endfor %}{{ ns.c }}{{ ns.seen }}{{ ns.nope is defined }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{% set ns.a = 'x' %}{{ ns.a }}{{ ns['b'] }}
{% set a, b = 1, [2] %}{{ a }}{{ b }}{% set (c, d2) = 'xy' %}{{ c }}{{ d2 }}{% set a = b %}{{ a }}
{% set x %}in {{ n }}{% endset %}[{{ x }}]{% set y | upper | replace('A', '-') %}banana{% endset %}{{ y }}
{% filter upper %}a{{ s }}{% endfilter %}{% filter replace('l', 'L') | trim %} hello {% endfilter %}{% filter indent(2) %}a\nb{% endfilter %}
{% macro m(a, b=2, c=a) %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }} {{ m(1, c=9) }} {{ m() }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k='v') }} {{ m(*l) }} {{ m(**{'a': 1, 'q': 2}) }}
{% macro m() %}{{ caller(1) }}/{{ caller(2) }}{% endmacro %}{% call(x) m() %}<{{ x }}{{ n }}>{% endcall %}
{% macro m(x) %}{{ x }}{{ caller() if caller else 'none' }}{% endmacro %}{{ m(1) }}{% call m(2) %}body{% endcall %}
{% macro f(k) %}{{ k }}{% if k %}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(4) }}
{% macro m() %}{{ n }}{% set n = 1 %}{{ n }}{% endmacro %}{{ m() }}{{ n }}
{% set n = 1 %}{% macro m() %}{{ n }}{% endmacro %}{% set n = 2 %}{{ m() }}{% for n in [9] %}{{ m() }}{% endfor %}
{{ m.name }}{% macro m(a, b) %}{% endmacro %}{{ m.name }}{{ m.arguments }}
{% macro m(a) %}  {{ a }}  {% endmacro %}[{{ m('x')|trim }}][{{ m('y') | upper }}][{{ m('z') ~ '!' }}]
{% set f = s.upper %}{{ f() }}{% set g = d.get %}{{ g('a') }}
{% set l2 = [1] %}{% set _ = l2.append(2) %}{{ l2 }}
{% set _ = d.update({'q': 9}) %}{{ d }}{% set _ = d.pop('q') %}{{ d }}
{% set l2 = [3, 1] %}{% set _ = l2.extend([2]) %}{{ l2 }}{% set _ = l2.extend('ab') %}{{ l2 }}
{% set l2 = [1, 2, 3] %}{{ l2.pop() }}{{ l2.pop(0) }}{{ l2 }}{{ l2.index(2) }}{{ l2.count(2) }}
{% generation %}x{{ n }}{% endgeneration %}
{% if t %}{% if no %}a{% else %}{% for x in l %}{{ x }}{% endfor %}{% endif %}{% endif %}
{% set x = n if n > 5 else none %}{{ x }}{% set y = l|map('string')|join('+') %}{{ y }}
{% for m in messages %}{% endfor %}ok
"""

# Filters.
FILTERS = ["{{ %s }}" % x for x in r"""
neg|abs  ;;  f|abs  ;;  (-2.5)|abs  ;;  l|batch(2)|list  ;;  l|batch(2, 'x')|list  ;;  range(7)|batch(3)|list
s|capitalize  ;;  'ÀB'|capitalize  ;;  ''|capitalize  ;;  s|lower  ;;  u|lower  ;;  s|upper  ;;  'straße'|upper  ;;  n|upper
'hello-world foo.bar'|title  ;;  "it's a TEST"|title  ;;  'a1b c_d'|title  ;;  '(x)[y]'|title
l|count  ;;  s|length  ;;  u|length  ;;  d|length  ;;  le|length  ;;  nope|length  ;;  (1,2)|length  ;;  range(5)|length
nope|default('x')  ;;  e|default('x')  ;;  e|default('x', true)  ;;  nil|default('x')  ;;  nil|default('x', true)  ;;  z|d('x', boolean=true)  ;;  nope|default  ;;  d.nope|default('k')  ;;  nope|d
d|dictsort  ;;  d|dictsort(true)  ;;  d|dictsort(by='value')  ;;  d|dictsort(false, 'value', true)  ;;  d|dictsort(reverse=true)
html|e  ;;  html|escape  ;;  n|e  ;;  '&amp;'|e  ;;  html|safe  ;;  html|e|safe
l|first  ;;  l|last  ;;  s|first  ;;  s|last  ;;  d|first  ;;  le|first is defined  ;;  le|last is defined  ;;  (9,8)|last
'3.7'|float  ;;  'x'|float  ;;  'x'|float(1.5)  ;;  n|float  ;;  '1e3'|float  ;;  t|float  ;;  nil|float  ;;  ' 2 '|float  ;;  l|float
'42'|int  ;;  '42.9'|int  ;;  'x'|int  ;;  'x'|int(-1)  ;;  3.9|int  ;;  (-3.9)|int  ;;  '0x1A'|int(0, 16)  ;;  '101'|int(base=2)  ;;  t|int  ;;  nil|int  ;;  ' 7 '|int  ;;  '1_000'|int  ;;  ''|int  ;;  '1e2'|int
'%s-%s'|format('a', 1)  ;;  '%d'|format(3)  ;;  '100%%'|format()
ml|indent  ;;  ml|indent(2)  ;;  ml|indent(2, true)  ;;  ml|indent(2, blank=true)  ;;  ml|indent('>>')  ;;  ml|indent(width=1, first=true, blank=true)  ;;  e|indent  ;;  'x\n'|indent
d|items|list  ;;  de|items|list  ;;  nope|items|list
l|join  ;;  l|join(', ')  ;;  ls|join('')  ;;  lm|join('|')  ;;  rows|join(',', attribute='n')  ;;  rows|join('-', 'g.h')  ;;  s|join('.')  ;;  le|join('x')  ;;  d|join('+')  ;;  [nil, nope]|join(',')
s|list  ;;  d|list  ;;  range(3)|list  ;;  (1,2)|list  ;;  nope|list  ;;  d.items()|list
ls|map('upper')|list  ;;  rows|map(attribute='v')|list  ;;  rows|map(attribute='g.h')|list  ;;  rows|map(attribute='q', default='-')|list  ;;  ['1','2']|map('int')|sum  ;;  ls|map('replace', 'a', 'z')|join  ;;  [[1,2],[3]]|map('first')|list  ;;  [[1,2],[3]]|map(attribute=0)|list  ;;  le|map('upper')|list
l|max  ;;  l|min  ;;  ls|max  ;;  ls|min  ;;  ls|max(case_sensitive=true)  ;;  ls|min(true)  ;;  rows|max(attribute='v')  ;;  rows|min(attribute='g.h')  ;;  le|max is defined  ;;  s|max
s|replace('o', '0')  ;;  s|replace('o', '0', 1)  ;;  s|replace('', '-')  ;;  'aaaa'|replace('aa', 'b')  ;;  s|replace('x', 'y')  ;;  n|replace('7', '8')  ;;  s|replace('l', '')
l|reverse|list  ;;  s|reverse  ;;  u|reverse  ;;  (1,2)|reverse|list  ;;  le|reverse|list
2.567|round  ;;  2.567|round(2)  ;;  2.5|round  ;;  3.5|round  ;;  -2.5|round  ;;  2.1|round(method='ceil')  ;;  2.9|round(0, 'floor')  ;;  2.567|round(1, 'ceil')  ;;  2.567|round(1, 'floor')  ;;  n|round  ;;  1234|round(-2)  ;;  0.15|round(1)  ;;  2.675|round(2)
l|string  ;;  n|string  ;;  nil|string  ;;  s|string  ;;  d|string  ;;  f|string|length  ;;  nope|string
l|select('gt', 1)|list  ;;  l|select('odd')|list  ;;  lm|select|list  ;;  lm|select('string')|list  ;;  lm|select('none')|list  ;;  l|reject('odd')|list  ;;  lm|reject|list  ;;  lm|select('mapping')|list  ;;  l|select('in', [1, 2])|list  ;;  nope|select|list  ;;  lm|reject('number')|list
rows|selectattr('n', 'equalto', 'x')|map(attribute='v')|list  ;;  rows|selectattr('v', '>', 1)|list|length  ;;  rows|selectattr('g.h')|list|length  ;;  rows|rejectattr('n', 'eq', 'x')|list  ;;  rows|selectattr('q', 'defined')|list  ;;  rows|rejectattr('q', 'defined')|list|count  ;;  rows|selectattr('n', 'in', ['y'])|list
l|sort  ;;  ls|sort  ;;  ls|sort(case_sensitive=true)  ;;  ls|sort(true)  ;;  l|sort(reverse=true)  ;;  rows|sort(attribute='v')|map(attribute='v')|list  ;;  rows|sort(attribute='n,v')|map(attribute='v')|list  ;;  rows|sort(attribute='g.h', reverse=true)|map(attribute='v')|list  ;;  s|sort|join  ;;  d|sort  ;;  [1, 2.5, true]|sort
l|sum  ;;  l|sum(start=10)  ;;  rows|sum(attribute='v')  ;;  rows|sum('g.h', 5)  ;;  le|sum  ;;  [1.5, 2]|sum  ;;  [[1], [2]]|sum(start=[])
s|tojson  ;;  d|tojson  ;;  lm|tojson  ;;  u|tojson  ;;  html|tojson  ;;  f|tojson  ;;  nil|tojson  ;;  1e20|tojson  ;;  1.0|tojson  ;;  nest|tojson(indent=2)  ;;  nest|tojson(2)  ;;  u|tojson(ensure_ascii=true)  ;;  d|tojson(sort_keys=true)  ;;  d|tojson(separators=(',', ':'))  ;;  lm|tojson(indent=1)  ;;  le|tojson(indent=2)  ;;  de|tojson(indent=4)  ;;  '"\\\n\t\u2028'|tojson  ;;  (1, 2)|tojson  ;;  {1: 'a', none: 2, true: 3, 1.5: 4}|tojson  ;;  d|tojson(indent='  ')  ;;  d|tojson(indent=0)
w|trim  ;;  'xxaxx'|trim('x')  ;;  'abcba'|trim('ab')  ;;  e|trim  ;;  '\u00a0x\u00a0'|trim  ;;  n|trim  ;;  ml|trim('one')
[1, 1, 2, 1]|unique|list  ;;  ls|unique|list  ;;  ['a', 'A', 'b']|unique|list  ;;  ['a', 'A']|unique(true)|list  ;;  rows|unique(attribute='n')|map(attribute='v')|list  ;;  [1, 1.0, true]|unique|list
s|wordcount  ;;  'a-b c'|wordcount  ;;  u|wordcount  ;;  e|wordcount  ;;  '  '|wordcount  ;;  "it's"|wordcount
""".replace("\n", "  ;;  ").split("  ;;  ") if x.strip()]

# Tests.
TESTS = ["{{ %s }}" % " }} {{ ".join("%s is %s" % (v, x) for v in ["n", "f", "s", "e", "l", "d", "nil", "t", "nope"]) for x in ["boolean", "callable", "defined", "undefined", "false", "true", "float", "integer", "number", "string", "mapping", "none", "sequence", "iterable", "eq 7", "equalto('Hello World')", "ne 7", "sameas true", "sameas none", "in [7, 'Hello World', none]", "not none", "not in [7]"]] + ["{{ %s }}" % x for x in """
7 is odd|8 is even|7 is even|-1 is odd|0 is even|9 is divisibleby 3|9 is divisibleby(2)|'ab' is lower|'aB' is lower|'AB' is upper|'1' is upper|'' is lower|3 is gt 2|3 is greaterthan(3)|3 is ge 3|2 is lt 3|2 is lessthan 2|2 is le 2|'a' is lt 'b'|'upper' is filter|'nope' is filter|'odd' is test|'nope' is test|s.upper is callable|dict is callable|1 is == 1|2 is > 1|1 is <= 0|1 is != 1|l is sameas l|l is sameas [3,1,2]|'a' in 'abc' is true|(1,2) is sequence|range(3) is iterable|range(3) is sequence|namespace() is mapping|2.0 is integer|true is number|true is integer|n is not odd|not n is odd|n is number and s is string
""".strip().split("|")]

# Methods.
METHODS = ["{{ %s }}" % x for x in r"""
w.strip()  ;;  w.lstrip()  ;;  w.rstrip()  ;;  'xxaxx'.strip('x')  ;;  'abcba'.strip('ab')  ;;  'xxa'.lstrip('x')  ;;  'axx'.rstrip('xa')  ;;  '\n x \n'.strip('\n')  ;;  s.strip('Hd')
s.lower()  ;;  s.upper()  ;;  "they're bill's".title()  ;;  'hELLO wORLD'.capitalize()  ;;  'ß'.upper()  ;;  'ÉCOLE'.lower()
s.startswith('He')  ;;  s.startswith('x')  ;;  s.startswith(('x', 'H'))  ;;  s.endswith('ld')  ;;  s.endswith(('a', 'b'))  ;;  s.startswith('')  ;;  s.startswith('W', 6)  ;;  e.startswith('a')
s.removeprefix('Hello ')  ;;  s.removeprefix('x')  ;;  s.removesuffix('World')  ;;  s.removesuffix('')
csv.split(',')  ;;  csv.split(',', 1)  ;;  csv.split(',', maxsplit=2)  ;;  csv.split(sep=',')  ;;  ' a  b c '.split()  ;;  ' a  b c '.split(none, 1)  ;;  e.split()  ;;  e.split(',')  ;;  csv.split('x')  ;;  'a--b'.split('--')  ;;  csv.rsplit(',', 1)  ;;  csv.rsplit(',')  ;;  ' a b c '.rsplit(none, 1)  ;;  csv.split(',')[-1]  ;;  csv.split(',', 0)
chars.splitlines()  ;;  chars.splitlines(true)  ;;  'a\r\nb\x0bc\x0cd\n\re'.splitlines(true)  ;;  [chars]  ;;  {chars: chars}  ;;  chars  ;;  chars|tojson  ;;  'ß-ŉa ΑΣ'|title  ;;  'ΑΣ ΑΣ. İ'.lower()  ;;  'ΑΣ'|lower  ;;  'ŉ ﬃ ΐ'.upper()  ;;  big  ;;  big[1]  ;;  big|tojson  ;;  big[1] is integer  ;;  big[1] is number  ;;  big[1] is float  ;;  big[1] == big[1]  ;;  big[1] == 9.5  ;;  {big[1]: 2}[big[1]]  ;;  big[1]|int  ;;  big[1]|string ~ 'x'  ;;  big[2]|float  ;;  'y' if big[1] else 'n'  ;;  ml.splitlines()  ;;  ml.splitlines(true)  ;;  'a\r\nb\rc'.splitlines()  ;;  e.splitlines()  ;;  'a\n'.splitlines()
s.replace('l', 'L')  ;;  s.replace('l', 'L', 1)  ;;  s.replace('', '.')  ;;  s.replace('o', '')  ;;  s.replace('z', 'y')
', '.join(ls)  ;;  ''.join(le)  ;;  '-'.join('abc')  ;;  '.'.join(d)
s.find('o')  ;;  s.find('o', 5)  ;;  s.rfind('o')  ;;  s.find('zz')  ;;  s.index('W')  ;;  u.find('世')  ;;  s.count('l')  ;;  s.count('')  ;;  'aaa'.count('aa')  ;;  s.find('')  ;;  s.find('o', 0, 3)
'12'.isdigit()  ;;  '1.2'.isdigit()  ;;  ''.isdigit()  ;;  '²'.isdigit()  ;;  '½'.isnumeric()  ;;  'ab'.isalpha()  ;;  'a1'.isalpha()  ;;  'a1'.isalnum()  ;;  'a 1'.isalnum()  ;;  ' \t'.isspace()  ;;  ''.isspace()  ;;  'AB1'.isupper()  ;;  'aB'.isupper()  ;;  'ab1'.islower()  ;;  '1'.islower()  ;;  '世'.isalpha()  ;;  '１'.isdigit()
'{} {}'.format(1, 'x')  ;;  '{1}{0}'.format('a', 'b')  ;;  '{k}'.format(k=n)  ;;  '{{}}'.format()  ;;  '{0}{0}'.format('a')  ;;  '{}'.format(l)  ;;  '{}'.format(nil)
'a'.ljust(4) ~ '|'  ;;  'a'.rjust(4, '.')  ;;  '7'.zfill(3)  ;;  '-7'.zfill(4)  ;;  'abcd'.ljust(2)  ;;  'é'.rjust(3)  ;;  '+5'.zfill(5)
d.get('a')  ;;  d.get('q')  ;;  d.get('q', 5)  ;;  d.keys()|list  ;;  d.values()|list  ;;  d.items()|list  ;;  d.items()|length  ;;  'a' in d.keys()  ;;  2 in d.values()  ;;  d.get('q', {}).get('r')
l.index(1)  ;;  l.count(3)  ;;  [1, 2].pop()  ;;  (1, 2, 1).count(1)  ;;  (1, 2).index(2)
range(3)|list  ;;  range(1, 4)|list  ;;  range(5, 0, -2)|list  ;;  range(0)|list  ;;  range(3)[1]  ;;  range(2, 8)[1:3]|list  ;;  dict(a=1)  ;;  dict({'x': 1}, y=2)  ;;  dict([('a', 1)])  ;;  namespace(a=1).a
""".replace("\n", "  ;;  ").split("  ;;  ") if x.strip()]

# Markup, as safe and escape make it.
MARKUP = ["{{ %s }}" % x for x in r"""
html|safe ~ '<'  ;;  (html|safe) + '<'  ;;  '<' + (html|safe)  ;;  ('<'|e) + '>'  ;;  '<'|e|e  ;;  ('<'|safe)|e  ;;  ('a<'|e)|upper  ;;  ('<b>'|safe)|length  ;;  ('<'|e) * 2  ;;  ['<'|safe]  ;;  ('<'|safe) == '<'  ;;  '<' in ('<b>'|safe)  ;;  ('<%s>'|safe)|format('<')  ;;  ('<b>'|safe).replace('b', '<')  ;;  (', '|safe).join(['<', '>'])  ;;  ['<', '>'|safe]|join(',')  ;;  ('<a>'|safe)|replace('a', '<')  ;;  ('<'|e)|trim|lower
""".strip().split("  ;;  ")]

# Errors.
ERRORS = r"""
{{ nope.x }}
{{ nope['x'] }}
{{ nope() }}
{{ nope + 1 }}
{{ d.nope.x }}
{{ s + 1 }}
{{ 1 + s }}
{{ l + s }}
{{ n() }}
{{ s.nope() }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1 < 's' }}
{{ l < n }}
{{ 1 in 's' }}
{{ 1 in 5 }}
{{ -s }}
{{ l[::0] }}
{{ {[]: 1} }}
{% for x in 5 %}{% endfor %}
{% for x in nil %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% set a, b = [1] %}
{% set a, b = [1, 2, 3] %}
{% set q.x = 1 %}
{% set d.x = 1 %}
{{ s|nope }}
{{ s is nope }}
{{ s|join(1, 2, 3, 4) }}
{{ nope|tojson }}
{{ n|length }}
{{ n|list }}
{{ n|first }}
{{ s|abs }}
{{ [1, 's']|sort }}
{{ n|items|list }}
{{ csv.split('') }}
{{ s.index('zz') }}
{{ [].pop() }}
{{ l.index(99) }}
{{ d.pop('zz') }}
{{ ', '.join([1]) }}
{{ '{}'.format() }}
{{ range() }}
{{ range(1, 2, 0)|list }}
{{ raise_exception('stop ' ~ n) }}
{% if n %}{{ raise_exception(s) }}{% endif %}
{% if no %}{{ raise_exception(s) }}{% endif %}
{% if %}
{% if n %}
{% endif %}
{% for %}{% endfor %}
{% for x in l %}
{% for x l %}{% endfor %}
{{ }}
{{ 1
{{ 'a }}
{{ 1 + }}
{{ a b }}
{{ (1 }}
{{ [1 }}
{{ {1} }}
{{ 1) }}
{{ x. }}
{{ | upper }}
{{ s | }}
{% nope %}
{% block %}{% endblock %}
{% set %}
{% set x %}
{% macro %}{% endmacro %}
{% macro m(a, a2=1, b) %}{% endmacro %}
{% else %}
{% raw %}x
{# open
{% break %}
{% continue %}
{{ 'a' if }}
{{ not }}
{{ 1 not 2 }}
{{ m(a=1, 2) }}
{% macro m() %}{% endmacro %}{{ m(1) }}
{% macro m() %}{% endmacro %}{{ m(x=1) }}
{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}
{% call n() %}{% endcall %}
{% endfor %}
{% if n %}{% endfor %}
{{ s.__class__ }}
{{ s.__class__.__mro__ }}
{{ l.__len__() }}
{{ ''.format.__globals__ }}
"""

CHAT = r"""
{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}
{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]{% elif m['role'] == 'assistant' %}{{ m['content'] + eos_token }}{% endif %}{% endfor %}
{%- if messages[0].role == 'system' %}{%- set sys = messages[0].content %}{%- set rest = messages[1:] %}{%- else %}{%- set rest = messages %}{%- endif %}\n{{- sys }}|{% for m in rest %}{{ loop.index0 }}{{ m.role[0] }}{% endfor %}
{% for m in messages if m.role != 'system' %}{{ m.role }}:{{ m.content.strip() }}\n{% endfor %}
{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name }}({{ c.function.arguments | tojson }}){% endfor %}{% endfor %}
{% for m in messages %}{% if m.tool_calls is defined and m.tool_calls %}{{ m.tool_calls[0].function | tojson(indent=2) }}{% endif %}{% endfor %}
{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{{ ns.last }}
{{ messages | map(attribute='role') | join(',') }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ (messages | last).role }}
{% if (messages[0]['role'] == 'user') != (0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
{% if tools is not none and tools %}T{% else %}no tools{% endif %}{% if not tools %}!{% endif %}
{% macro turn(m) %}{{ '<' ~ m.role ~ '>' }}{{ m.content if m.content is string else m.content | tojson }}{% endmacro %}{% for m in messages %}{{ turn(m) }}{% endfor %}
{% for m in messages[::-1] %}{{ m.role | upper }} {% endfor %}{{ messages[-1].tool_calls[0].type }}
"""


def lines(text):
    return [x.replace("\\r", "\r").replace("\\n", "\n").replace("\\t", "\t") for x in text.split("\n") if x]


def plain(text):
    return [x for x in text.split("\n") if x]


def kind(error):
    if isinstance(error, (jinja2.TemplateSyntaxError, SyntaxError)):
        return "syntax"
    if type(error) is jinja2.TemplateError:
        return "raised"
    return "runtime"


def row(template, variables):
    out = {"template": template, "vars": variables}
    try:
        out["text"] = env.from_string(template).render(**json.loads(json.dumps(variables)))
    except Exception as error:
        out["error"] = kind(error)
        if out["error"] == "raised":
            out["message"] = str(error)
    return out


def main():
    import re
    rows = [(x, DATA) for x in lines(SPACE) + plain(OPERATORS) + TRUTH + SLICES + lines(STATEMENTS) + FILTERS + TESTS + METHODS + MARKUP + plain(ERRORS)]
    rows += [(x, MESSAGES) for x in lines(CHAT)]
    for template, variables in rows:
        used = {k: v for k, v in variables.items() if re.search(r"\b%s\b" % k, template)}
        print(json.dumps(row(template, used), ensure_ascii=False))


if __name__ == "__main__":
    main()
