package repotest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What an engine is given was verified: a builds.Build is made by workspace
// alone, after every byte of it was hashed; or it is the user's own file, which
// workspace says aloud.
func TestBuildsAreVerified(t *testing.T) {
	made := 0
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		entries, err := os.ReadDir(p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, e.Name()), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if !ok {
					return true
				}
				sel, ok := lit.Type.(*ast.SelectorExpr)
				if !ok || sel.Sel.Name != "Build" {
					return true
				}
				if pkg, ok := sel.X.(*ast.Ident); !ok || pkg.Name != "builds" {
					return true
				}
				if made++; name != "workspace" && name != "workspace/loose" && !strings.HasSuffix(name, "test") { // parttest has builds of no bytes
					t.Errorf("%s makes a builds.Build of its own; workspace makes them of verified bytes", fset.Position(lit.Pos()))
				}
				return true
			})
		}
	}
	if made == 0 {
		t.Error("nobody makes a builds.Build: the rule is blind")
	}
}
