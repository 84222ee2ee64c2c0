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
