package main

import (
	"embed"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/notices"
	"mm-abi.org/mm/schemas"
)

func (p *program) help(c *cli.Context) error {
	text, err := manual().Find(c.App, c.Args().Slice())
	if err == nil {
		_, err = fmt.Fprint(p.Stdout, text)
	}
	return err
}

func (p *program) man(c *cli.Context) error {
	return manual().WritePages(c.App, c.Args().First())
}

func (p *program) version(c *cli.Context) error {
	if c.Bool("licenses") {
		text, err := notices.Text()
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(p.Stdout, text)
		return err
	}
	v := built()
	if p.JSON {
		return p.PrintJSON(v)
	}
	_, err := fmt.Fprintln(p.Stdout, v)
	return err
}

// jsonVersion is the version of the JSON output (docs/JSON.md). It changes when a
// key is removed or changes its meaning.
const jsonVersion = 1

// built returns how this program was built.
func built() console.Build { return console.ReadBuild(version, jsonVersion) }

// completions holds the script of each shell, mm.SHELL; it asks mm for candidates.
//
//go:embed completion
var completions embed.FS

func (p *program) completion(c *cli.Context) error {
	script, err := completions.ReadFile("completion/mm." + c.Args().First())
	if err != nil {
		return diag.Usagef("unsupported shell %q, want bash, zsh, fish or powershell", c.Args().First())
	}
	_, err = p.Stdout.Write(script)
	return err
}

func (p *program) schema(c *cli.Context) error {
	if c.NArg() == 0 {
		_, err := fmt.Fprintln(p.Stdout, strings.ReplaceAll(joined(schemas.Kinds()), ", ", "\n"))
		return err
	}
	data, err := schemas.Bundle(schemas.Kind(c.Args().First()))
	if err != nil {
		hint := "mm schema lists the names"
		if near, ok := diag.Nearest(c.Args().First(), strings.Split(joined(schemas.Kinds()), ", ")); ok {
			hint = "did you mean " + near + "?"
		}
		return diag.Usage(diag.Hinted(err, hint))
	}
	_, err = fmt.Fprintf(p.Stdout, "%s", data)
	return err
}
