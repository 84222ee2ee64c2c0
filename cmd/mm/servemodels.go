package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/serve/dashboard"
	"mm-abi.org/mm/serve/jobs"
	"mm-abi.org/mm/serve/models"
	"mm-abi.org/mm/workspace"
)

// modelOptions reads the limits of the models in memory and of their keys and values, and where
// these are kept.
func (p *program) modelOptions(c *cli.Context, run *runner.Options) (models.Options, texts, error) {
	kept := texts{dir: c.String("keep")}
	opt := models.Options{Loaded: c.Int("loaded"), Log: func(line string) { p.Note("%s", line) }}
	if c.IsSet("keep-size") && kept.dir == "" {
		return opt, kept, diag.Usagef("--keep-size requires --keep")
	}
	for flag, into := range map[string]*int64{"model-memory": &opt.Memory, "kv-memory": &run.Limits.KV, "keep-size": &kept.limit} {
		if text := c.String(flag); text != "" {
			n, err := fsx.ParseSize(text)
			if err != nil {
				return opt, kept, diag.Usagef("--%s: %w", flag, err)
			}
			*into = n
		}
	}
	return opt, kept, nil
}

// fleet completes f, which has the arguments, by the ways to open their models.
func (p *program) fleet(w *workspace.Workspace, u use, run runner.Options, f models.Fleet) *models.Fleet {
	f.Workspace, f.Log = w, func(line string) { p.Note("%s", line) }
	f.Resolve = func(arg string) workspace.RunOptions { u.arg = arg; return u.runnable(run) }
	f.Source = func(ctx context.Context, b *builds.Build) (models.Source, error) {
		run := run
		if u.skills {
			if err := p.equip(ctx, w, b, &run); err != nil {
				return models.Source{}, err
			}
		}
		return models.Source{Build: b, Bytes: models.Bytes(b), Open: func(ctx context.Context) (models.Instance, error) {
			r, err := p.start(ctx, b, run)
			if err != nil {
				return nil, err
			}
			return models.Started{Runner: r}, nil
		}}, nil
	}
	return &f
}

// dashboardOptions returns the options of the dashboard; nil without --dashboard.
func dashboardOptions(c *cli.Context) (*dashboard.Options, error) {
	if c.Bool("dashboard") {
		return &dashboard.Options{Results: c.StringSlice("results"), Compat: c.String("compat")}, nil
	}
	return nil, refuseOptions(c, "--%s requires --dashboard", "results", "compat")
}

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
