package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/workspace"
)

func (p *program) lockAction(c *cli.Context) error {
	opt := workspace.LockOptions{ResolveOptions: resolveOptions(c), Check: c.Bool("check")}
	return p.inWorkspace(workspaceOptions(c, c.Args().First()), func(w *workspace.Workspace) error {
		return p.lock(c.Context, w, c.Args().First(), opt)
	})
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
	rows := rowsOf(done.Lock.Modules, func(m builds.Locked) []string {
		return []string{m.Name, m.Version, m.Source, size(m.Size), short(m.Digest)}
	})
	if err := p.printTable([]string{"MODULE", "VERSION", "FROM", "SIZE", "DIGEST"}, rows); err != nil {
		return err
	}
	err = p.line("%s", done.File)
	return err
}
