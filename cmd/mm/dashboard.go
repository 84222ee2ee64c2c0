package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/serve/dashboard"
	"mm-abi.org/mm/workspace"
)

func (p *program) dashboardBuildAction(c *cli.Context) error {
	opt := dashboard.Options{Refs: c.Args().Slice(), Remote: c.Bool("remote"), Results: c.StringSlice("results"), Compat: c.String("compat")}
	return p.inWorkspace(workspaceOptions(c, c.Args().First()), func(w *workspace.Workspace) error {
		return p.buildDashboard(c.Context, w, c.String("out"), opt)
	})
}

// dashboardFile is a row of the output.
type dashboardFile struct {
	Path string `json:"path"`
	Size int    `json:"size"`
}

func (p *program) buildDashboard(ctx context.Context, w *workspace.Workspace, out string, opt dashboard.Options) error {
	in, err := dashboard.Collect(ctx, w, opt)
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
	if p.json {
		return p.printJSON(list)
	}
	return p.line("%d files in %s", len(list), out)
}
