package repotest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The bounds of a file and of a function, in lines.
const (
	maxFile = 800
	maxFunc = 120
)

// spine lists what a newcomer reads, in this order; each fits into one
// sitting.
var spine = []string{
	"cmd/mm/main.go", "abi/abi.go", "modules/manifest.go", "builds/graph.go",
	"assemble/assemble.go", "runtimes/runtimes.go", "train/llm/forward.go", "train/train.go",
}

const maxSpine = 300

// root is the repository's top folder.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root(t), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (strings.HasPrefix(e.Name(), ".") && path != root(t) || e.Name() == "testdata" || e.Name() == "dist") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestSpine(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join(root(t), "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range spine {
		data, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Error(err)
			continue
		}
		if n := strings.Count(string(data), "\n"); n > maxSpine {
			t.Errorf("%s has %d lines, the spine's files have at most %d", file, n, maxSpine)
		}
		if !strings.Contains(string(guide), file) {
			t.Errorf("CONTRIBUTING.md does not name %s", file)
		}
	}
}

func TestPackageNames(t *testing.T) {
	bad := regexp.MustCompile(`(^|/)(util|utils|common|helper|helpers|base|misc|types|shared|[a-z]+utils?)$`)
	for _, p := range list(t) {
		if bad.MatchString(p.ImportPath) {
			t.Errorf("%s: name the idea, not the shelf", p.ImportPath)
		}
		if p.Doc == "" && !strings.HasSuffix(p.ImportPath, "/repotest") {
			t.Errorf("%s has no package doc", p.ImportPath)
		}
	}
}

func TestSource(t *testing.T) {
	fset := token.NewFileSet()
	for _, path := range goFiles(t) {
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			t.Error(err)
			continue
		}
		rel, _ := filepath.Rel(root(t), path)
		test := strings.HasSuffix(path, "_test.go")
		if n := fset.File(f.Pos()).LineCount(); n > maxFile {
			t.Errorf("%s has %d lines, the limit is %d", rel, n, maxFile)
		}
		for _, d := range f.Decls {
			checkDecl(t, fset, rel, d, test)
		}
		if doc := f.Doc.Text(); doc != "" && f.Name.Name != "main" && !strings.HasPrefix(doc, "Package "+f.Name.Name+" ") {
			t.Errorf("%s: comment before the package clause: got %.30q, want one that begins with Package %s", rel, doc, f.Name.Name)
		}
		for _, group := range f.Comments {
			if strings.Contains(group.Text(), "TO"+"DO") || strings.Contains(group.Text(), "FIX"+"ME") {
				t.Errorf("%s:%d: put it into ROADMAP.md", rel, fset.Position(group.Pos()).Line)
			}
		}
	}
}

// checkDecl holds a declaration to the rules. Tables of tests may be as long
// as they are, and neither tests nor commands have readers of their docs.
func checkDecl(t *testing.T, fset *token.FileSet, rel string, d ast.Decl, test bool) {
	t.Helper()
	lax := test || strings.HasPrefix(rel, "cmd/")
	at := func(n ast.Node) int { return fset.Position(n.Pos()).Line }
	switch d := d.(type) {
	case *ast.FuncDecl:
		if n := fset.Position(d.End()).Line - at(d) + 1; n > maxFunc && !test {
			t.Errorf("%s:%d: %s has %d lines, the limit is %d", rel, at(d), d.Name.Name, n, maxFunc)
		}
		if d.Name.Name == "init" && d.Recv == nil {
			t.Errorf("%s:%d: init hides the wiring", rel, at(d))
		}
		if !lax && d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
			t.Errorf("%s:%d: %s has no doc", rel, at(d), d.Name.Name)
		}
	case *ast.GenDecl:
		if lax || d.Tok == token.IMPORT {
			return
		}
		for _, s := range d.Specs {
			if name, doc := spec(s); ast.IsExported(name) && !doc && d.Doc == nil {
				t.Errorf("%s:%d: %s has no doc", rel, at(s), name)
			}
		}
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	if s, ok := typ.(*ast.StarExpr); ok {
		typ = s.X
	}
	if i, ok := typ.(*ast.IndexExpr); ok {
		typ = i.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.IsExported()
}

func spec(s ast.Spec) (name string, doc bool) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		return s.Name.Name, s.Doc != nil || s.Comment != nil
	case *ast.ValueSpec:
		return s.Names[0].Name, s.Doc != nil || s.Comment != nil
	}
	return "", true
}

// Every dependency has its paragraph.
func TestRationale(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root(t), "docs", "RATIONALE.md"))
	if err != nil {
		t.Fatal(err)
	}
	mods := slices.Sorted(func(yield func(string) bool) {
		for m := range thirdParty {
			if !yield(m) {
				return
			}
		}
	})
	for _, m := range mods {
		if !strings.Contains(string(data), m) {
			t.Errorf("docs/RATIONALE.md does not speak of %s", m)
		}
	}
}

// README.md fits on three screens, and a release of CHANGELOG.md on one.
func TestDocumentSizes(t *testing.T) {
	const maxReadme, maxRelease = 150, 40
	readme, err := os.ReadFile(filepath.Join(root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(readme), "\n"); n >= maxReadme {
		t.Errorf("README.md has %d lines, want fewer than %d", n, maxReadme)
	}
	changelog, err := os.ReadFile(filepath.Join(root(t), "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range strings.Split(string(changelog), "\n## ")[1:] {
		if n := strings.Count(release, "\n"); n > maxRelease {
			t.Errorf("CHANGELOG.md: %.20q has %d lines, want at most %d", release, n, maxRelease)
		}
	}
}

// pythons finds the variables of shells, Makefile and tests that name a Python.
var pythons = regexp.MustCompile(`(?:\$\{?|Getenv\("|LookupEnv\("|environ\.get\("|environ\[")([A-Z_]*PYTHON)\b`)

// One variable names the Python of all scripts, targets and tests. ExecuTorch has its
// own, in the same script; MM_MICROPYTHON is a guest of the sandbox.
func TestPythonVariable(t *testing.T) {
	allowed := map[string]bool{"MM_PYTHON": true, "EXECUTORCH_PYTHON": true, "MM_MICROPYTHON": true}
	files, err := filepath.Glob(filepath.Join(root(t), "scripts", "*"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, filepath.Join(root(t), "Makefile"))
	files = append(files, goFiles(t)...)
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range pythons.FindAllStringSubmatch(string(text), -1) {
			if seen++; !allowed[m[1]] {
				t.Errorf("%s: variable %s, want MM_PYTHON", file, m[1])
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d variables found, want at least 20", seen)
	}
}
