package assemble_test

import (
	"strings"
	"testing"

	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/artifact"
)

// Every target has LICENSE and NOTICE with the texts of its modules, and the modules' own
// files; a module without a text is a warning.
func TestLegal(t *testing.T) {
	k := newKit(t)
	r := k.must(nil)
	tree, err := artifact.ReadTree(t.Context(), k.store, r.Descriptor)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range tree.Parts {
		texts := map[string]string{}
		for _, l := range p.Artifact.Layers {
			if strings.HasSuffix(l.Path, "LICENSE") || strings.HasSuffix(l.Path, "NOTICE") {
				data, err := content.FetchAll(t.Context(), k.store, l.Descriptor)
				if err != nil {
					t.Fatal(err)
				}
				texts[l.Path] = string(data)
			}
		}
		if !strings.Contains(texts["LICENSE"], "Copyright (c) 2026 A. Author") || !strings.Contains(texts["LICENSE"], "Apache License") || !strings.Contains(texts["NOTICE"], "Made with care.") || texts["tool/LICENSE"] == "" || texts["tool/NOTICE"] == "" {
			t.Errorf("%s: got %v", p.Target, texts)
		}
	}
	k = newKit(t)
	k.edit("modules/core-llm/module.yaml", "license: Apache-2.0", "license: ISC")
	r = k.must(nil)
	n := 0
	for _, d := range r.Diagnostics {
		if d.Code == diag.LicenseText && strings.Contains(d.Detail, "core-llm 3.1.0: no text of ISC") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("got %d warnings: %v", n, r.Diagnostics)
	}
}
