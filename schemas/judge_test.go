package schemas

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v5"
)

var kinds = []Kind{Module, Graph, Lock, Config, Trust, Request, Train, Stage, Plan, Decoding, Preference, Suite, Budgets, Dataset, Study, Jobs}

// judges are the embedded schemas as compiled by another validator.
func judges(t *testing.T) map[Kind]*jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.AssertFormat = true
	c.LoadURL = func(url string) (io.ReadCloser, error) {
		name, ok := strings.CutPrefix(url, published)
		if !ok {
			return nil, fmt.Errorf("unknown schema %s", url)
		}
		return files.Open(name)
	}
	for name, f := range formats {
		c.Formats[name] = func(v any) bool {
			s, ok := v.(string)
			return !ok || f.check(s) == nil
		}
	}
	out := map[Kind]*jsonschema.Schema{}
	for _, kind := range kinds {
		s, err := c.Compile(published + string(kind) + ".schema.json")
		if err != nil {
			t.Fatal(err)
		}
		out[kind] = s
	}
	return out
}

// leaves are the faults that the judge finds: the values' places and the keywords, with
// the members that they name.
func leaves(err error) (out []string) {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return nil
	}
	if len(v.Causes) > 0 {
		for _, c := range v.Causes {
			out = append(out, leaves(c)...)
		}
		return out
	}
	keyword := path.Base(v.KeywordLocation)
	if strings.Contains(v.KeywordLocation, "/dependentRequired/") {
		keyword = "dependentRequired"
	}
	if v.Message == "not allowed" {
		keyword = ""
	}
	return []string{v.InstanceLocation + " " + keyword + " " + words(keyword, v.Message)}
}

// words are the words of a message in order, since members come in any order. The values of
// an enum are formatted differently.
func words(keyword, message string) string {
	if keyword == "enum" || keyword == "const" || keyword == "multipleOf" {
		return ""
	}
	list := strings.FieldsFunc(message, func(r rune) bool { return r == ' ' || r == ',' })
	slices.Sort(list)
	return strings.Join(list, " ")
}

func mine(faults []fault) (out []string) {
	for _, f := range faults {
		out = append(out, f.at+" "+f.keyword+" "+words(f.keyword, f.message))
	}
	return out
}

// documents are the YAML files of the repository, as values.
func documents(t *testing.T) (out []any) {
	t.Helper()
	err := filepath.WalkDir("..", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && name != ".." && strings.HasPrefix(e.Name(), ".") {
			return filepath.SkipDir
		}
		if e.IsDir() || filepath.Ext(name) != ".yaml" {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if d, _ := Parse(name, data); d != nil && len(data) < 1<<16 {
			out = append(out, d.value)
		}
		return nil
	})
	if err != nil || len(out) < 40 {
		t.Fatalf("%d documents, %v", len(out), err)
	}
	return out
}

// mutant returns a copy of a value with a few changes; pool are the values that may replace
// others.
func mutant(v any, pool []any, rng *rand.Rand) any {
	if rng.IntN(24) == 0 {
		return pool[rng.IntN(len(pool))]
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, name := range sortedKeys(v) {
			switch rng.IntN(40) {
			case 0:
			case 1:
				out[name+"x"] = v[name]
			default:
				out[name] = mutant(v[name], pool, rng)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, item := range v {
			out = append(out, mutant(item, pool, rng))
			if rng.IntN(16) == 0 {
				out = append(out, out[len(out)-1])
			}
		}
		return out
	}
	return v
}

// parts adds the values in a value.
func parts(v any, to []any) []any {
	to = append(to, v)
	switch v := v.(type) {
	case map[string]any:
		for _, name := range sortedKeys(v) {
			to = parts(v[name], to)
		}
	case []any:
		for _, item := range v {
			to = parts(item, to)
		}
	}
	return to
}

// Another validator finds the same faults in all the repository's documents and in mutants
// of them, under each schema.
func TestJudge(t *testing.T) {
	judge := judges(t)
	docs := documents(t)
	pool := []any{nil, true, int64(0), int64(-1), int64(1 << 40), 0.5, 1e300, "", "x", "A b", "1.0", []any{}, map[string]any{}}
	for _, d := range docs {
		pool = parts(d, pool)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	checked, faulty := 0, 0
	compare := func(v any) {
		for _, kind := range kinds {
			got, want := mine(compiled(kind).validate(v)), leaves(judge[kind].Validate(v))
			slices.Sort(got)
			slices.Sort(want)
			checked++
			if len(want) > 0 {
				faulty++
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("%s: %v (-want +got):\n%s", kind, v, d)
			}
		}
	}
	for i, d := range docs {
		compare(d)
		for range 6 {
			if !testing.Short() || i%8 == 0 {
				compare(mutant(d, pool, rng))
			}
		}
	}
	t.Logf("%d documents under %d schemas: %d judgments, %d of them with faults", len(docs), len(kinds), checked, faulty)
	if checked-faulty < 20 {
		t.Error("too few valid documents")
	}
}

// All references of the embedded schemas resolve, and each of their keywords is one that
// the evaluator reads or an annotation without effect.
func TestOwnKeywords(t *testing.T) {
	read := map[string]bool{}
	for _, key := range strings.Fields(`$id $ref $schema title description type enum const format pattern properties required
		additionalProperties propertyNames items allOf anyOf oneOf not if then else uniqueItems dependentRequired $defs
		minimum maximum exclusiveMinimum exclusiveMaximum minLength maxLength minItems maxItems minProperties maxProperties contentEncoding`) {
		read[key] = true
	}
	own := ownCompiler()
	own.eager = true
	names, err := fs.Glob(files, "*.schema.json")
	if err != nil || len(names) < 15 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if _, err := own.resolve(place{base: named(&url.URL{})}, published+name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, root := range own.roots {
		err := eachSchema(root, func(m map[string]any) error {
			for key := range m {
				if !read[key] {
					t.Errorf("%s: unknown keyword %s", name, key)
				}
			}
			if f, ok := m["format"].(string); ok && formats[f].check == nil {
				t.Errorf("%s: unknown format %s", name, f)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// A schema whose references double at each level is refused by the number of steps, not
// followed for ever.
func TestMaxSteps(t *testing.T) {
	schema := func(levels int) string {
		var b strings.Builder
		b.WriteString(`{"$ref":"#/$defs/0","$defs":{`)
		for i := range levels {
			fmt.Fprintf(&b, `"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%d"}]},`, i, i+1, i+1)
		}
		fmt.Fprintf(&b, `"%d":{"type":"string"}}}`, levels)
		return b.String()
	}
	// Each level is one schema more than twice the next, with its references.
	for levels, want := range map[int]string{16: "", 40: fmt.Sprintf("more than %d schemas", maxSteps)} {
		s, err := NewShape([]byte(schema(levels)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Check("x"); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d levels: got %v, want %q", levels, err, want)
		}
	}
}

// Numbers are compared up to a limit of their exponent: beyond it a fraction would fill
// the memory.
func TestMaxExponent(t *testing.T) {
	s, err := NewShape([]byte(`{"minimum":0}`))
	if err != nil {
		t.Fatal(err)
	}
	for e, want := range map[int]bool{maxExponent: true, maxExponent + 1: false, 1000000000: false} {
		v, err := ReadValue([]byte(fmt.Sprintf("1e%d", e)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Check(v); (err == nil) != want {
			t.Errorf("exponent %d: got %v", e, err)
		}
	}
	if _, err := NewShape([]byte(`{"minimum":1e1000000000}`)); err == nil {
		t.Error("a bound beyond the limit is accepted")
	}
}
