package grammar_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/grammar/schema"
)

// maker generates schemas with unusual combinations of keywords.
type maker struct{ rng *rand.Rand }

func (m maker) one(list ...string) string { return list[m.rng.IntN(len(list))] }

func (m maker) sometimes(format string, args ...any) string {
	if m.rng.IntN(3) > 0 {
		return ""
	}
	return "," + fmt.Sprintf(format, args...)
}

// schema returns a schema of at most the given depth.
func (m maker) schema(deep int) string {
	if deep <= 0 {
		return m.one(`true`, `{"type":"integer"}`, `{"enum":[1,"a",null]}`, `{"type":"boolean"}`, `{"$ref":"#"}`)
	}
	deep--
	n := m.rng.IntN(3)
	switch m.rng.IntN(12) {
	case 0, 1:
		return `{"type":"object"` + m.sometimes(`"properties":{"a":%s,"ab":%s}`, m.schema(deep), m.schema(deep)) + m.sometimes(`"required":["%s"]`, m.one("a", "b", "c")) +
			m.sometimes(`"additionalProperties":%s`, m.one(`false`, m.schema(deep))) + m.sometimes(`"patternProperties":{"%s":%s,"%s":%s}`, m.one("^a$", "^a.?$", "a"), m.schema(deep), m.one("^b", "[0-9]+", "^a*$"), m.schema(deep)) +
			m.sometimes(`"minProperties":%d`, n) + m.sometimes(`"maxProperties":%d`, n+m.rng.IntN(3)) + m.sometimes(`"propertyNames":{"%s":%d}`, m.one("maxLength", "minLength"), m.rng.IntN(4)) +
			m.sometimes(`"dependentRequired":{"a":["b"]}`) + "}"
	case 2, 3:
		return `{"type":"array"` + m.sometimes(`"items":%s`, m.schema(deep)) + m.sometimes(`"prefixItems":[%s]`, m.schema(deep)) + m.sometimes(`"minItems":%d`, n) + m.sometimes(`"maxItems":%d`, n+m.rng.IntN(3)) +
			m.sometimes(`"uniqueItems":%s`, m.one("true", "false")) + "}"
	case 4:
		return `{"type":"string"` + m.sometimes(`"minLength":%d`, n) + m.sometimes(`"maxLength":%d`, n+m.rng.IntN(9)) + m.sometimes(`"pattern":"%s"`, m.one("^a+b?$", "[xy]{2}", "^.{1,3}$", "\\\\d")) + "}"
	case 5:
		return `{"type":"` + m.one("integer", "number") + `"` + m.sometimes(`"minimum":%d`, m.rng.IntN(200)-100) + m.sometimes(`"exclusiveMaximum":%d`, m.rng.IntN(300)) + m.sometimes(`"multipleOf":%d`, 1+m.rng.IntN(12)) + "}"
	case 6:
		return fmt.Sprintf(`{"%s":[%s,%s]}`, m.one("anyOf", "oneOf", "allOf"), m.schema(deep), m.schema(deep))
	case 7: // values that are excluded by value, bound, length, pattern or member
		return `{"type":` + m.one(`["integer","string"]`, `["number","null"]`, `"string"`, `["object","boolean"]`, `"array"`) + m.sometimes(`"items":{"enum":[1,2,"x"]}`) +
			m.sometimes(`"properties":{"a":%s,"b":{"enum":[1,2,null]}}`, m.schema(deep)) + `,"not":` + m.opposed(deep) + "}"
	case 8:
		return fmt.Sprintf(`{"oneOf":[%s,%s,%s]}`, m.opposed(deep), m.opposed(deep), m.schema(deep))
	case 9:
		return `{"type":"object","properties":{"a":{"enum":[1,2,"x"]},"b":` + m.schema(deep) + `,"c":true},"if":` + m.opposed(deep) + `,"then":` + m.opposed(deep) + m.sometimes(`"else":%s`, m.opposed(deep)) + "}"
	case 10:
		return `{"type":"array","items":{"enum":[1,2,3]},"contains":{"` + m.one("minimum", "maximum", "const") + `":2}` + m.sometimes(`"minContains":%d`, n) + m.sometimes(`"maxContains":%d`, m.rng.IntN(4)) + m.sometimes(`"maxItems":%d`, 4) + "}"
	default:
		return fmt.Sprintf(`{"type":["%s","%s"],"%s":%s}`, m.one("object", "string"), m.one("array", "null"), m.one("not", "additionalProperties", "items", "if"), m.schema(deep))
	}
}

// opposed returns a schema to exclude.
func (m maker) opposed(deep int) string {
	switch m.rng.IntN(9) {
	case 0:
		return fmt.Sprintf(`{"enum":[%s,%s]}`, m.one("1", "2.5", `"a"`, "null", "true"), m.one("1.0", `"x"`, "false", "-3"))
	case 1:
		return fmt.Sprintf(`{"%s":%d}`, m.one("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), m.rng.IntN(5)-2)
	case 2:
		return fmt.Sprintf(`{"%s":%d}`, m.one("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), m.rng.IntN(3))
	case 3:
		return fmt.Sprintf(`{"pattern":"%s"}`, m.one("^a", "b$", "^.{2}$", "\\\\w", "\\\\S", "\\\\d$"))
	case 4:
		return fmt.Sprintf(`{"required":["%s"]%s}`, m.one("a", "b"), m.sometimes(`"properties":{"a":%s}`, m.one(`{"const":1}`, `{"type":"integer"}`, `true`)))
	case 5:
		return fmt.Sprintf(`{"properties":{"%s":%s}}`, m.one("a", "b"), m.one(`{"const":1}`, `{"minimum":2}`, `{"type":"string"}`))
	case 6:
		return fmt.Sprintf(`{"items":%s}`, m.one(`{"const":1}`, `{"type":"integer"}`, `false`))
	case 7:
		return fmt.Sprintf(`{"%s":[%s,%s]}`, m.one("anyOf", "allOf", "oneOf"), m.opposed(deep), m.opposed(deep))
	}
	return fmt.Sprintf(`{"type":"%s"}`, m.one("integer", "number", "string", "null", "object", "array"))
}

// At the depth limit only endless names are started: otherwise a used one could
// not be completed.
func TestDepthOfKeys(t *testing.T) {
	tok := bytesOnly(t)
	vocab := grammar.Read(tok)
	for _, s := range []string{
		`{"type":"object","patternProperties":{"^a$":{"type":"integer"}},"additionalProperties":{"type":"object","maxProperties":1},"minProperties":2}`,
		`{"type":"object","patternProperties":{"^a.?$":{"type":"integer"}},"additionalProperties":{"type":"object","minProperties":1},"minProperties":3}`,
		`{"type":"object","patternProperties":{"^a*$":{"type":"integer"}},"additionalProperties":{"type":"array"},"minProperties":3}`,
		`{"type":"object","patternProperties":{"^a$|^b+$":{"type":"integer"}},"additionalProperties":{"type":"array"},"minProperties":3}`,
	} {
		for depth := 1; depth <= 3; depth++ {
			g, err := grammar.New([]byte(s), grammar.Options{Depth: depth})
			if err != nil {
				continue
			}
			m := over(t, g, vocab)
			for seed := range uint64(30) {
				rng, text := rand.New(rand.NewPCG(seed, 1)), ""
				for at, n := m.Start(), 0; n < 300 && !m.Done(at); n++ {
					mask := m.Mask(at)
					id := pick(mask, rng)
					for _, want := range []string{"a", "b", `"`, "}"} {
						if w := tok.ID(want); mask.Has(w) && rng.IntN(2) == 0 {
							id = w
						}
					}
					var ok bool
					if at, ok = m.Next(at, id); !ok {
						t.Fatalf("%s at depth %d: %d tokens may follow %s; one of them cannot", s, depth, mask.Count(), text)
					}
					text += tok.Piece(id)
				}
			}
		}
	}
}

// Generated schemas at tight depths are refused or give texts that satisfy
// them, without dead ends. MM_GRAMMAR is the number of schemas, with two texts
// each.
func TestMadeUp(t *testing.T) {
	n := 60
	if s := os.Getenv("MM_GRAMMAR"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	tok := bytesOnly(t, `{"`, `":`, `",`, `"a":`, `"b"`, `a"`, `"}`, "12", `":{"a":`, `""`)
	vocab := grammar.Read(tok)
	judge := newJudge(t)
	refused, empty, texts, cut := 0, 0, 0, 0
	for i := range n {
		m := maker{rand.New(rand.NewPCG(11, uint64(i)))}
		data := m.schema(3)
		g, err := grammar.New([]byte(data), grammar.Options{Depth: 1 + i%4, Space: schema.Space(i % 3)})
		if err != nil {
			if refused++; strings.Contains(err.Error(), "no text") {
				empty++
			}
			continue
		}
		valid, err := jsonschema.CompileString("schema.json", data)
		if err != nil {
			t.Fatalf("mm takes %s, validator: %v", data, err)
		}
		masks := over(t, g, vocab)
		for range 2 {
			text, complete := decode(t, masks, tok, m.rng, 400)
			if texts++; !complete {
				cut++
				continue
			}
			if err := valid.Validate(value(t, text)); err != nil {
				t.Errorf("%s gives %.300s: %v", data, text, err)
			}
			judge.add(named{fmt.Sprint("generated ", i), json.RawMessage(data)}, text)
		}
		if t.Failed() {
			t.Fatalf("by %s", data)
		}
	}
	t.Logf("%d schemas, %d refused, %d of them for want of a text at the depth; %d texts, %d of them cut; no dead end", n, refused, empty, texts, cut)
	if texts < n/2 {
		t.Errorf("%d of %d schemas are refused", refused, n)
	}
	judge.check()
}
