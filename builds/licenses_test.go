package builds

import (
	"slices"
	"testing"
)

// TestMaxCombinations hides the only free combination of n pairs of alternatives in the
// last place.
func TestMaxCombinations(t *testing.T) {
	for n, found := range map[int]bool{12: true, 13: false} { // 1 << 12 is maxCombinations
		if (1<<n <= maxCombinations) != found {
			t.Fatalf("%d pairs: the limit is %d", n, maxCombinations)
		}
		parts := make([]licensed, n)
		for i := range parts {
			parts[i].choices = [][]string{{"GPL-3.0-only"}, {"MIT"}}
		}
		_, all := pick(parts, func(choice [][]string) int {
			return len(slices.DeleteFunc(slices.Clone(choice), func(ids []string) bool { return ids[0] == "MIT" }))
		})
		if all != found {
			t.Errorf("%d pairs: all combinations judged: got %v, want %v", n, all, found)
		}
	}
}

// Pairs are judged as by OSADL's compatibility matrix of 2024-05-22, where one of the two
// licenses would be that of the whole; the matrix has no opinion on licenses of content.
func TestIncompatible(t *testing.T) {
	for _, c := range []struct {
		a, b string
		ok   bool
	}{
		{"Apache-2.0", "MIT", true}, {"Apache-2.0", "GPL-3.0-only", true}, {"Apache-2.0", "GPL-2.0-only", false}, {"GPL-2.0-only", "GPL-3.0-only", false},
		{"GPL-2.0-or-later", "GPL-3.0-only", true}, {"GPL-3.0-only", "AGPL-3.0-only", true}, {"GPL-2.0-only", "LGPL-3.0-only", false}, {"GPL-3.0-only", "LGPL-3.0-only", true},
		{"GPL-3.0-only", "BSD-4-Clause", false}, {"GPL-3.0-only", "BSD-3-Clause", true}, {"AGPL-3.0-only", "Apache-1.1", false}, {"GPL-3.0-only", "CDDL-1.0", false},
		{"GPL-2.0-only", "EPL-1.0", false}, {"GPL-3.0-only", "MPL-2.0", true}, {"GPL-3.0-only", "MPL-1.1", false}, {"GPL-3.0-only", "MPL-2.0-no-copyleft-exception", false},
		{"GPL-3.0-only", "OpenSSL", false}, {"MIT", "BSD-4-Clause", true}, {"MIT", "CDDL-1.0", true},
	} {
		got := len(incompatible([]string{c.a}, []string{c.b}))+len(incompatible([]string{c.b}, []string{c.a})) == 0
		if got != c.ok {
			t.Errorf("%s and %s: got %v, want %v", c.a, c.b, got, c.ok)
		}
	}
}
