package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/workspace"
)

func (p *program) pushCommand() *cli.Command {
	return &cli.Command{
		Name: "push", Usage: "send an artifact with its signatures to a registry or layout", ArgsUsage: "REF|DIR DEST",
		Description: "DEST is HOST/REPOSITORY[:TAG] or oci:DIR[:NAME]. The tag defaults to the artifact's version.\n" +
			"Each target of a build gets the tag TAG-TARGET, for clients that cannot read an index. The\n" +
			"repository must have the artifact's name and the tag its version, since pulls refuse anything\n" +
			"else; for a mirror, use --expect NAME.",
		Flags: append([]cli.Flag{p.jsonFlag(), layoutFlag(), expectFlag(),
			&cli.BoolFlag{Name: "force", Usage: "overwrite an existing version that has a different digest"}}, remoteFlags()...),
		Action: func(c *cli.Context) error {
			opt := workspace.PushOptions{Expect: c.String("expect"), Force: c.Bool("force")}
			return p.push(c.Context, remoteOptions(c, c.Args().First()), c.Args().Get(0), c.Args().Get(1), opt)
		},
	}
}

func (p *program) push(ctx context.Context, open workspace.Options, ref, dest string, opt workspace.PushOptions) error {
	return p.transfer(open, "pushing", func(w *workspace.Workspace) (moved, error) {
		done, err := w.Push(ctx, ref, dest, opt)
		if err != nil {
			return moved{}, err
		}
		r := done.Report
		return moved{done.Ref, done.Digest, r, fmt.Sprintf("%d of %d blobs sent (%s), %d already present, %d mounted; %s and other referrers",
			r.Moved, r.Blobs, size(r.Bytes), r.Present, r.Mounted, count(r.Referrers, "signature")), nil}, nil
	})
}
