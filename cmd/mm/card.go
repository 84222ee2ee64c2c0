package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/workspace"
)

func (p *program) cardAction(c *cli.Context) error {
	return p.inWorkspace(workspaceOptions(c, c.Args().First()), func(w *workspace.Workspace) error {
		at, err := find(c.Context, w, c.Args().First(), c.Bool("remote"))
		if err != nil {
			return err
		}
		return p.card(c.Context, w, at, c.String("target"), cardFiles{c.String("check"), c.String("out")})
	})
}

// cardFiles names the file or folder to compare, and the folder to write.
type cardFiles struct{ check, out string }

func (p *program) card(ctx context.Context, w *workspace.Workspace, at *workspace.Located, target string, files cardFiles) error {
	card, err := w.Card(ctx, at, target)
	switch {
	case err != nil:
		return err
	case files.check != "":
		return w.CheckCard(card, files.check)
	case files.out != "":
		written, err := w.WriteCard(card, files.out)
		for _, name := range written {
			fmt.Fprintln(p.stdout, name)
		}
		return err
	case p.json:
		return p.printJSON(card)
	}
	_, err = p.stdout.Write(card.Markdown())
	return err
}
