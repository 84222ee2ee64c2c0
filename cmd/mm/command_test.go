package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// Every command of commands.txt has an action or subcommands, and every action a command.
func TestCommandsHaveActions(t *testing.T) {
	p := &program{}
	actions := p.actions()
	var walk func(commands []*cli.Command, path string)
	walk = func(commands []*cli.Command, path string) {
		for _, c := range commands {
			name := strings.TrimSpace(path + " " + c.Name)
			if c.Action == nil && len(c.Subcommands) == 0 {
				t.Errorf("mm %s has no action", name)
			}
			delete(actions, name)
			walk(c.Subcommands, name)
		}
	}
	walk(p.commands(), "")
	for path := range actions {
		t.Errorf("commands.txt does not declare mm %s", path)
	}
}

// Every flag that the program reads is declared with the type that it is read as.
func TestFlagsAreDeclared(t *testing.T) {
	declared := map[string]bool{}
	var walk func(commands []*cli.Command)
	walk = func(commands []*cli.Command) {
		for _, c := range commands {
			for _, f := range c.Flags {
				kind := ""
				switch f.(type) {
				case *cli.BoolFlag:
					kind = "Bool"
				case *cli.StringFlag:
					kind = "String"
				case *cli.StringSliceFlag:
					kind = "StringSlice"
				case *cli.IntFlag:
					kind = "Int"
				case *cli.Int64Flag:
					kind = "Int64"
				case *cli.UintFlag:
					kind = "Uint"
				case *cli.Uint64Flag:
					kind = "Uint64"
				case *cli.Float64Flag:
					kind = "Float64"
				case *cli.DurationFlag:
					kind = "Duration"
				}
				for _, name := range f.Names() {
					declared[kind+" "+name], declared["IsSet "+name] = true, true
				}
			}
			walk(c.Subcommands)
		}
	}
	walk((&program{}).commands())
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
