package repotest_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every diagnostic code is raised by the program, and a test beside the code
// or a script names it. A code that nothing raises is a promise to nobody, and
// one that no test meets may say anything.
func TestCodesAreRaisedAndTested(t *testing.T) {
	table, err := os.ReadFile(filepath.Join(root(t), "internal", "diag", "codes.go"))
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^\t(\w+)\s+Code = "(MM\d{4})"$`).FindAllSubmatch(table, -1)
	if len(declared) < 50 {
		t.Fatalf("found %d codes", len(declared))
	}
	source, tests := words(t)
	for _, d := range declared {
		name, number := "diag."+string(d[1]), string(d[2])
		if !source[name] {
			t.Errorf("%s (%s) is raised nowhere", number, name)
		}
		if !tests[name] && !tests[number] {
			t.Errorf("%s (%s) is in no test", number, name)
		}
	}
}

// words collects the codes, as diag.NAME and by number, that the program and
// its tests speak of; package diag itself does not count.
func words(t *testing.T) (source, tests map[string]bool) {
	t.Helper()
	source, tests = map[string]bool{}, map[string]bool{}
	code := regexp.MustCompile(`\bdiag\.\w+\b|\bMM\d{4}\b`)
	err := filepath.WalkDir(root(t), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root(t), path)
		rel = filepath.ToSlash(rel)
		switch {
		case e.IsDir() && (rel == "internal/diag" || rel == "internal/repotest" || rel == "dist" || strings.HasPrefix(e.Name(), ".") && rel != "."):
			return fs.SkipDir
		case e.IsDir():
			return nil
		}
		into := tests
		switch {
		case strings.Contains(rel, "/testdata/"):
			if info, err := e.Info(); err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 {
				return err
			}
		case strings.HasSuffix(rel, "_test.go"):
		case strings.HasSuffix(rel, ".go"):
			into = source
		default:
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil || bytes.IndexByte(data, 0) >= 0 {
			return err
		}
		for _, w := range code.FindAll(data, -1) {
			into[string(w)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return source, tests
}
