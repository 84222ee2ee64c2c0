package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/workspace"
)

func (p *program) lockCommand() *cli.Command {
	return &cli.Command{
		Name: "lock", Usage: "pin the modules of a graph to exact bytes", ArgsUsage: "GRAPH",
		Description: "Writes NAME.lock.yaml beside the graph and the build's rows of compat.csv. What is\n" +
			"locked already stays as it is, unless --update names it.",
		Flags: append(append([]cli.Flag{
			p.jsonFlag(),
			&cli.StringSliceFlag{Name: "update", Usage: "look for a newer version of `NAME` (* for all)"},
			&cli.BoolFlag{Name: "check", Usage: "write nothing; fail if the lock is out of date"},
		}, resolveFlags()...), claimFlags()...),
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 1, 1); err != nil {
				return err
			}
			opt := workspace.LockOptions{ResolveOptions: resolveOptions(c), Check: c.Bool("check")}
			return p.inWorkspace(workspaceOptions(c, c.Args().First()), func(w *workspace.Workspace) error {
				return p.lock(c.Context, w, c.Args().First(), opt)
			})
		},
	}
}

func (p *program) lock(ctx context.Context, w *workspace.Workspace, graph string, opt workspace.LockOptions) error {
	done, err := w.Lock(ctx, graph, opt)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(done.Lock)
	}
	if err := p.tell(p.stderr, done.Diagnostics); err != nil {
		return err
	}
	var rows [][]string
	for _, m := range done.Lock.Modules {
		rows = append(rows, []string{m.Name, m.Version, m.Source, size(m.Size), short(m.Digest)})
	}
	if err := p.printTable([]string{"MODULE", "VERSION", "FROM", "SIZE", "DIGEST"}, rows); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.stdout, done.File)
	return err
}
