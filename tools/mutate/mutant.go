package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
)

// flips maps an operator to the one that takes its place.
var flips = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
}

// mutants returns the mutants of a file: comparisons and connectives flipped,
// guards that return removed, and integer constants raised by one.
func mutants(file string) ([]mutant, error) {
	fset := token.NewFileSet()
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	f, err := parser.ParseFile(fset, file, source, 0)
	if err != nil {
		return nil, err
	}
	text := func(n ast.Node) string {
		return string(source[fset.Position(n.Pos()).Offset:fset.Position(n.End()).Offset])
	}
	var all []mutant
	add := func(function, old, new string) {
		if !strings.ContainsAny(old+new, "\t\n") {
			all = append(all, mutant{file: file, function: function, old: old, new: new})
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			if d.Tok == token.CONST {
				constants(d, text, add)
			}
		case *ast.FuncDecl:
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BinaryExpr:
					if op, ok := flips[n.Op]; ok {
						add(d.Name.Name, text(n), text(n.X)+" "+op.String()+" "+text(n.Y))
					}
				case *ast.IfStmt:
					if n.Init == nil && n.Else == nil && len(n.Body.List) == 1 {
						if _, ok := n.Body.List[0].(*ast.ReturnStmt); ok {
							add(d.Name.Name, "if "+text(n.Cond)+" {", "if false && ("+text(n.Cond)+") {")
						}
					}
				}
				return true
			})
		}
	}
	return all, nil
}

// constants adds a mutant for each integer constant that is written as a number.
func constants(d *ast.GenDecl, text func(ast.Node) string, add func(function, old, new string)) {
	for _, s := range d.Specs {
		v, ok := s.(*ast.ValueSpec)
		if !ok || len(v.Names) != 1 || len(v.Values) != 1 {
			continue
		}
		switch x := v.Values[0].(type) {
		case *ast.BasicLit:
			if n, err := strconv.Atoi(x.Value); err == nil {
				add(v.Names[0].Name, text(v), strings.Replace(text(v), x.Value, strconv.Itoa(n+1), 1))
			}
		case *ast.BinaryExpr: // 1 << 20
			if x.Op == token.SHL {
				add(v.Names[0].Name, text(v), strings.TrimSuffix(text(v), text(x))+"("+text(x)+") + 1")
			}
		}
	}
}

// apply returns the source of the mutant's file with its change, and whether the
// expression was found.
func (m mutant) apply() (source []byte, ok bool, err error) {
	source, err = os.ReadFile(m.file)
	if err != nil {
		return nil, false, err
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, m.file, source, 0)
	if err != nil {
		return nil, false, err
	}
	for _, d := range f.Decls {
		if !declares(d, m.function) {
			continue
		}
		from, to := fset.Position(d.Pos()).Offset, fset.Position(d.End()).Offset
		body := string(source[from:to])
		if !strings.Contains(body, m.old) {
			continue
		}
		body = strings.Replace(body, m.old, m.new, 1)
		return []byte(string(source[:from]) + body + string(source[to:])), true, nil
	}
	return nil, false, nil
}

// declares reports whether d is the function, or declares the constant, name.
func declares(d ast.Decl, name string) bool {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Name.Name == name
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok && v.Names[0].Name == name {
				return true
			}
		}
	}
	return false
}
