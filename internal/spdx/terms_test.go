package spdx_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/spdx"
)

func TestTermsOf(t *testing.T) {
	for _, tc := range []struct {
		id   string
		want spdx.Terms
		ok   bool
	}{
		{"MIT", spdx.Terms{}, true},
		{"Apache-2.0", spdx.Terms{}, true},
		{"CC-BY-4.0", spdx.Terms{}, true},
		{"LGPL-2.1+", spdx.Terms{}, true},
		{"GPL-2.0+", spdx.Terms{spdx.Copyleft: "§6"}, true},
		{"AGPL-3.0-only", spdx.Terms{spdx.Copyleft: "§10"}, true},
		{"CC-BY-NC-SA-4.0", spdx.Terms{spdx.NonCommercial: "§2(a)(1)", spdx.ShareAlike: "§3(b)"}, true},
		{"CC-BY-NC-3.0-DE", spdx.Terms{spdx.NonCommercial: "§4"}, true},
		{"CC-BY-ND-4.0", spdx.Terms{spdx.NoDerivatives: "§2(a)(1)(B)"}, true},
		{"LicenseRef-gemma", spdx.Terms{spdx.Restricted: "§3.2"}, true},
		{"LicenseRef-Llama3.2", spdx.Terms{spdx.Restricted: "§1.b.iv"}, true},
		{"LicenseRef-bigscience-openrail-m", spdx.Terms{spdx.Restricted: "paragraph 5"}, true},
		{"LicenseRef-house", nil, false},
		{"GPL-2.0-only WITH Classpath-exception-2.0", nil, false},
		{"Adobe-2006", nil, false},
	} {
		got, ok := spdx.TermsOf(tc.id)
		if d := cmp.Diff(tc.want, got); d != "" || ok != tc.ok {
			t.Errorf("TermsOf(%q) ok %v, want %v (-want +got):\n%s", tc.id, ok, tc.ok, d)
		}
	}
}

func TestChoices(t *testing.T) {
	for in, want := range map[string][][]string{
		"mit":                               {{"MIT"}},
		"MIT OR (Apache-2.0 AND ISC)":       {{"MIT"}, {"Apache-2.0", "ISC"}},
		"(MIT OR ISC) AND (0BSD OR Zlib)":   {{"MIT", "0BSD"}, {"MIT", "Zlib"}, {"ISC", "0BSD"}, {"ISC", "Zlib"}},
		"GPL-2.0+ WITH Bison-exception-2.2": {{"GPL-2.0+ WITH Bison-exception-2.2"}},
		"MIT AND ISC OR 0BSD":               {{"MIT", "ISC"}, {"0BSD"}},
	} {
		e, err := spdx.Parse(in)
		if err != nil {
			t.Fatalf("Parse(%q): %v", in, err)
		}
		if d := cmp.Diff(want, e.Choices()); d != "" {
			t.Errorf("Parse(%q).Choices() (-want +got):\n%s", in, d)
		}
	}
	// 2 to the power of n choices.
	for n, ok := range map[int]bool{6: true, 7: false} {
		e, err := spdx.Parse(strings.TrimSuffix(strings.Repeat("(MIT OR ISC) AND ", n), " AND "))
		if err != nil || (e.Choices() != nil) != ok {
			t.Errorf("%d alternatives: %d choices, %v; ok: want %v", n, len(e.Choices()), err, ok)
		}
	}
}
