package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/workspace"
)

// resolveOptions reads resolveFlags and claimFlags.
func resolveOptions(c *cli.Context) workspace.ResolveOptions {
	return workspace.ResolveOptions{Claim: claimOptions(c), Locked: c.Bool("locked"), Update: c.StringSlice("update")}
}

func (p *program) assemble(c *cli.Context, w *workspace.Workspace) (err error) {
	opt := assemble.Options{
		Graph: c.Args().First(), Out: c.String("out"), Target: c.String("target"), Exports: c.StringSlice("export"),
		KeepGoing: c.Bool("keep-going"), Force: c.Bool("force"), Exporters: exporters(), Progress: p.step,
	}
	if opt.Signer, err = p.signer(w, c.String("sign")); err != nil {
		return err
	}
	result, err := w.Assemble(c.Context, opt, resolveOptions(c))
	return show(p, result, err, p.printResult)
}

// step reports progress of assemble.
func (p *program) step(step, detail string) {
	if detail != "" {
		p.Note("%-9s %s", step, detail)
	}
}

func (p *program) printResult(r *assemble.Result) error {
	if err := p.Diagnose(p.Stderr, r.Diagnostics); err != nil {
		return err
	}
	rows := rowsOf(r.Targets, func(t assemble.TargetResult) []string {
		return []string{t.Target, t.Ref, fmt.Sprint(t.Files), size(t.Bytes), short(t.Digest)}
	})
	if err := p.PrintTable([]string{"TARGET", "REF", "FILES", "SIZE", "DIGEST"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.Stdout, "%s %s\n", r.Ref, r.Digest)
	return err
}

func (p *program) lock(c *cli.Context, w *workspace.Workspace) error {
	done, err := w.Lock(c.Context, c.Args().First(), workspace.LockOptions{ResolveOptions: resolveOptions(c), Check: c.Bool("check")})
	if err != nil {
		return err
	}
	return p.PrintOr(done.Lock, func() error {
		if err := p.Diagnose(p.Stderr, done.Diagnostics); err != nil {
			return err
		}
		if err := p.PrintTable([]string{"MODULE", "VERSION", "FROM", "SIZE", "DIGEST"}, rowsOf(done.Lock.Modules, func(m builds.Locked) []string {
			return []string{m.Name, m.Version, m.Source, size(m.Size), short(m.Digest)}
		})); err != nil {
			return err
		}
		return p.Line("%s", done.File)
	})
}
