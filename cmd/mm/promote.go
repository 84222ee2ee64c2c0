package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/workspace"
)

func (p *program) promoteAction(c *cli.Context) error {
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
