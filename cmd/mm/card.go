package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/serve/dashboard"
	"mm-abi.org/mm/workspace"
)

func (p *program) card(c *cli.Context, w *workspace.Workspace, at *workspace.Located) error {
	card, err := w.Card(c.Context, at, c.String("target"))
	switch {
	case err != nil:
		return err
	case c.String("check") != "":
		return w.CheckCard(card, c.String("check"))
	case c.String("out") != "":
		written, err := w.WriteCard(card, c.String("out"))
		for _, name := range written {
			fmt.Fprintln(p.Stdout, name)
		}
		return err
	case p.JSON:
		return p.PrintJSON(card)
	}
	_, err = p.Stdout.Write(card.Markdown())
	return err
}

func (p *program) licenses(c *cli.Context, w *workspace.Workspace, at *workspace.Located) error {
	l, err := w.Licenses(c.Context, at, c.String("target"))
	if err != nil {
		return err
	}
	faults := l.Faults
	if c.Bool("check") {
		faults = append(faults, l.Missing()...)
	}
	if p.JSON {
		return p.printJudged(l, faults)
	}
	if err := l.Write(p.Stdout); err != nil {
		return err
	}
	p.Diagnose(p.Stderr, faults)
	if faults.Failed() {
		return reported{faults.Err()}
	}
	return nil
}

// dashboardFile is a row of the output.
type dashboardFile struct {
	Path string `json:"path"`
	Size int    `json:"size"`
}

func (p *program) buildDashboard(c *cli.Context, w *workspace.Workspace) error {
	out := c.String("out")
	in, err := dashboard.Collect(c.Context, w, dashboard.Options{Refs: c.Args().Slice(), Remote: c.Bool("remote"), Results: c.StringSlice("results"), Compat: c.String("compat")})
	if err != nil {
		return err
	}
	files, err := dashboard.Render(in)
	if err != nil {
		return err
	}
	if err := dashboard.Write(out, files); err != nil {
		return err
	}
	var list []dashboardFile
	for _, f := range files {
		list = append(list, dashboardFile{f.Path, len(f.Data)})
	}
	return p.PrintOr(list, func() error { return p.Line("%d files in %s", len(list), out) })
}
