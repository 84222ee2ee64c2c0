package repotest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named are the files of the tree that a line of a document gives to mm: not those
// that a flag says to write.
var named = regexp.MustCompile(`(\S+)\s+((?:catalog|builds)/[\w./-]*\w)`)

// What a document shows mm to work on is in the tree.
func TestDocumentedFiles(t *testing.T) {
	documents, err := filepath.Glob(filepath.Join(root(t), "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	met := 0
	for _, path := range append(documents, filepath.Join(root(t), "README.md")) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(data), "\n") {
			at := strings.Index(line, "mm ")
			if at < 0 {
				continue
			}
			for _, m := range named.FindAllStringSubmatch(line[at:], -1) {
				if m[1] == "--out" || m[1] == "--dir" || m[1] == "-o" {
					continue
				}
				met++
				if _, err := os.Stat(filepath.Join(root(t), filepath.FromSlash(m[2]))); err != nil {
					t.Errorf("%s:%d: there is no %s", filepath.Base(path), i+1, m[2])
				}
			}
		}
	}
	if met == 0 {
		t.Error("no document shows mm to work on anything")
	}
}
