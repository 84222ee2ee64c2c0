package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/workspace"
)

func (p *program) auditVerifyAction(c *cli.Context) error {
	return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error { return p.auditVerify(c.Context, w, c.String("head")) })
}

func (p *program) auditVerify(ctx context.Context, w *workspace.Workspace, head string) error {
	report, err := w.CheckAudit(ctx, head)
	if err != nil {
		return err
	}
	return p.printLine(report, "%s, none missing; the last is %s", count(report.Entries, "line"), report.Head)
}
