package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/workspace"
)

func (p *program) auditCommand() *cli.Command {
	return &cli.Command{
		Name: "audit", Usage: "check the audit log of signing, transfers, verification and runs",
		Subcommands: []*cli.Command{{
			Name: "verify", Usage: "check that no line was changed, removed or cut off",
			Description: "Each line holds the hash of the previous one; a separate record holds the hash and the number of\n" +
				"the last. An attacker who can write to MM_HOME can rewrite both: to detect that too, keep the\n" +
				"printed hash elsewhere and pass it as --head.",
			Flags: []cli.Flag{p.jsonFlag(), &cli.StringFlag{Name: "head", Usage: "`HASH` of a line that the log must contain, as printed earlier"}},
			Action: func(c *cli.Context) error {
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
	return p.printLine(report, "%s, none missing; the last is %s", count(report.Entries, "line"), report.Head)
}
