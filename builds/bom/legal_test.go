package bom

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func file(path, text string) LegalFile { return LegalFile{path, digestOf([]byte(text)), []byte(text)} }

func parts() []Part {
	return []Part{
		{Name: "core", Version: "1.0.0", License: "Apache-2.0", Source: "https://example.org/core", Digest: "sha256:1", Files: []LegalFile{file("NOTICE", "Made by A.\r\n")}},
		{Name: "tool", Version: "0.1.0", License: "MIT", Digest: "sha256:2", Files: []LegalFile{file("LICENSE", "MIT License\nCopyright A\n")}},
		{Name: "two", Version: "0.2.0", License: "MIT AND BSD-3-Clause", Digest: "sha256:3", Files: []LegalFile{file("LICENSES/BSD-3-Clause.txt", "BSD\n"), file("COPYING", "MIT License\nCopyright A\n")}},
		{Name: "bare", Version: "0.3.0", License: "ISC", Digest: "sha256:4"},
		{Name: "none", Version: "0.4.0", Digest: "sha256:5"},
	}
}

// Texts of equal bytes appear once, with all their modules; every module is in the notice.
func TestDocuments(t *testing.T) {
	license, notice, err := Documents("chat 1.0.0", "Apache-2.0 AND MIT", parts())
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(license), "MIT License\n"); n != 1 {
		t.Errorf("got the text of MIT %d times", n)
	}
	for _, want := range []string{"Licenses of chat 1.0.0: Apache-2.0 AND MIT\n", "tool/LICENSE, for tool 0.1.0, two 0.2.0\n", "two/LICENSES/BSD-3-Clause.txt, for two 0.2.0\n", "Apache-2.0, for core 1.0.0\n", "Version 2.0, January 2004"} {
		if !strings.Contains(string(license), want) {
			t.Errorf("LICENSE lacks %q", want)
		}
	}
	want := `Modules of chat 1.0.0: Apache-2.0 AND MIT

core 1.0.0
  license: Apache-2.0
  text of Apache-2.0: SPDX sha256:cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30
  source: https://example.org/core
  module: sha256:1

NOTICE of core:

Made by A.

tool 0.1.0
  license: MIT
  text of MIT: LICENSE ` + digestOf([]byte("MIT License\nCopyright A\n")) + `
  source: unknown
  module: sha256:2

two 0.2.0
  license: MIT AND BSD-3-Clause
  text of BSD-3-Clause: LICENSES/BSD-3-Clause.txt ` + digestOf([]byte("BSD\n")) + `
  text of MIT: COPYING ` + digestOf([]byte("MIT License\nCopyright A\n")) + `
  source: unknown
  module: sha256:3

bare 0.3.0
  license: ISC
  text of ISC: missing
  source: unknown
  module: sha256:4

none 0.4.0
  license: unknown
  text of unknown: missing
  source: unknown
  module: sha256:5
`
	if d := cmp.Diff(want, string(notice)); d != "" {
		t.Errorf("NOTICE (-want +got):\n%s", d)
	}
	again, same, err := Documents("chat 1.0.0", "Apache-2.0 AND MIT", parts())
	if err != nil || string(again) != string(license) || string(same) != string(notice) {
		t.Error("the second run differs")
	}
	if license, _, err = Documents("x", "ISC", parts()[3:4]); license != nil || err != nil {
		t.Errorf("without texts: %q %v", license, err)
	}
}

func TestMissing(t *testing.T) {
	for i, want := range [][]string{nil, nil, nil, {"ISC"}, nil} {
		if got := parts()[i].Missing(); cmp.Diff(want, got) != "" {
			t.Errorf("%s: got %v, want %v", parts()[i], got, want)
		}
	}
	p := Part{License: "MIT", Files: []LegalFile{file("NOTICE", "x")}}
	if p.Missing() == nil {
		t.Error("a notice counts as a license")
	}
}

func TestStandard(t *testing.T) {
	for expression, want := range map[string]bool{"Apache-2.0": true, "MPL-2.0": true, "CC0-1.0": true, "MIT": false, "Apache-2.0 AND MIT": false, "": false, "Apache-2.0 WITH LLVM-exception": false, "LicenseRef-../x": false} {
		if _, ok := Standard(expression); ok != want {
			t.Errorf("%s: got %v", expression, ok)
		}
	}
}

func TestLimits(t *testing.T) {
	for n, ok := range map[int]bool{MaxText: true, MaxText + 1: false} {
		p := Part{Name: "x", License: "MIT", Files: []LegalFile{file("LICENSE", strings.Repeat("a", n))}}
		if _, _, err := Documents("x", "MIT", []Part{p}); (err == nil) != ok {
			t.Errorf("MaxText: %d: %v", n, err)
		}
	}
	size := func(n int) int {
		license, _, _ := Documents("x", "MIT", []Part{{Name: "x", License: "MIT", Files: large(n)}})
		return len(license)
	}
	base := maxDocument - 64<<10
	for n, ok := range map[int]bool{maxDocument: true, maxDocument + 1: false} {
		over := n - size(base)
		_, _, err := Documents("x", "MIT", []Part{{Name: "x", License: "MIT", Files: large(base + over)}})
		if (err == nil) != ok {
			t.Errorf("maxDocument: %d: %v", n, err)
		}
	}
	for _, text := range []string{"\xff", "a\x00b"} {
		if _, _, err := Documents("x", "MIT", []Part{{Name: "x", License: "MIT", Files: []LegalFile{file("LICENSE", text)}}}); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// large returns five texts of n bytes together.
func large(n int) (list []LegalFile) {
	for i := range 5 {
		size := n / 5
		if i == 0 {
			size = n - 4*(n/5)
		}
		list = append(list, file("LICENSE-"+string(rune('a'+i)), strings.Repeat(string(rune('a'+i)), size)))
	}
	return list
}
