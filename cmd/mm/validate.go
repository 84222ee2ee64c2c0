package main

import (
	"errors"
	"slices"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/workspace"
)

// validation holds the options of mm validate.
type validation struct {
	format string
	strict bool
}

func (p *program) validate(c *cli.Context, w *workspace.Workspace) error {
	paths := c.Args().Slice()
	if len(paths) == 0 {
		paths = []string{"."}
	}
	opt := validation{format: c.String("format"), strict: c.Bool("strict")}
	if p.JSON {
		opt.format = "json"
	}
	found, err := w.Validate(c.Context, paths, workspace.ValidateOptions{Files: c.Bool("files")})
	if err != nil {
		return err
	}
	return p.report(found, opt)
}

// report prints the results in the requested format.
func (p *program) report(found *workspace.Validation, opt validation) (err error) {
	list := found.Diagnostics
	switch opt.format {
	case "text":
		if err = p.Diagnose(p.Stdout, list); err == nil {
			p.Note("checked %s: %s, %s", diag.Count(found.Checked, "document"), diag.Count(list.Count(diag.Error), "error"), diag.Count(list.Count(diag.Warning), "warning"))
		}
	case "json":
		err = list.JSON(p.Stdout)
	case "github":
		err = list.GitHub(p.Stdout)
	default:
		return diag.Usagef("--format %q: want text, json or github", opt.format)
	}
	if err != nil {
		return err
	}
	if found.Checked == 0 && !list.Failed() {
		return errors.New("no module.yaml, graph or lock found")
	}
	if opt.strict && list.Count(diag.Warning) > 0 {
		return reported{&diag.Faults{List: slices.Clone(list)}}
	}
	if err := list.Err(); err != nil {
		return reported{err}
	}
	return nil
}
