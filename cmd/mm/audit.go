package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/workspace"
)

func (p *program) auditCommand() *cli.Command {
	return &cli.Command{
		Name: "audit", Usage: "check the log of what was signed, moved, verified and run",
		Subcommands: []*cli.Command{{
			Name: "verify", Usage: "check that no line was changed, taken out or cut off",
			Description: "Every line holds the hash of the one before it, and a record beside the log the hash and the\n" +
				"number of the last. Whoever may write to MM_HOME can write both anew: note the printed hash\n" +
				"elsewhere and give it as --head to notice that, too.",
			Flags: []cli.Flag{p.jsonFlag(), &cli.StringFlag{Name: "head", Usage: "`HASH` that a line of the log must have, as printed earlier"}},
			Action: func(c *cli.Context) error {
				if err := wantArgs(c, 0, 0); err != nil {
					return err
				}
				return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error { return p.auditVerify(c.Context, w, c.String("head")) })
			},
		}},
	}
}

func (p *program) auditVerify(ctx context.Context, w *workspace.Workspace, head string) error {
	report, err := w.CheckAudit(ctx, head)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(report)
	}
	_, err = fmt.Fprintf(p.stdout, "%s, none missing; the last is %s\n", count(report.Entries, "line"), report.Head)
	return err
}
