package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
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
	var rows [][]string
	for _, m := range l.Modules {
		for i, t := range m.Texts {
			from, digest := t.From, short(t.Digest)
			if from == "" {
				from, digest = "missing", "-"
			}
			name := ""
			if i == 0 {
				name = m.Name + " " + m.Version
			}
			rows = append(rows, []string{diag.Printable(name), diag.Printable(t.ID), diag.Printable(from), digest})
		}
		for _, n := range m.Notices {
			rows = append(rows, []string{"", "notice", diag.Printable(n.Path), short(n.Digest)})
		}
	}
	if err := p.PrintTable([]string{"MODULE", "LICENSE", "TEXT", "DIGEST"}, rows); err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "\nlicense of the build: %s\n", diag.Printable(l.License))
	for _, d := range l.Documents {
		fmt.Fprintf(p.Stdout, "%s: %s\n", d.Path, d.Digest)
	}
	for _, m := range l.Modules {
		for _, t := range m.Terms {
			fmt.Fprintf(p.Stdout, "%s: %s %s %s\n", diag.Printable(m.Name), diag.Printable(t.License), t.Kind, t.Clause)
		}
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
