package bom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// learned is a build whose core names a dataset.
func learned() Artifact {
	a := chat()
	a.Modules[0].Datasets = []Dataset{{Name: "org/corpus", License: "CC-BY-4.0", Source: "https://example.org/corpus", Digest: "sha256:" + strings.Repeat("d", 64)}, {Name: "own"}}
	return a
}

// The documents of a build and of a module have fixed bytes, and pass CheckSPDX3.
func TestSPDX3(t *testing.T) {
	module := learned()
	module.Modules, module.Files = module.Modules[:1], nil
	module.Name, module.Version, module.Digest = "core", "1.0.0", digest("b")
	for name, a := range map[string]Artifact{"build": learned(), "module": module} {
		t.Run(name, func(t *testing.T) {
			got, err := SPDX3(a, options())
			if err != nil {
				t.Fatal(err)
			}
			file := "testdata/" + name + ".spdx3.json"
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Faults that the judges of the format refuse, and faults that they let pass, are refused.
func TestCheckSPDX3(t *testing.T) {
	type object = map[string]any
	for _, c := range []struct {
		name, kind, want string
		change           func(n object)
	}{
		{"good", "SpdxDocument", "", func(object) {}},
		{"unknown property", "ai_AIPackage", "unknown property", func(n object) { n["ai_color"] = "red" }},
		{"unknown class", "ai_AIPackage", "want a class of", func(n object) { n["type"] = "ai_Model" }},
		{"enumeration", "ai_AIPackage", "want one of", func(n object) { n["software_primaryPurpose"] = "weights" }},
		{"relationship", "Relationship", "want one of", func(n object) { n["relationshipType"] = "resembles" }},
		{"kind of value", "ai_AIPackage", "want text", func(n object) { n["name"] = 7 }},
		{"list", "ai_AIPackage", "want a list", func(n object) { n["ai_typeOfModel"] = "core" }},
		{"time", "CreationInfo", "want YYYY", func(n object) { n["created"] = "2026-01-01 00:00" }},
		{"dataset type", "dataset_DatasetPackage", "without dataset_datasetType", func(n object) { delete(n, "dataset_datasetType") }},
		{"dangling", "Relationship", "no such element", func(n object) { n["to"] = []any{"https://example.org/absent"} }},
		{"dangling supplier", "ai_AIPackage", "no such element", func(n object) { n["suppliedBy"] = "https://example.org/absent" }},
		{"license", "simplelicensing_LicenseExpression", "invalid license", func(n object) { n["simplelicensing_licenseExpression"] = "Apache-2.0 AND" }},
		{"short hash", "software_File", "invalid sha256 hash", func(n object) { n["verifiedUsing"].([]any)[0].(object)["hashValue"] = "ab" }},
		{"supplier", "ai_AIPackage", "without suppliedBy", func(n object) { delete(n, "suppliedBy") }},
		{"version", "ai_AIPackage", "without software_packageVersion", func(n object) { delete(n, "software_packageVersion") }},
		{"creator", "CreationInfo", "without createdBy", func(n object) { delete(n, "createdBy") }},
		{"document", "SpdxDocument", "SpdxDocument: got 0", func(n object) { n["type"] = "software_Sbom"; delete(n, "profileConformance") }},
		{"root", "SpdxDocument", "no software_Sbom", func(n object) { n["rootElement"] = n["element"].([]any)[:1] }},
		{"duplicate", "Tool", "duplicate id", func(n object) { n["spdxId"] = strings.Replace(n["spdxId"].(string), "tool", "creator", 1) }},
		{"subject", "software_Package", "about another artifact", func(n object) {
			n["verifiedUsing"].([]any)[0].(object)["hashValue"] = strings.Repeat("9", 64)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			data, err := SPDX3(learned(), options())
			if err != nil {
				t.Fatal(err)
			}
			var doc object
			if err := json.Unmarshal(data, &doc); err != nil {
				t.Fatal(err)
			}
			for _, n := range doc["@graph"].([]any) {
				if n.(object)["type"] == c.kind {
					c.change(n.(object))
					break
				}
			}
			if data, err = json.Marshal(doc); err != nil {
				t.Fatal(err)
			}
			err = CheckSPDX3(data, digest("a"))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestCheckSPDX3Document(t *testing.T) {
	data, err := SPDX3(learned(), options())
	if err != nil {
		t.Fatal(err)
	}
	old := bytes.Replace(data, []byte("rdf/3.0.1/"), []byte("rdf/3.0.0/"), 1)
	if err := CheckSPDX3(old, ""); err == nil || !strings.Contains(err.Error(), "@context") {
		t.Errorf("another context: got %v", err)
	}
	pad := func(n int) []byte { return append(bytes.Clone(data), bytes.Repeat([]byte(" "), n-len(data))...) }
	if err := CheckSPDX3(pad(MaxBill), ""); err != nil {
		t.Errorf("the largest document: %v", err)
	}
	if err := CheckSPDX3(pad(MaxBill+1), ""); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a larger document: got %v", err)
	}
	nested := func(n int) error {
		one := `{"type":"Hash","algorithm":"md5","hashValue":"` + strings.Repeat("0", 32) + `"}`
		for range n {
			one = fmt.Sprintf(`{"type":"ExternalMap","externalSpdxId":"x","verifiedUsing":[%s]}`, one)
		}
		return CheckSPDX3(fmt.Appendf(nil, `{"@context":%q,"@graph":[%s]}`, spdx3Context, one), "")
	}
	if err := nested(maxNesting); strings.Contains(err.Error(), "nested") {
		t.Errorf("the deepest document: %v", err)
	}
	if err := nested(maxNesting + 1); !strings.Contains(err.Error(), "nested deeper") {
		t.Errorf("a deeper document: %v", err)
	}
}

func FuzzCheckSPDX3(f *testing.F) {
	data, err := SPDX3(learned(), options())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"@context":"` + spdx3Context + `","@graph":[{"type":"Hash"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = CheckSPDX3(data, digest("a"))
	})
}
