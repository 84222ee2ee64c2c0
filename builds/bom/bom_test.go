package bom

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
)

var update = flag.Bool("update", false, "write the golden files")

// digest returns a digest whose hex digits are all c.
func digest(c string) string { return "sha256:" + strings.Repeat(c, 64) }

// chat is a build with a core, an adapter and a skill.
func chat() Artifact {
	return Artifact{
		Name: "chat", Version: "1.2.0", Digest: digest("a"), Description: "A build.", License: "Apache-2.0 AND MIT",
		Modules: []Module{
			{Name: "core", Version: "1.0.0", Digest: digest("b"), Type: abi.Core, License: "Apache-2.0", Quant: "int8", Files: []File{{"core/core.gguf", digest("c"), "gguf"}}},
			{Name: "style", Version: "1.1.0", Digest: digest("d"), Type: abi.Adapter, License: "my own terms", DependsOn: []string{"core", "absent"}, Inputs: []string{"x [1] fp32"}},
			{Name: "calc", Version: "0.1.0", Digest: digest("e"), Type: abi.Skill},
		},
		Files: []File{{"assembly.json", digest("f"), "json"}},
	}
}

// A bill of version 1.7 differs from one of 1.6 in the version alone.
func TestCycloneDXNewest(t *testing.T) {
	opt := options()
	old, err := CycloneDX(chat(), opt)
	if err != nil {
		t.Fatal(err)
	}
	opt.Newest = true
	got, err := CycloneDX(chat(), opt)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer("bom-1.6.schema", "bom-1.7.schema", `"specVersion": "1.6"`, `"specVersion": "1.7"`).Replace(string(old))
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func options() Options { return Options{Time: time.Unix(1_700_000_000, 0), Version: "1.0.0"} }

// The bills of a build and of a module have fixed bytes, and pass Check.
func TestCycloneDX(t *testing.T) {
	module := chat()
	module.Modules, module.Files = module.Modules[:1], nil
	module.Name, module.Version, module.Digest = "core", "1.0.0", digest("b")
	for name, a := range map[string]Artifact{"build": chat(), "module": module} {
		t.Run(name, func(t *testing.T) {
			got, err := CycloneDX(a, options())
			if err != nil {
				t.Fatal(err)
			}
			file := "testdata/" + name + ".json"
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

// Figures of a build are in the model card of its root, which is a model then.
func TestCycloneDXMetrics(t *testing.T) {
	a := chat()
	a.Metrics = []Metric{{Type: "acc,none", Value: "0.25", Slice: "choose, 1-shot", Low: "0.05", High: "0.7"}}
	data, err := CycloneDX(a, options())
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Metadata struct {
			Component struct {
				Type      string `json:"type"`
				ModelCard struct {
					QuantitativeAnalysis json.RawMessage `json:"quantitativeAnalysis"`
				} `json:"modelCard"`
			} `json:"component"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := json.Compact(&got, doc.Metadata.Component.ModelCard.QuantitativeAnalysis); err != nil {
		t.Fatal(err)
	}
	want := `{"performanceMetrics":[{"type":"acc,none","value":"0.25","slice":"choose, 1-shot","confidenceInterval":{"lowerBound":"0.05","upperBound":"0.7"}}]}`
	if doc.Metadata.Component.Type != "machine-learning-model" || got.String() != want {
		t.Errorf("got %s %s, want %s", doc.Metadata.Component.Type, got.String(), want)
	}
}

func TestCycloneDXModuleWithoutVersion(t *testing.T) {
	a := chat()
	a.Modules[0].Version = ""
	if _, err := CycloneDX(a, options()); err == nil {
		t.Error("a module without a version was written")
	}
}

// energy returns the considerations of a model card with the units.
func energy(provided, cost, carbon string) any {
	type object = map[string]any
	one := object{"activity": "training", "activityEnergyCost": object{"value": 1, "unit": cost}, "co2CostEquivalent": object{"value": 1, "unit": carbon}}
	one["energyProviders"] = []any{object{"organization": object{"name": "x"}, "energySource": "wind", "energyProvided": object{"value": 1, "unit": provided}}}
	return object{"environmentalConsiderations": object{"energyConsumptions": []any{one}}}
}

// Faults that the schema of the format accepts, and faults that it does not, are refused.
func TestCheck(t *testing.T) {
	type object = map[string]any
	component := func(doc object, i int) object { return doc["components"].([]any)[i].(object) }
	for _, c := range []struct {
		name, want string
		change     func(doc object)
	}{
		{"good", "", func(object) {}},
		{"format", "bomFormat", func(d object) { d["bomFormat"] = "SPDX" }},
		{"serial number", "serialNumber", func(d object) { delete(d, "serialNumber") }},
		{"serial form", "serialNumber", func(d object) { d["serialNumber"] = "urn:uuid:1234" }},
		{"serial upper case", "serialNumber", func(d object) { d["serialNumber"] = "urn:uuid:6BA7B811-9DAD-11D1-80B4-00C04FD430C8" }},
		{"serial dashes", "serialNumber", func(d object) { d["serialNumber"] = "urn:uuid:6ba7b811-9dad-11d180b4--00c04fd430c8" }},
		{"other serial", "", func(d object) { d["serialNumber"] = "urn:uuid:6ba7b811-9dad-11d1-80b4-00c04fd430c8" }},
		{"no version of the format", "specVersion", func(d object) { delete(d, "specVersion") }},
		{"later version of the format", "specVersion", func(d object) { d["specVersion"] = "2.0" }},
		{"version 1.1", "specVersion", func(d object) { d["specVersion"] = "1.1" }},
		{"version 1.2", "", func(d object) { d["specVersion"] = "1.2" }},
		{"no version", "", func(d object) { delete(d, "version") }},
		{"version 1.5", "", func(d object) { d["specVersion"] = "1.5" }},
		{"version 1.7", "", func(d object) { d["specVersion"] = "1.7" }},
		{"version", "version: got 0", func(d object) { d["version"] = 0 }},
		{"time", "timestamp", func(d object) { d["metadata"].(object)["timestamp"] = "today" }},
		{"subject", "about another artifact", func(d object) {
			d["metadata"].(object)["component"].(object)["hashes"].([]any)[0].(object)["content"] = strings.Repeat("9", 64)
		}},
		{"no subject", "metadata.component: missing", func(d object) { delete(d["metadata"].(object), "component") }},
		{"no components", "components: none", func(d object) { d["components"] = []any{}; delete(d, "dependencies") }},
		{"dependency", `reference to "absent@1"`, func(d object) { d["dependencies"].([]any)[0].(object)["dependsOn"] = []any{"absent@1"} }},
		{"dependent", `reference to "absent@1"`, func(d object) { d["dependencies"].([]any)[0].(object)["ref"] = "absent@1" }},
		{"duplicate", "duplicate bom-ref", func(d object) { component(d, 1)["bom-ref"] = "core@1.0.0" }},
		{"name", ".name: missing", func(d object) { component(d, 0)["name"] = "" }},
		{"type", ".type: missing", func(d object) { component(d, 0)["type"] = "" }},
		{"short hash", "invalid SHA-256 hash", func(d object) { component(d, 0)["hashes"].([]any)[0].(object)["content"] = "ab" }},
		{"algorithm", "invalid CRC hash", func(d object) { component(d, 0)["hashes"].([]any)[0].(object)["alg"] = "CRC" }},
		{"no hash", "without a hash", func(d object) { delete(component(d, 0), "hashes") }},
		{"expression", "invalid license", func(d object) { component(d, 0)["licenses"] = []any{object{"expression": "Apache-2.0 AND"}} }},
		{"license id", "invalid license", func(d object) { component(d, 0)["licenses"] = []any{object{"license": object{"id": "Apache 2"}}} }},
		{"reference as id", "license without", func(d object) {
			component(d, 0)["licenses"] = []any{object{"license": object{"id": "LicenseRef-x"}}}
		}},
		{"card on a library", "model card on a component", func(d object) { component(d, 0)["type"] = "library" }},
		{"dataset", `reference to "data"`, func(d object) {
			component(d, 0)["modelCard"].(object)["modelParameters"].(object)["datasets"] = []any{object{"ref": "data"}}
		}},
		{"expression with others", "2 licenses, one of them an expression", func(d object) {
			component(d, 0)["licenses"] = []any{object{"license": object{"id": "MIT"}}, object{"expression": "MIT"}}
		}},
		{"expression with others in 1.7", "", func(d object) {
			d["specVersion"] = "1.7"
			component(d, 0)["licenses"] = []any{object{"license": object{"id": "MIT"}}, object{"expression": "MIT"}}
		}},
		{"unknown license", "unknown SPDX license identifier", func(d object) { component(d, 0)["licenses"] = []any{object{"license": object{"id": "Nope-1.0"}}} }},
		{"unknown key", `unknown field "colour"`, func(d object) { component(d, 0)["colour"] = "red" }},
		{"unknown key of a card", `unknown field "colour"`, func(d object) { component(d, 0)["modelCard"].(object)["colour"] = "red" }},
		{"sensitive data", "sensitiveData", func(d object) { component(d, 0)["data"] = []any{object{"type": "dataset", "sensitiveData": "x"}} }},
		{"approach", `approach: got "magic"`, func(d object) {
			component(d, 0)["modelCard"].(object)["modelParameters"].(object)["approach"] = object{"type": "magic"}
		}},
		{"known approach", "", func(d object) {
			component(d, 0)["modelCard"].(object)["modelParameters"].(object)["approach"] = object{"type": "self-supervised"}
		}},
		{"energy", "", func(d object) {
			component(d, 0)["modelCard"].(object)["considerations"] = energy("kWh", "kWh", "tCO2eq")
		}},
		{"unit of a provider", `energy: got the unit "Wh"`, func(d object) {
			component(d, 0)["modelCard"].(object)["considerations"] = energy("Wh", "kWh", "tCO2eq")
		}},
		{"unit of a cost", `energy: got the unit "J"`, func(d object) {
			component(d, 0)["modelCard"].(object)["considerations"] = energy("kWh", "J", "tCO2eq")
		}},
		{"unit of CO2", `CO2: got the unit "kg"`, func(d object) {
			component(d, 0)["modelCard"].(object)["considerations"] = energy("kWh", "kWh", "kg")
		}},
		{"energy in 1.5", "environmentalConsiderations in version 1.5", func(d object) {
			d["specVersion"] = "1.5"
			component(d, 0)["modelCard"].(object)["considerations"] = energy("kWh", "kWh", "tCO2eq")
		}},
		{"number as a metric", "of type string", func(d object) {
			component(d, 0)["modelCard"].(object)["quantitativeAnalysis"] = object{"performanceMetrics": []any{object{"type": "accuracy", "value": 0.5}}}
		}},
		{"no metrics", "without metrics", func(d object) {
			component(d, 0)["modelCard"].(object)["quantitativeAnalysis"] = object{"performanceMetrics": []any{}}
		}},
		{"metric", "metric without", func(d object) {
			component(d, 0)["modelCard"].(object)["quantitativeAnalysis"] = object{"performanceMetrics": []any{object{"type": "accuracy"}}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			data, err := CycloneDX(chat(), options())
			if err != nil {
				t.Fatal(err)
			}
			var doc object
			if err := json.Unmarshal(data, &doc); err != nil {
				t.Fatal(err)
			}
			c.change(doc)
			if data, err = json.Marshal(doc); err != nil {
				t.Fatal(err)
			}
			err = Check(data, digest("a"))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestCheckLimits(t *testing.T) {
	data, err := CycloneDX(chat(), options())
	if err != nil {
		t.Fatal(err)
	}
	pad := func(n int) []byte { return append(bytes.Clone(data), bytes.Repeat([]byte(" "), n-len(data))...) }
	if err := Check(pad(MaxBill), digest("a")); err != nil {
		t.Errorf("the largest bill: %v", err)
	}
	if err := Check(pad(MaxBill+1), digest("a")); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a larger bill: got %v", err)
	}
	nested := func(n int) []byte {
		one := `{"type":"data","name":"x"}`
		for i := range n {
			one = fmt.Sprintf(`{"type":"data","name":"x","bom-ref":"%d","components":[%s]}`, i, one)
		}
		return fmt.Appendf(nil, `{"bomFormat":"CycloneDX","specVersion":"1.6","serialNumber":"urn:uuid:6ba7b811-9dad-11d1-80b4-00c04fd430c8","metadata":{"timestamp":"2026-01-01T00:00:00Z","component":{"type":"data","name":"y","bom-ref":"y"}},"components":[%s]}`, one)
	}
	if err := Check(nested(maxNesting), ""); err != nil {
		t.Errorf("the deepest bill: %v", err)
	}
	if err := Check(nested(maxNesting+1), ""); err == nil || !strings.Contains(err.Error(), "nested deeper") {
		t.Errorf("a deeper bill: got %v", err)
	}
	many := func(n int) error {
		list := strings.TrimSuffix(strings.Repeat(`{"type":"data"},`, n), ",")
		return Check(fmt.Appendf(nil, `{"bomFormat":"CycloneDX","specVersion":"1.6","serialNumber":"urn:uuid:6ba7b811-9dad-11d1-80b4-00c04fd430c8","metadata":{"timestamp":"2026-01-01T00:00:00Z","component":{"type":"data","name":"y","bom-ref":"y"}},"components":[%s]}`, list), "")
	}
	for _, n := range []int{maxFaults, maxFaults + 1} {
		err := many(n)
		if err == nil || strings.Count(err.Error(), ".name: missing") != maxFaults {
			t.Errorf("%d faults: got %v", n, err)
		}
	}
}

func FuzzCheck(f *testing.F) {
	data, err := CycloneDX(chat(), options())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"bomFormat":"CycloneDX","metadata":{},"components":[{"components":[{}]}],"dependencies":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) { _ = Check(data, digest("a")); _ = CheckProvenance(data) })
}

// github is the environment of a job in GitHub Actions.
var github = map[string]string{
	"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://git.example", "GITHUB_REPOSITORY": "team/models", "GITHUB_SHA": strings.Repeat("1", 40),
	"GITHUB_REF": "refs/tags/v1", "GITHUB_WORKFLOW_REF": "team/models/.github/workflows/build.yml@refs/tags/v1", "GITHUB_RUN_ID": "7",
}

func TestProvenance(t *testing.T) {
	local, err := Provenance(chat(), "laptop", options(), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	var p provenance
	if err := json.Unmarshal(local, &p); err != nil {
		t.Fatal(err)
	}
	if p.Run.Builder.ID != LocalBuilder || len(p.Definition.Dependencies) != 3 || p.Definition.External["target"] != "laptop" {
		t.Errorf("local: got %s", local)
	}
	ci, err := Provenance(chat(), "", options(), func(name string) string { return github[name] })
	if err != nil {
		t.Fatal(err)
	}
	p = provenance{}
	if err := json.Unmarshal(ci, &p); err != nil {
		t.Fatal(err)
	}
	if want := "https://git.example/team/models/.github/workflows/build.yml@refs/tags/v1"; p.Run.Builder.ID != want {
		t.Errorf("builder: got %q, want %q", p.Run.Builder.ID, want)
	}
	if d := p.Definition.Dependencies[0]; d.URI != "git+https://git.example/team/models@refs/tags/v1" || d.Digest["gitCommit"] != github["GITHUB_SHA"] {
		t.Errorf("source: got %+v", d)
	}
	if want := "https://git.example/team/models/actions/runs/7/attempts/1"; p.Run.Metadata.Invocation != want {
		t.Errorf("invocation: got %q, want %q", p.Run.Metadata.Invocation, want)
	}
	if _, err := Provenance(chat(), "", options(), func(name string) string { return strings.TrimSuffix(github[name], github["GITHUB_SHA"]) }); err == nil || !strings.Contains(err.Error(), "GITHUB_SHA") {
		t.Errorf("a variable is missing: got %v", err)
	}
	if dir := os.Getenv("MM_PROVENANCES"); dir != "" { // for the judge of make evidence
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{"local.json": local, "ci.json": ci} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	a := chat()
	a.Modules[0].Digest = ""
	if _, err := Provenance(a, "", options(), func(string) string { return "" }); err == nil {
		t.Error("a module without a digest was written")
	}
}

func TestCheckProvenance(t *testing.T) {
	for text, want := range map[string]string{
		`{"buildDefinition":{"buildType":"https://x","externalParameters":{}},"runDetails":{"builder":{"id":"https://y"}}}`:                                                               "",
		`{"buildDefinition":{"buildType":"x","externalParameters":{}},"runDetails":{"builder":{"id":"https://y"}}}`:                                                                       "buildType",
		`{"buildDefinition":{"buildType":"https://x","externalParameters":{}},"runDetails":{}}`:                                                                                           "builder.id",
		`{"buildDefinition":{"buildType":"https://x"},"runDetails":{"builder":{"id":"https://y"}}}`:                                                                                       "externalParameters",
		`{"buildDefinition":{"buildType":"https://x","externalParameters":{},"resolvedDependencies":[{"uri":"z"}]},"runDetails":{"builder":{"id":"https://y"}}}`:                          "without a digest",
		`{"buildDefinition":{"buildType":"https://x","externalParameters":{},"resolvedDependencies":[{"uri":"z","digest":{"sha256":""}}]},"runDetails":{"builder":{"id":"https://y"}}}`:   "without a digest",
		`{"buildDefinition":{"buildType":"https://x","externalParameters":{},"resolvedDependencies":[{"uri":"z","digest":{"sha256":"ab"}}]},"runDetails":{"builder":{"id":"https://y"}}}`: "",
		`[]`: "provenance",
	} {
		err := CheckProvenance([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// A dataset is one component for all modules that name it; those of another digest are
// others. A source that is not a URL is left out.
func TestDatasets(t *testing.T) {
	a := learned()
	a.Modules[1].Datasets = []Dataset{{Name: "own"}, {Name: "own", Digest: digest("e"), Source: "a disk of ours"}}
	data, err := CycloneDX(a, options())
	if err != nil {
		t.Fatal(err)
	}
	var doc cyclonedx.BOM
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	got := map[string]cyclonedx.Component{}
	for _, c := range *doc.Components {
		if c.Type == cyclonedx.ComponentTypeData && strings.HasPrefix(c.BOMRef, "dataset/") {
			got[c.BOMRef] = c
		}
	}
	corpus := got["dataset/org/corpus@"+digest("d")]
	if len(got) != 3 || corpus.Licenses == nil || (*corpus.ExternalReferences)[0].URL != "https://example.org/corpus" || got["dataset/own@"+digest("e")].ExternalReferences != nil {
		t.Errorf("got %+v", got)
	}
	for _, c := range *doc.Components {
		if c.Name == a.Modules[0].Name {
			if refs := *c.ModelCard.ModelParameters.Datasets; len(refs) != 2 || refs[0].Ref != corpus.BOMRef || refs[1].Ref != "dataset/own" {
				t.Errorf("got %+v", refs)
			}
		}
	}
	spdx, err := SPDX3(a, options())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(spdx), "a disk of ours") || !strings.Contains(string(spdx), `"software_downloadLocation": "https://example.org/corpus"`) {
		t.Error("got another location in SPDX")
	}
}
