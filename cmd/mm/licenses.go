package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/workspace"
)

func (p *program) licensesAction(c *cli.Context) error {
	return p.inWorkspace(workspaceOptions(c, c.Args().First()), func(w *workspace.Workspace) error {
		at, err := find(c.Context, w, c.Args().First(), c.Bool("remote"))
		if err != nil {
			return err
		}
		l, err := w.Licenses(c.Context, at, c.String("target"))
		if err != nil {
			return err
		}
		return p.licenses(l, c.Bool("check"))
	})
}

func (p *program) licenses(l *workspace.Licenses, check bool) error {
	faults := l.Faults
	if check {
		faults = append(faults, l.Missing()...)
	}
	if p.json {
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
	if err := p.printTable([]string{"MODULE", "LICENSE", "TEXT", "DIGEST"}, rows); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "\nlicense of the build: %s\n", diag.Printable(l.License))
	for _, d := range l.Documents {
		fmt.Fprintf(p.stdout, "%s: %s\n", d.Path, d.Digest)
	}
	for _, m := range l.Modules {
		for _, t := range m.Terms {
			fmt.Fprintf(p.stdout, "%s: %s %s %s\n", diag.Printable(m.Name), diag.Printable(t.License), t.Kind, t.Clause)
		}
	}
	p.tell(p.stderr, faults)
	if faults.Failed() {
		return reported{faults.Err()}
	}
	return nil
}
