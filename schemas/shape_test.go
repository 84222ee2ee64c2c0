package schemas

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShape(t *testing.T) {
	s, err := NewShape([]byte(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"array","items":{"type":"string"}}},"required":["a"],"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"a":1}`:                    "",
		`{"a":12345678901234567890}`: "",
		`{"a":1.5,"b":["x",2]}`:      "a: expected integer|b[1]: expected string",
		`{"b":[],"c":null}`:          "missing properties: 'a'|additionalProperties 'c' not allowed",
		`[]`:                         "expected object",
	} {
		v, err := ReadValue([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		err = s.Check(v)
		if (err == nil) != (want == "") {
			t.Errorf("%s: %v", text, err)
		}
		for _, part := range strings.Split(want, "|") {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, wanted %q", text, err, part)
			}
		}
	}
	for _, bad := range []string{`{`, `{"type":"nothing"}`, `{"$ref":"file:///etc/passwd"}`, `{"$ref":"http://example.org/a"}`} {
		if _, err := NewShape([]byte(bad)); err == nil {
			t.Errorf("%s accepted", bad)
		}
	}
}

func TestReadValue(t *testing.T) {
	v, err := ReadValue([]byte(` {"a":[1.50,{"b":null}],"c":"x"} ` + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]any{"a": []any{json.Number("1.50"), map[string]any{"b": nil}}, "c": "x"}, v); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{"", "{", "1 2", "{}x", `{"a":1,"a":2}`, strings.Repeat("[", 100000), strings.Repeat("[", 70) + strings.Repeat("]", 70), "nul", `{"a"}`} {
		if v, err := ReadValue([]byte(bad)); err == nil {
			t.Errorf("%.20q decoded as %v", bad, v)
		}
	}
}

func FuzzReadValue(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.5e3,"x",{"b":null}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ReadValue(data)
		if err == nil && !json.Valid(data) {
			t.Fatalf("%q decoded as %v", data, v)
		}
	})
}

// No schema and no value panics.
func FuzzShape(f *testing.F) {
	f.Add([]byte(`{"$schema":"http://json-schema.org/draft-0","type":"string","$ref":"#/$defs/a","$defs":{"a":{"$id":"x","$anchor":"b"}}}`), []byte(`[1.0,{"a":null}]`))
	f.Add([]byte(`{"unevaluatedProperties":false,"oneOf":[{"properties":{"a":{"multipleOf":0.1}}},true]}`), []byte(`{"a":1e400}`))
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		s, err := NewShape(schema)
		if err != nil {
			return
		}
		if v, err := ReadValue(value); err == nil {
			s.Check(v)
		}
	})
}
