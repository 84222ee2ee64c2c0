package judge_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/lab/judge"
)

func TestClassify(t *testing.T) {
	for text, want := range map[string]judge.Class{
		"CC0-1.0": "A", "Unlicense": "A", "0BSD": "A", "PDDL-1.0": "A",
		"MIT": "B", "mit": "B", "BSD-3-Clause": "B", "Apache-2.0": "B", "MIT OR Apache-2.0": "B", "Unicode-DFS-2016": "B",
		"CC-BY-2.0": "C", "cc-by-2.0": "C", "CC-BY-NC-SA-4.0": "C", "GPL-3.0-only": "C", "LGPL-2.1-or-later": "C", "MIT AND GPL-2.0-only": "C", "MIT OR GPL-2.0-only": "C",
		"SSPL-1.0": "D", "LicenseRef-Mine": "D", "": "D", "public domain": "D", "not in the public domain": "D", "MIT License": "D", "GPL": "D", "MITRE": "D",
		"LicenseRef-Proprietary": "E", "MIT AND LicenseRef-Proprietary-x": "E",
	} {
		if got := judge.Classify(text); got.Class != want || want == "D" && len(got.Licence) == 0 && got.Hint == "" {
			t.Errorf("%q: %+v, want %s", text, got, want)
		}
	}
}

func manifest() judge.Manifest {
	return judge.Manifest{ID: "m", Stage: "smoke", Languages: map[string]float64{"en": 0.5, "de": 0.5}, Sources: []judge.Source{
		{ID: "a", URI: "x:a", Licence: "CC0-1.0", Language: "en", Tokens: 480},
		{ID: "b", URI: "x:b", Licence: "MIT", Language: "de", Tokens: 520, OCR: &judge.OCR{Original: "x", Engine: "e 1", Damage: 0.3}},
	}}
}

func TestAudit(t *testing.T) {
	if a := manifest().Audit(); !a.OK || a.ByClass["A"] != 1 || a.ByClass["B"] != 1 {
		t.Errorf("%+v", a)
	}
	for want, change := range map[string]func(*judge.Manifest){
		"missing id":                    func(m *judge.Manifest) { m.ID = "" },
		`unknown stage "x"`:             func(m *judge.Manifest) { m.Stage = "x" },
		"no sources":                    func(m *judge.Manifest) { m.Sources, m.Languages = nil, nil },
		`"D" cannot be allowed`:         func(m *judge.Manifest) { m.Allowed = []judge.Class{"A", "B", "D"} },
		"has class C, allowed [A B]":    func(m *judge.Manifest) { m.Sources[0].Licence = "CC-BY-4.0" },
		"needs a decision":              func(m *judge.Manifest) { m.Sources[0].Licence, m.Allowed = "CC-BY-4.0", []judge.Class{"A", "B", "C"} },
		"it mentions \"public domain\"": func(m *judge.Manifest) { m.Sources[0].Licence = "not in the public domain" },
		"has class E":                   func(m *judge.Manifest) { m.Sources[0].Licence = "LicenseRef-Proprietary" },
		"duplicate id":                  func(m *judge.Manifest) { m.Sources[1].ID = "a" },
		"missing id, uri or language":   func(m *judge.Manifest) { m.Sources[1].URI = "" },
		"negative tokens_estimate":      func(m *judge.Manifest) { m.Sources[1].Chunks = -1 },
		"OCR damage 0.31":               func(m *judge.Manifest) { m.Sources[1].OCR.Damage = 0.31 },
		"sum of language_mix is 1.1000": func(m *judge.Manifest) { m.Languages["fr"] = 0.1 },
		`"de": share 0.568, want 0.500`: func(m *judge.Manifest) { m.Sources[1].Tokens = 631 },
		`"fr": share 0.480, want 0.000`: func(m *judge.Manifest) { m.Sources[0].Language = "fr" },
		"no source has tokens_estimate": func(m *judge.Manifest) { m.Sources[0].Tokens, m.Sources[1].Tokens = 0, 0 },
	} {
		m := manifest()
		change(&m)
		a := m.Audit()
		found := false
		for _, f := range a.Failures {
			found = found || strings.Contains(f.Reason, want)
		}
		if a.OK || !found {
			t.Errorf("%s: %+v", want, a)
		}
	}
	m := manifest()
	m.Sources[0].Licence, m.Sources[0].Decision, m.Allowed = "CC-BY-4.0", "D-007", []judge.Class{"A", "B", "C"}
	if a := m.Audit(); !a.OK {
		t.Errorf("%+v", a)
	}
}
