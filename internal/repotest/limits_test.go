package repotest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// limit matches the names of constants that bound an input.
var limit = regexp.MustCompile(`^(max|Max|limit|Limit)[A-Z0-9]`)

// A test of the package names each constant that bounds an input: it has a case
// on either side. testdata/limits.txt lists the exceptions with their reasons.
func TestLimits(t *testing.T) {
	exceptions := map[string]bool{}
	data, err := os.ReadFile("testdata/limits.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		name, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if reason == "" {
			t.Errorf("testdata/limits.txt: %s has no reason", name)
		}
		exceptions[name] = true
	}
	declared, tests := map[string][]string{}, map[string]string{}
	fset := token.NewFileSet()
	for _, path := range goFiles(t) {
		rel, _ := filepath.Rel(root(t), path)
		dir := filepath.ToSlash(filepath.Dir(rel))
		if strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			tests[dir] += string(text)
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				declared[dir] = append(declared[dir], limits(g)...)
			}
		}
	}
	for dir, names := range declared {
		for _, name := range names {
			key := dir + "." + name
			word := regexp.MustCompile(`\b[` + strings.ToLower(name[:1]) + strings.ToUpper(name[:1]) + `]` + name[1:] + `\b`)
			switch held := word.MatchString(tests[dir]); {
			case !held && !exceptions[key]:
				t.Errorf("%s: no test names it; add a case on either side", key)
			case held && exceptions[key]:
				t.Errorf("%s: a test names it; remove it from testdata/limits.txt", key)
			}
			delete(exceptions, key)
		}
	}
	for key := range exceptions {
		t.Errorf("testdata/limits.txt: %s does not exist", key)
	}
}

// limits returns the names in a const declaration that bound an input.
func limits(g *ast.GenDecl) []string {
	var names []string
	for _, s := range g.Specs {
		v, ok := s.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for _, id := range v.Names {
			if limit.MatchString(id.Name) {
				names = append(names, id.Name)
			}
		}
	}
	return names
}
