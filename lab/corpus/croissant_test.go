package corpus

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
)

const digest = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"

func lineage() *Lineage {
	return &Lineage{
		Digest: "sha256:abc", Name: "set", License: "MIT AND CC0-1.0", Format: JSONL, Keys: []string{"text"}, PII: "scrub",
		Sources: []Origin{{ID: "s", SHA256: digest, License: "MIT", Counts: Counts{Rows: 3, Kept: 2}}},
		Files:   []Split{{Split: "train", File: "train.jsonl", SHA256: digest, Bytes: 12, Documents: 2}},
	}
}

// Exported metadata is read back to a valid manifest.
func TestRoundTrip(t *testing.T) {
	data, err := ExportCroissant(lineage())
	if err != nil {
		t.Fatal(err)
	}
	out, list := ImportCroissant("croissant.json", data, CroissantOptions{})
	if list.Failed() {
		t.Fatal(list.Err())
	}
	m, list := Parse("m.data.yaml", out)
	if list.Failed() {
		t.Fatal(list.Err())
	}
	if s := m.Sources[0]; m.Name != "set" || s.Path != "train.jsonl" || s.SHA256 != digest || s.Fields["text"] != "text" || s.License != "MIT AND CC0-1.0" {
		t.Errorf("%+v", m)
	}
	l := lineage()
	l.Format = "chat"
	if _, err := ExportCroissant(l); err == nil {
		t.Error("conversations are exported")
	}
}

// edit returns metadata with a part of its text replaced.
func edit(t *testing.T, old, new string) []byte {
	t.Helper()
	data, err := ExportCroissant(lineage())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		t.Fatalf("no %s in the metadata", old)
	}
	return []byte(strings.ReplaceAll(string(data), old, new))
}

func TestImportFaults(t *testing.T) {
	for _, c := range []struct {
		old, new string
		want     diag.Code
	}{
		{"croissant/1.1", "croissant/9.9", diag.BadCroissant},
		{`"MIT AND CC0-1.0"`, `"free for all"`, diag.BadCroissant},
		{`"contentUrl": "train.jsonl"`, `"contentUrl": "../train.jsonl"`, diag.BadPath},
		{`"contentUrl": "train.jsonl"`, `"contentUrl": "/etc/passwd"`, diag.BadPath},
		{`"encodingFormat": "application/jsonlines"`, `"encodingFormat": "application/zip"`, diag.CroissantPart},
		{`"sha256": "f`, `"sha256": "g`, diag.BadCroissant},
		{`"@type": "cr:FileObject"`, `"@type": "cr:FileSet"`, diag.CroissantPart},
		{`"contentSize"`, `"containedIn": {"@id": "a"}, "contentSize"`, diag.CroissantPart},
		{`"extract"`, `"transform": {"regex": "a"}, "extract"`, diag.CroissantPart},
		{`"dataType"`, `"references": {"@id": "a"}, "dataType"`, diag.CroissantPart},
		{`"column": "text"`, `"jsonPath": "$.text"`, diag.CroissantPart},
		{`"column": "text"`, `"column": "body"`, diag.CroissantPart},
		{`"fileObject": {`, `"fileObject": {"x": 1,`, ""},
		{`"@id": "train.jsonl"`, `"@id": "other"`, ""},
		{`"field"`, `"data": [], "field"`, diag.BadCroissant},
	} {
		_, list := ImportCroissant("c.json", edit(t, c.old, c.new), CroissantOptions{})
		if got := list.Failed(); got != (c.want != "") || got && list[0].Code != c.want {
			t.Errorf("%s: got %v, want %s", c.new, list, c.want)
		}
	}
	for name, data := range map[string]string{
		"deep": strings.Repeat(`{"a":`, maxCroissantDepth+1), "list": "[]", "long": strings.Repeat(" ", MaxBytes+1), "files": `{"conformsTo":"` + conforms + `","license":"MIT","distribution":[` + strings.Repeat("{},", maxCroissantNodes) + "{}]}",
	} {
		if _, list := ImportCroissant("c.json", []byte(data), CroissantOptions{}); !list.Failed() || list[0].Code != diag.BadCroissant {
			t.Errorf("%s: %v", name, list)
		}
	}
	if _, list := ImportCroissant("c.json", edit(t, `"column": "text"`, `"column": "body"`), CroissantOptions{Text: "body", License: "MIT"}); list.Failed() {
		t.Error(list)
	}
}

func TestLicenses(t *testing.T) {
	for text, want := range map[string]string{
		"https://spdx.org/licenses/MIT.html": "MIT", "http://spdx.org/licenses/Apache-2.0": "Apache-2.0", "https://creativecommons.org/licenses/by-sa/4.0/": "CC-BY-SA-4.0",
		"https://creativecommons.org/publicdomain/zero/1.0/": "CC0-1.0", "mit": "mit", "proprietary": "", "": "",
	} {
		if got := licenseOf(text); !strings.EqualFold(got, want) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func FuzzImport(f *testing.F) {
	data, err := ExportCroissant(lineage())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"conformsTo":"http://mlcommons.org/croissant/1.0","recordSet":{"field":{"source":{"extract":{"column":"a"}}}},"distribution":[{"@id":1}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, list := ImportCroissant("c.json", b, CroissantOptions{})
		if out == nil && !list.Failed() {
			t.Fatal("no manifest and no fault")
		}
		if list.Failed() || !json.Valid(b) {
			return
		}
		if m, list := Parse("m.yaml", out); m == nil && slices.ContainsFunc(list, func(d diag.Diagnostic) bool { return d.Code != diag.SourceLicense }) {
			t.Fatalf("%s: %v", out, list)
		}
	})
}
