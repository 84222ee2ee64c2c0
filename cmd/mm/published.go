package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/workspace"
)

func (p *program) registryLs(c *cli.Context, w *workspace.Workspace) error {
	list, err := w.Repositories(c.Context, c.Args().First())
	if err != nil {
		return err
	}
	return printRows(p, list, []string{"REPOSITORY"}, func(name string) []string { return []string{name} })
}

func (p *program) registryTags(c *cli.Context, w *workspace.Workspace) error {
	list, err := w.Tags(c.Context, c.Args().First())
	if err != nil {
		return err
	}
	return printRows(p, list, []string{"REF", "DIGEST"}, func(t workspace.PublishedTag) []string { return []string{t.Ref, short(t.Digest)} })
}

func (p *program) registryRm(c *cli.Context, w *workspace.Workspace) error {
	deleted, err := w.Unpublish(c.Context, c.Args().Slice()...)
	for _, ref := range deleted {
		p.Note("deleted %s", ref)
	}
	return p.silently(map[string][]string{"deleted": deleted}, err)
}

func (p *program) registryCp(c *cli.Context) error {
	return p.transfer(remoteOptions(c, "."), "copying", func(w *workspace.Workspace) (moved, error) {
		claim := claimOptions(c)
		claim.Expect = c.String("expect")
		done, err := w.Copy(c.Context, c.Args().Get(0), c.Args().Get(1), workspace.CopyOptions{Claim: claim, Force: c.Bool("force")})
		if err != nil {
			return moved{}, err
		}
		return moved{done.Ref, done.Digest, done.Report, sent(done.Report) + "; " + diag.Count(done.Report.Referrers, "signature") + " and other referrers", nil}, nil
	})
}

func (p *program) registryAttach(c *cli.Context) error {
	return p.transfer(remoteOptions(c, "."), "attaching", func(w *workspace.Workspace) (moved, error) {
		done, err := w.Attach(c.Context, c.Args().Get(0), c.Args().Get(1), workspace.AttachOptions{Type: c.String("type")})
		if err != nil {
			return moved{}, err
		}
		return moved{done.Ref, done.Digest, done.Report, fmt.Sprintf("%s attached to %s", c.Args().Get(1), c.Args().Get(0)), nil}, nil
	})
}

func (p *program) registryDiff(c *cli.Context, w *workspace.Workspace) error {
	list, err := w.Diff(c.Context, c.Args().Get(0), c.Args().Get(1))
	if err == nil {
		err = printRows(p, list, []string{"CHANGE", "FILE", "OLD", "NEW"}, func(d workspace.Change) []string {
			return []string{d.Kind(), d.String(), short(d.Old), short(d.New)}
		})
	}
	if len(list) == 0 && err == nil {
		p.Note("the files are identical")
	}
	if err == nil && len(list) > 0 && c.Bool("exit-code") {
		return reported{errors.New("the artifacts differ")}
	}
	return err
}
