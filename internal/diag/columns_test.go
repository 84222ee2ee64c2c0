package diag

import (
	"strings"
	"testing"
)

func TestShort(t *testing.T) {
	for digest, want := range map[string]string{
		"sha256:0123456789abcdef": "sha256:0123456789ab", "sha256:0123456789ab": "sha256:0123456789ab",
		"sha256:0123456789a": "sha256:0123456789a", "0123456789abcdef": "0123456789abcdef",
	} {
		if got := Short(digest); got != want {
			t.Errorf("%s: got %s, want %s", digest, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 rows", 1: "1 row", 2: "2 rows"} {
		if got := Count(n, "row"); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

// A name in a line or in a cell cannot begin another line.
func TestPrintableLines(t *testing.T) {
	var b strings.Builder
	if err := Line(&b, "%s: %d", "a\nb\x1b", 3); err != nil || b.String() != "a\\nb\\x1b: 3\n" {
		t.Errorf("line: got %q, %v", b.String(), err)
	}
	b.Reset()
	if err := Table(&b, []string{"NAME"}, [][]string{{"a\nb"}}); err != nil || b.String() != "NAME\na\\nb\n" {
		t.Errorf("table: got %q, %v", b.String(), err)
	}
}
