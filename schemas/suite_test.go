package schemas

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Every verdict on the JSON-Schema-Test-Suite (MM_GRAMMAR_SUITE is its folder tests) is
// right; a schema may be refused.
func TestSuite(t *testing.T) {
	root := os.Getenv("MM_GRAMMAR_SUITE")
	if root == "" {
		t.Skip("skipped: MM_GRAMMAR_SUITE names no suite")
	}
	for draft, name := range map[string]string{
		"draft2020-12": "https://json-schema.org/draft/2020-12/schema", "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
		"draft7": "http://json-schema.org/draft-07/schema#", "draft6": "http://json-schema.org/draft-06/schema#", "draft4": "http://json-schema.org/draft-04/schema#",
	} {
		files, err := filepath.Glob(filepath.Join(root, draft, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no suite in %s", root)
		}
		refused, right := 0, 0
		reasons := map[string]int{}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			groups, err := decode(data)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range groups.([]any) {
				group := g.(map[string]any)
				if m, ok := group["schema"].(map[string]any); ok && m["$schema"] == nil {
					m["$schema"] = name
				}
				shape, err := ReadShape(group["schema"], ShapeOptions{})
				if err != nil {
					refused++
					reasons[filepath.Base(file)]++
					continue
				}
				for _, one := range group["tests"].([]any) {
					test := one.(map[string]any)
					err := shape.Check(test["data"])
					if (err == nil) != test["valid"].(bool) {
						t.Errorf("%s %s: %s: %s: got %v", draft, filepath.Base(file), group["description"], test["description"], err)
					}
					right++
				}
			}
		}
		t.Logf("%s: %d verdicts, %d schemas refused %v", draft, right, refused, reasons)
	}
}

// The formats accept and refuse what another validator does.
func TestStandardForms(t *testing.T) {
	texts := strings.Split("|2024-02-29|2023-02-29|2024-13-01|10:00:00Z|10:00:00.5+01:30|23:59:60Z|22:59:60-01:00|22:59:60Z|24:00:00Z|2024-01-01T10:00:00Z|2024-01-01t10:00:00z|2024-01-01 10:00:00Z|"+
		"P1Y2M3DT4H5M6S|P1W|PT36H|P|PT|P1H|1Y|a@b.c|a@b|a.b@c-d.example|@b.c|a b@c.d|a@-b.c|example.org|a_b|-a|a..b|x.y.|127.0.0.1|127.0.0.256|1.2.3|01.2.3.4|::1|fe80::1%eth0|1::2::3|12345::|"+
		"https://example.org/a?b#c|mailto:a@b|//x/y|/a b|\\\\x|urn:a:b|ab|123e4567-e89b-12d3-a456-426614174000|123e4567e89b12d3a456426614174000|/a/~0b|/~2|a|[a-z]+|[|(?=a)", "|")
	for _, format := range []string{"date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "uuid", "json-pointer", "regex"} {
		accepted := 0
		for _, text := range texts {
			want := jsonschema.Formats[format](text)
			if format == "uri-reference" && strings.Contains(text, " ") {
				want = false // by RFC 3986, which the other validator does not follow
			}
			if got := standardForm(format)(text) == nil; got != want {
				t.Errorf("%s %q: got %v, want %v", format, text, got, want)
			} else if got {
				accepted++
			}
		}
		if accepted == 0 || accepted == len(texts) {
			t.Errorf("%s accepts %d of %d texts", format, accepted, len(texts))
		}
	}
	if standardForm("color") != nil {
		t.Error("an unknown format is checked")
	}
}
