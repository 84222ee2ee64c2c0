package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/serve/dashboard"
	"mm-abi.org/mm/workspace"
)

func (p *program) dashboardCommand() *cli.Command {
	return &cli.Command{
		Name: "dashboard", Usage: "write static pages about versions of builds",
		Subcommands: []*cli.Command{{
			Name: "build", Usage: "write the pages into a folder", ArgsUsage: "[REF|DIR…]",
			Description: "Shows each version, the oldest first: modules, digests, licenses and signers, the graph with its\n" +
				"limits, evaluations with the difference to the version before, down to the single sample, budgets,\n" +
				"compatibility, evidence and, of versions at a registry, channels. --results adds what mm eval suite\n" +
				"--out and mm eval budget --out wrote. The pages hold no scripts; the same input has the same bytes.",
			Flags: []cli.Flag{
				p.jsonFlag(), layoutFlag(), remoteFlag(), plainHTTPFlag(),
				&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "`FOLDER` for the pages: absent, empty or that of a dashboard", Required: true},
				&cli.StringSliceFlag{Name: "results", Usage: "`FOLDER` of mm eval suite --out or mm eval budget --out (repeatable)"},
				&cli.StringFlag{Name: "compat", Usage: "also show the combinations in `FILE`, such as builds/compat.csv"},
			},
			Action: func(c *cli.Context) error {
				opt := dashboard.Options{Refs: c.Args().Slice(), Remote: c.Bool("remote"), Results: c.StringSlice("results"), Compat: c.String("compat")}
				return p.inWorkspace(workspaceOptions(c, c.Args().First()), func(w *workspace.Workspace) error {
					return p.buildDashboard(c.Context, w, c.String("out"), opt)
				})
			},
		}},
	}
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
