package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/serve/jobs"
	"mm-abi.org/mm/workspace"
)

// jobOptions reads the options of the jobs that --jobs allows.
func (p *program) jobOptions(c *cli.Context) jobs.Options {
	return jobs.Options{
		Dir: c.String("jobs"), Time: c.Duration("jobs-time"), Queue: c.Int("jobs-queue"),
		Assemble: func(ctx context.Context, opt assemble.Options, locked bool) (built *assemble.Result, err error) {
			opt.Exporters = exporters()
			res := workspace.ResolveOptions{Claim: workspace.Claim{Skip: c.Bool("insecure-skip-verify")}, Locked: locked || c.Bool("locked")}
			err = p.inWorkspace(workspaceOptions(c, opt.Graph), func(w *workspace.Workspace) (err error) {
				built, err = w.Assemble(ctx, opt, res)
				return err
			})
			return built, err
		},
	}
}

// recorded adds the audit log of a workspace to the options of jobs.
func (p *program) recorded(ctx context.Context, w *workspace.Workspace, opt jobs.Options) jobs.Options {
	opt.Ended = func(kind, ref, digest string, err error) {
		w.Record(context.WithoutCancel(ctx), audit.Entry{Action: "serve", Ref: ref + " (" + kind + ")", Digest: digest, Result: workspace.Outcome(err)})
	}
	return opt
}
