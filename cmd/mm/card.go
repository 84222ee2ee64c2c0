package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/workspace"
)

func (p *program) cardCommand() *cli.Command {
	return &cli.Command{
		Name: "card", Usage: "print the model card of an artifact: Markdown for a hub, or JSON", ArgsUsage: "REF|DIR",
		Description: "The card follows from the manifest, the modules and the statements by trusted keys: licenses, files,\n" +
			"figures with n, interval, suite and engine, signatures. What nothing states is unknown. With --check,\n" +
			"FILE is compared with the card: exit code 5 if it differs.",
		Flags: []cli.Flag{p.jsonFlag(), layoutFlag(), remoteFlag(), plainHTTPFlag(), &cli.StringFlag{Name: "target", Usage: "`TARGET` of a build with several"},
			&cli.StringFlag{Name: "check", Usage: "compare `FILE` with the card"}},
		Action: func(c *cli.Context) error {
			return p.inWorkspace(workspaceOptions(c, c.Args().First()), func(w *workspace.Workspace) error {
				at, err := find(c.Context, w, c.Args().First(), c.Bool("remote"))
				if err != nil {
					return err
				}
				return p.card(c.Context, w, at, c.String("target"), c.String("check"))
			})
		},
	}
}

func (p *program) card(ctx context.Context, w *workspace.Workspace, at *workspace.Located, target, check string) error {
	card, err := w.Card(ctx, at, target)
	if err != nil {
		return err
	}
	if check != "" {
		data, err := fsx.ReadFile(check, workspace.MaxCard)
		if err != nil {
			return err
		}
		return w.CheckCard(card, check, data)
	}
	if p.json {
		return p.printJSON(card)
	}
	_, err = p.stdout.Write(card.Markdown())
	return err
}
