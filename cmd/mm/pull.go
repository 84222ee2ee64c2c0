package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"
	"oras.land/oras-go/v2/errdef"

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
	t := p.newTransfer("pulling")
	open.Progress = t.event
	w, err := p.open(open)
	if err != nil {
		return err
	}
	defer w.Close()
	got, err := w.Pull(ctx, ref, opt)
	t.wait()
	if errors.Is(err, errdef.ErrInvalidReference) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	name := got.Name
	if name == "" {
		name = ref
	}
	if p.json {
		got.Report.Tags = listed(got.Report.Tags)
		return p.printJSON(map[string]any{"ref": name, "digest": got.Digest, "report": got.Report, "permissions": listed(got.Permissions)})
	}
	for _, ask := range got.Permissions {
		p.say("%s", diag.Printable(ask.String()))
	}
	r := got.Report
	p.say("%d of %d blobs received (%s), %d already present", r.Moved, r.Blobs, size(r.Bytes), r.Present)
	_, err = fmt.Fprintf(p.stdout, "%s@%s\n", name, got.Digest)
	return err
}
