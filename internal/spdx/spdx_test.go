package spdx_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/spdx"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		in   string
		ids  []string
		fail string
	}{
		{in: "Apache-2.0", ids: []string{"Apache-2.0"}},
		{in: "apache-2.0", ids: []string{"Apache-2.0"}},
		{in: "MIT OR (Apache-2.0 AND BSD-3-Clause)", ids: []string{"Apache-2.0", "BSD-3-Clause", "MIT"}},
		{in: "GPL-2.0-or-later WITH Classpath-exception-2.0", ids: []string{"GPL-2.0-or-later"}},
		{in: "LGPL-2.1+", ids: []string{"LGPL-2.1"}},
		{in: "LicenseRef-Llama-3", ids: []string{"LicenseRef-Llama-3"}},
		{in: "CDLA-Sharing-1.0", ids: []string{"CDLA-Sharing-1.0"}},
		{in: "", fail: "missing"},
		{in: "Apache 2", fail: `unknown SPDX license identifier "Apache"`},
		{in: "Apache 2.0", fail: "did you mean Apache-2.0?"},
		{in: "MITT", fail: "did you mean MIT?"},
		{in: "GPL", fail: "did you mean GPL-3.0-or-later, GPL-3.0-only"},
		{in: "Foo", fail: "identifier"},
		{in: "MIT Apache-2.0", fail: "unexpected"},
		{in: "(MIT", fail: "missing )"},
		{in: "MIT OR", fail: "missing"},
		{in: "MIT WITH nothing", fail: "unknown SPDX exception"},
		{in: "LicenseRef-", fail: "unknown SPDX license"},
		{in: strings.Repeat("(", 2000), fail: "too long"},
	} {
		e, err := spdx.Parse(tc.in)
		if tc.fail != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("Parse(%.40q) error = %v, want %q", tc.in, err, tc.fail)
			}
			continue
		}
		if err != nil {
			t.Errorf("Parse(%q): %v", tc.in, err)
			continue
		}
		if d := cmp.Diff(tc.ids, e.IDs); d != "" {
			t.Errorf("Parse(%q) ids (-want +got):\n%s", tc.in, d)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("MIT OR (Apache-2.0 AND BSD-3-Clause) WITH x")
	f.Fuzz(func(t *testing.T, s string) {
		e, err := spdx.Parse(s)
		if err != nil {
			return
		}
		again, err := spdx.Parse(e.String())
		if err != nil || !cmp.Equal(e.IDs, again.IDs) {
			t.Fatalf("%q read as %q, which reads as %v, %v", s, e, again.IDs, err)
		}
	})
}
