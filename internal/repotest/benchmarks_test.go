package repotest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// measured matches the last cell of a benchmark's row: commit, date, level.
var measured = regexp.MustCompile(`\| [0-9a-f]{7} \d{4}-\d{2}-\d{2} [A-Z][\w -]*(, qemu)? \|$`)

// Each row of docs/BENCHMARKS.md says at which commit, when and at which
// instruction-set level it was measured, and each section names its command.
func TestBenchmarks(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root(t), "docs", "BENCHMARKS.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, section := range strings.Split(string(data), "\n## ")[1:] {
		title, _, _ := strings.Cut(section, "\n")
		header := true
		for line := range strings.Lines(section) {
			line = strings.TrimSpace(line)
			switch {
			case !strings.HasPrefix(line, "|"):
				header = true
				continue
			case header || strings.HasPrefix(line, "|--") || strings.HasPrefix(line, "|:-"):
				header = false
				continue
			}
			if rows++; !measured.MatchString(line) {
				t.Errorf("%s: no commit, date and level at the end of %.60q", title, line)
			}
		}
		if !regexp.MustCompile("`[^`]*(make|scripts/|mm eval)[^`]*`").MatchString(section) {
			t.Errorf("%s: no command", title)
		}
	}
	if rows < 100 {
		t.Errorf("got %d rows", rows)
	}
}
