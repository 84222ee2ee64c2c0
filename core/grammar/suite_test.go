package grammar_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/grammar/schema"
)

// Every schema of the JSON-Schema-Test-Suite (MM_GRAMMAR_SUITE is its folder
// tests) is refused or gives only texts that satisfy it, and its grammar
// excludes the suite's invalid instances.
func TestSuite(t *testing.T) {
	root := os.Getenv("MM_GRAMMAR_SUITE")
	if root == "" {
		t.Skip("skipped: MM_GRAMMAR_SUITE names no suite")
	}
	const texts = 4
	tok := trained(t, 300)
	vocab := grammar.Read(tok)
	judge := newJudge(t)
	for _, draft := range []string{"draft2020-12", "draft2019-09", "draft7", "draft6"} {
		files, err := filepath.Glob(filepath.Join(root, draft, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no suite in %s", root)
		}
		n, refused, reasons, good, accepted := 0, 0, map[string]int{}, 0, 0
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var groups []struct {
				Description string
				Schema      json.RawMessage
				Tests       []struct {
					Data  json.RawMessage
					Valid bool
				}
			}
			if err := json.Unmarshal(data, &groups); err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				n++
				var keys map[string]json.RawMessage
				if json.Unmarshal(g.Schema, &keys) == nil && keys["$schema"] == nil && draft[5] != '2' {
					keys["$schema"] = json.RawMessage(`"http://json-schema.org/draft-0` + draft[5:] + `/schema#"`)
					g.Schema, _ = json.Marshal(keys)
				}
				name := draft + " " + filepath.Base(file) + ": " + g.Description
				compiled, err := grammar.New(g.Schema, grammar.Options{Depth: 3})
				if err != nil {
					refused++
					var e *schema.Error
					if !errors.As(err, &e) {
						reasons["no JSON Schema"]++
						continue
					}
					reasons[reason(e)]++
					continue
				}
				c := jsonschema.NewCompiler()
				c.Draft = map[string]*jsonschema.Draft{"draft2020-12": jsonschema.Draft2020, "draft2019-09": jsonschema.Draft2019, "draft7": jsonschema.Draft7, "draft6": jsonschema.Draft6}[draft]
				for _, name := range []string{"regex", "uri-template", "relative-json-pointer"} {
					c.Formats[name] = func(any) bool { return true } // annotations, which older dialects may check
				}
				if err := c.AddResource("s.json", strings.NewReader(string(g.Schema))); err != nil {
					t.Fatal(err)
				}
				valid, err := c.Compile("s.json")
				if err != nil {
					t.Errorf("%s: mm takes %s, validator: %v", name, g.Schema, err)
					continue
				}
				m, err := compiled.Over(vocab)
				if err != nil {
					t.Fatal(err)
				}
				rng := rand.New(rand.NewPCG(uint64(n), 1))
				for range texts {
					text, complete := decode(t, m, tok, rng, 3000)
					if !complete {
						continue
					}
					if err := valid.Validate(value(t, text)); err != nil {
						t.Errorf("%s: %s gives %.300s: %v", name, g.Schema, text, err)
					}
					good++
					judge.add(named{name, g.Schema}, text)
				}
				for _, c := range g.Tests {
					if text := compact(t, c.Data); compiled.Holds(text) {
						if accepted++; !c.Valid {
							t.Errorf("%s: %s is in the grammar of %s", name, text, g.Schema)
						}
					}
				}
			}
		}
		t.Logf("%s: of %d schemas %d refused %v; %d gave %d texts, all valid; %d of the suite's instances in their grammars, none of them invalid",
			draft, n, refused, reasons, n-refused, good, accepted)
	}
	judge.check()
}

// reason returns the first fault of a refusal.
func reason(e *schema.Error) string {
	f := e.Faults[0]
	if i := strings.LastIndexByte(f.Pointer, '/'); i >= 0 && strings.Contains(f.Problem, "keyword") {
		return f.Pointer[i+1:]
	}
	if len(f.Problem) > 24 {
		return f.Problem[:24] + "…"
	}
	return f.Problem
}

func value(t *testing.T, text string) any {
	t.Helper()
	var plain, v any
	if err := json.Unmarshal([]byte(text), &plain); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

func compact(t *testing.T, data []byte) string {
	t.Helper()
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(json.RawMessage(data)); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}
