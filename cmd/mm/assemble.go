package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/workspace"
)

func (p *program) assembleAction(c *cli.Context) error {
	opt := assemble.Options{
		Graph: c.Args().First(), Out: c.String("out"), Target: c.String("target"), Exports: c.StringSlice("export"),
		KeepGoing: c.Bool("keep-going"), Force: c.Bool("force"), Exporters: exporters(), Progress: p.step,
	}
	return p.inWorkspace(workspaceOptions(c, opt.Graph), func(w *workspace.Workspace) error {
		return p.assemble(c.Context, w, c.String("sign"), opt, resolveOptions(c))
	})
}

// resolveOptions reads resolveFlags and claimFlags.
func resolveOptions(c *cli.Context) workspace.ResolveOptions {
	return workspace.ResolveOptions{Claim: claimOptions(c), Locked: c.Bool("locked"), Update: c.StringSlice("update")}
}

func (p *program) assemble(ctx context.Context, w *workspace.Workspace, key string, opt assemble.Options, res workspace.ResolveOptions) (err error) {
	if opt.Signer, err = p.signer(w, key); err != nil {
		return err
	}
	result, err := w.Assemble(ctx, opt, res)
	if err != nil {
		return err
	}
	return p.printResult(result)
}

// step reports progress of assemble.
func (p *program) step(step, detail string) {
	if detail != "" {
		p.say("%-9s %s", step, detail)
	}
}

func (p *program) printResult(r *assemble.Result) error {
	if p.json {
		return p.printJSON(r)
	}
	if err := p.tell(p.stderr, r.Diagnostics); err != nil {
		return err
	}
	rows := rowsOf(r.Targets, func(t assemble.TargetResult) []string {
		return []string{t.Target, t.Ref, fmt.Sprint(t.Files), size(t.Bytes), short(t.Digest)}
	})
	if err := p.printTable([]string{"TARGET", "REF", "FILES", "SIZE", "DIGEST"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s\n", r.Ref, r.Digest)
	return err
}
