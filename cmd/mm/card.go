package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/workspace"
)

func (p *program) cardCommand() *cli.Command {
	return &cli.Command{
		Name: "card", Usage: "print the model card of an artifact: Markdown for a hub, or JSON", ArgsUsage: "REF|DIR",
		Description: "The card follows from the manifest, the modules and the statements by trusted keys: licenses, files,\n" +
			"figures with n, interval, suite and engine, signatures. What nothing states is unknown. With --check,\n" +
			"a file is compared with the card, or each file of a folder: README.md, those of .eval_results, and the\n" +
			"figures of a CycloneDX bill of materials; exit code 5 if one differs.",
		Flags: []cli.Flag{p.jsonFlag(), layoutFlag(), remoteFlag(), plainHTTPFlag(), &cli.StringFlag{Name: "target", Usage: "`TARGET` of a build with several"},
			&cli.StringFlag{Name: "check", Usage: "compare `FILE`, or the files of a folder, with the card"},
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write README.md, mm-card.json and .eval_results to `FOLDER`"}},
		Action: func(c *cli.Context) error {
			return p.inWorkspace(workspaceOptions(c, c.Args().First()), func(w *workspace.Workspace) error {
				at, err := find(c.Context, w, c.Args().First(), c.Bool("remote"))
				if err != nil {
					return err
				}
				return p.card(c.Context, w, at, c.String("target"), cardFiles{c.String("check"), c.String("out")})
			})
		},
	}
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
