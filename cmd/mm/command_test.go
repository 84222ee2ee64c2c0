package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/cmd/console"
)

// Every command of commands.txt has an action or subcommands, and every action a command.
func TestCommandsHaveActions(t *testing.T) {
	p := &program{}
	actions := p.actions()
	console.EachCommand(p.commands(), "", func(name string, c *cli.Command) {
		if c.Action == nil && len(c.Subcommands) == 0 {
			t.Errorf("mm %s has no action", name)
		}
		delete(actions, name)
	})
	for path := range actions {
		t.Errorf("commands.txt does not declare mm %s", path)
	}
}

// Every flag that the program reads is declared with the type that it is read as.
func TestFlagsAreDeclared(t *testing.T) {
	declared := map[string]bool{}
	console.EachCommand((&program{}).commands(), "", func(_ string, c *cli.Command) {
		for _, f := range c.Flags {
			kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", f), "*cli."), "Flag")
			for _, name := range f.Names() {
				declared[kind+" "+name], declared["IsSet "+name] = true, true
			}
		}
	})
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			name, literal := call.Args[0].(*ast.BasicLit)
			if !ok || !literal || name.Kind != token.STRING {
				return true
			}
			if c, ok := method.X.(*ast.Ident); !ok || c.Name != "c" {
				return true
			}
			flag, err := strconv.Unquote(name.Value)
			if err != nil {
				t.Fatal(err)
			}
			read++
			if !declared[method.Sel.Name+" "+flag] {
				t.Errorf("%s reads --%s as %s, which commands.txt does not declare", file, flag, method.Sel.Name)
			}
			return true
		})
	}
	if read < 400 {
		t.Errorf("%d reads of flags: the rule is blind", read)
	}
}
