package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/workspace"
)

func (p *program) pullCommand() *cli.Command {
	return &cli.Command{
		Name: "pull", Usage: "verify an artifact at a registry or layout and add it to the store", ArgsUsage: "REF",
		Description: "REF is HOST/REPOSITORY:TAG, …@sha256:… or oci:DIR[:NAME]. An interrupted pull is resumed. Kind,\n" +
			"name, version and signatures are checked before a layer is fetched.",
		Flags: append(append([]cli.Flag{
			p.jsonFlag(), &cli.StringFlag{Name: "layout", Usage: "pull into the OCI layout at `DIR` instead of the store"},
			&cli.StringFlag{Name: "as", Usage: "name in the store; a name that differs from the artifact's is an alias", DefaultText: "REF"},
			expectFlag(),
			&cli.StringFlag{Name: "target", Usage: "only the files of this target"},
			&cli.StringSliceFlag{Name: "only", Usage: "only some files: `role=ROLE`, format=FORMAT or a module's name"},
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "also write the files to `DIR`"},
		}, remoteFlags()...), claimFlags()...),
		Action: func(c *cli.Context) error {
			opt := workspace.PullOptions{
				Claim: claimOptions(c), As: c.String("as"), Target: c.String("target"), Only: c.StringSlice("only"), Out: c.String("out"),
			}
			if len(opt.Only) > 0 && opt.Out == "" {
				return usageError{errors.New("--only requires --out DIR: a partial artifact is not added to the store")}
			}
			return p.pull(c.Context, remoteOptions(c, "."), c.Args().First(), opt)
		},
	}
}

func (p *program) pull(ctx context.Context, open workspace.Options, ref string, opt workspace.PullOptions) error {
	return p.transfer(open, "pulling", func(w *workspace.Workspace) (moved, error) {
		got, err := w.Pull(ctx, ref, opt)
		if err != nil {
			return moved{}, err
		}
		r := got.Report
		done := moved{cmp.Or(got.Name, ref), got.Digest, r, fmt.Sprintf("%d of %d blobs received (%s), %d already present", r.Moved, r.Blobs, size(r.Bytes), r.Present), map[string]any{"permissions": listed(got.Permissions)}}
		for _, ask := range got.Permissions {
			done.summary = diag.Printable(ask.String()) + "\n" + done.summary
		}
		if got.Next != "" {
			done.summary += "\nnext: " + diag.Printable(got.Next)
			done.more["next"] = got.Next
		}
		return done, nil
	})
}
