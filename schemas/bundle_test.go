package schemas_test

import (
	"encoding/json"
	"strings"
	"testing"

	"mm-abi.org/mm/schemas"
)

// Each schema is one document that resolves without other files, and judges as the files do.
func TestBundle(t *testing.T) {
	for _, kind := range schemas.Kinds() {
		data, err := schemas.Bundle(kind)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if _, err := schemas.NewShape(data); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		again, _ := schemas.Bundle(kind)
		if string(again) != string(data) || data[len(data)-1] != '\n' {
			t.Errorf("%s: not deterministic", kind)
		}
		var doc map[string]any
		if err := json.Unmarshal(data, &doc); err != nil || !strings.HasSuffix(doc["$id"].(string), "/"+string(kind)+".schema.json") {
			t.Errorf("%s: $id %v, %v", kind, doc["$id"], err)
		}
	}
	data, err := schemas.Bundle(schemas.Graph)
	if err != nil {
		t.Fatal(err)
	}
	shape, err := schemas.NewShape(data)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`{"core": {"llm": {"ref": "a@1.0.0"}}}`:                                           true,
		`{"core": {"llm": {"ref": "a@1.0.0"}}, "modalities": [{"enc": {"ref": "e@^1"}}]}`: true,
		`{"core": {"llm": {"ref": 3}}}`:                                                   false,
		`{"core": {"llm": {"ref": "a@1.0.0"}}, "cores": 1}`:                               false,
	} {
		v, err := schemas.ReadValue([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := shape.Check(v); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := schemas.Bundle("nothing"); err == nil {
		t.Error("an unknown kind")
	}
}
