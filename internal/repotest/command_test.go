package repotest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// maxAction is the most lines of a function that sees the command line.
const maxAction = 60

// The command line stops at the first line of a command: a *cli.Context is seen
// by actions, which fill a struct of options and call what does the work, by
// the readers of flags that several commands share (…Options), and by nobody
// else.
func TestCommandLineStops(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root(t), "cmd", "mm", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var parsed []*ast.File
	actions := map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.CompositeLit); ok && isActions(lit.Type) {
				ast.Inspect(lit, func(n ast.Node) bool { // p.action, or an adapter around it
					if sel, ok := n.(*ast.SelectorExpr); ok {
						actions[sel.Sel.Name] = true
					}
					return true
				})
			}
			return true
		})
	}
	for _, f := range parsed {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if !takesContext(n.Type) {
					break
				}
				name, pos := n.Name.Name, fset.Position(n.Pos())
				if !actions[name] && !strings.HasSuffix(name, "Options") && name != "options" {
					t.Errorf("%s:%d: %s takes a *cli.Context and is no command's action; give it a struct of options", filepath.Base(pos.Filename), pos.Line, name)
				}
				short(t, fset, n, name)
			case *ast.FuncLit:
				if takesContext(n.Type) {
					short(t, fset, n, "an action")
				}
			case *ast.TypeSpec:
				s, ok := n.Type.(*ast.StructType)
				if !ok {
					break
				}
				for _, field := range s.Fields.List {
					if !isContext(field.Type) {
						continue
					}
					for _, id := range field.Names {
						t.Errorf("%s.%s keeps a *cli.Context", n.Name.Name, id.Name)
					}
				}
			}
			return true
		})
	}
}

// short holds a function that sees the command line to its bound.
func short(t *testing.T, fset *token.FileSet, n ast.Node, name string) {
	t.Helper()
	pos := fset.Position(n.Pos())
	if lines := fset.Position(n.End()).Line - pos.Line + 1; lines > maxAction {
		t.Errorf("%s:%d: %s has %d lines, an action has at most %d", filepath.Base(pos.Filename), pos.Line, name, lines, maxAction)
	}
}

func takesContext(f *ast.FuncType) bool {
	for _, p := range f.Params.List {
		if isContext(p.Type) {
			return true
		}
	}
	return false
}

// isActions reports whether e is map[string]cli.ActionFunc.
func isActions(e ast.Expr) bool {
	m, ok := e.(*ast.MapType)
	if !ok {
		return false
	}
	sel, ok := m.Value.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "ActionFunc"
}

// isContext reports whether e is *cli.Context.
func isContext(e ast.Expr) bool {
	star, ok := e.(*ast.StarExpr)
	if !ok {
		return false
	}
	sel, ok := star.X.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == "cli" && sel.Sel.Name == "Context"
}

// writes are the functions of package os that change a disk.
var writes = map[string]bool{
	"WriteFile": true, "Create": true, "CreateTemp": true, "Mkdir": true, "MkdirAll": true, "MkdirTemp": true, "OpenFile": true,
	"Rename": true, "Remove": true, "RemoveAll": true, "Truncate": true, "Symlink": true, "Link": true, "Chmod": true, "CopyFS": true,
}

// writers are the packages and files outside of internal/fsx that write, and
// why they may.
var writers = map[string]string{
	"internal/fsx/":               "the seam itself",
	"assemble/export/exporttest/": "exports that scripts judge, in folders of theirs",
	"internal/testfiles/":         "models that tests run, in folders of theirs",
	"onnx/onnxtest/":              "attacks that tests plant, in folders of theirs",
	"tools/":                      "programs of the developers, not mm",
	"skills/skilltest/":           "guests that try to, behind walls",
	"train/dataset/cache.go":      "a cache that is checked as it is read",
}

// Nothing outside of internal/fsx writes to disk, but for what is listed.
func TestWrites(t *testing.T) {
	met := map[string]bool{}
	fset := token.NewFileSet()
	for _, path := range goFiles(t) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		rel, _ := filepath.Rel(root(t), path)
		rel = filepath.ToSlash(rel)
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !writes[sel.Sel.Name] {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "os" {
				return true
			}
			for place := range writers {
				if strings.HasPrefix(rel, place) {
					met[place] = true
					return true
				}
			}
			t.Errorf("%s:%d: os.%s; internal/fsx is what writes", rel, fset.Position(call.Pos()).Line, sel.Sel.Name)
			return true
		})
	}
	for place := range writers {
		if !met[place] {
			t.Errorf("%s does not write any more: take it off the list", place)
		}
	}
}
