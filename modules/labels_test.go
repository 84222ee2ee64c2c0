package modules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A labels file has at most maxLabels bytes; lines of white space are classes, and a
// byte order mark is not part of the first.
func TestReadLabels(t *testing.T) {
	file := filepath.Join(t.TempDir(), "labels")
	line := strings.Repeat("x", 1<<15-1) + "\n"
	for _, n := range []int{maxLabels, maxLabels + 1} {
		if err := os.WriteFile(file, []byte(strings.Repeat(line, n/len(line))+line[:n%len(line)]), 0o600); err != nil {
			t.Fatal(err)
		}
		if lines, err := ReadLabels(file); (err == nil) != (n <= maxLabels) {
			t.Errorf("%d bytes: got %d lines, %v", n, len(lines), err)
		}
	}
	if err := os.WriteFile(file, []byte("\ufeffa\n \nb"), 0o600); err != nil {
		t.Fatal(err)
	}
	if lines, err := ReadLabels(file); err != nil || strings.Join(lines, "|") != "a| |b" {
		t.Errorf("got %q, %v", lines, err)
	}
}
