package repotest_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A link of a doc comment leads to a name that exists.
func TestDocLinks(t *testing.T) {
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		fset := token.NewFileSet()
		entries, err := os.ReadDir(p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		var files []*ast.File
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, e.Name()), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		if len(files) == 0 {
			continue
		}
		pkg, err := doc.NewFromFiles(fset, files, p.ImportPath, doc.AllDecls)
		if err != nil {
			t.Fatal(err)
		}
		links := pkg.Parser()
		known := links.LookupSym
		links.LookupSym = func(recv, sym string) bool {
			if known(recv, sym) {
				return true
			}
			if len(sym) > 1 { // one letter is a dimension
				t.Errorf("%s: no [%s] to link to", name, strings.TrimPrefix(recv+"."+sym, "."))
			}
			return false
		}
		texts := []string{pkg.Doc}
		for _, f := range pkg.Funcs {
			texts = append(texts, f.Doc)
		}
		for _, typ := range pkg.Types {
			texts = append(texts, typ.Doc)
			for _, f := range append(typ.Funcs, typ.Methods...) {
				texts = append(texts, f.Doc)
			}
		}
		for _, text := range texts {
			links.Parse(text)
		}
	}
}
