package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/workspace"
)

func (p *program) promoteCommand() *cli.Command {
	return &cli.Command{
		Name: "promote", Usage: "lead a channel of a repository to an artifact", ArgsUsage: "HOST/REPO:TAG",
		Description: "Writes the next version of the channel: a signed document at the registry, under a tag that is\n" +
			"written once. trust.yaml lists the evidence that a channel demands. mm pull HOST/REPO:CHANNEL follows it.",
		Flags: []cli.Flag{
			p.jsonFlag(), plainHTTPFlag(), &cli.StringFlag{Name: "to", Usage: "`CHANNEL`, such as staging, candidate or prod", Required: true},
			&cli.StringFlag{Name: "key", Usage: "private key `FILE` (default: the key of mm keys generate)"},
			&cli.StringFlag{Name: "trust", Usage: "trust `FILE` that decides instead of the user's and the project's"},
			&cli.DurationFlag{Name: "valid", Usage: "`TIME` until the document expires, such as 720h (default: no end)"},
			&cli.BoolFlag{Name: "rollback", Usage: "lead back to an earlier artifact of the channel"},
			&cli.BoolFlag{Name: "history", Usage: "list the versions of the channel and change nothing"},
		},
		Action: func(c *cli.Context) error {
			opt := workspace.PromoteOptions{To: c.String("to"), Valid: c.Duration("valid"), Rollback: c.Bool("rollback")}
			return p.inWorkspace(workspaceOptions(c, c.Args().First()), func(w *workspace.Workspace) error {
				if c.Bool("history") {
					list, err := w.History(c.Context, c.Args().First(), opt.To)
					if err != nil {
						return err
					}
					return p.printVersions(list)
				}
				s, err := w.Signer(c.String("key"), p.password)
				if err != nil {
					return err
				}
				v, err := w.Promote(c.Context, c.Args().First(), s, opt)
				if err != nil {
					return err
				}
				return p.printVersions([]workspace.ChannelVersion{*v})
			})
		},
	}
}

// printVersions prints versions of a channel, one a line.
func (p *program) printVersions(list []workspace.ChannelVersion) error {
	if p.json {
		return p.printJSON(list)
	}
	for _, v := range list {
		note := ""
		if v.Rollback {
			note = " rollback"
		}
		if _, err := fmt.Fprintf(p.stdout, "%s %d %s%s\n", v.Channel, v.Version, v.Digest, note); err != nil {
			return err
		}
	}
	return nil
}
