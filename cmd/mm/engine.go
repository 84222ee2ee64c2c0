package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/workspace"
)

// engineCommands push, pull and remove engines, as artifacts.
func (p *program) engineCommands() []*cli.Command {
	return []*cli.Command{
		{
			Name: "push", Usage: "send an installed engine to a registry or layout", ArgsUsage: "NAME[@VERSION] DEST",
			Description: "The engine becomes an artifact: its libraries and licenses as raw layers, and an index of\n" +
				"its platforms. DEST is HOST/REPOSITORY[:TAG] or oci:DIR[:NAME], and the\n" +
				"repository must have the name of the engine. Without --sign, other machines refuse it by default.",
			Flags: append([]cli.Flag{
				p.jsonFlag(), &cli.StringFlag{Name: "sign", Usage: "sign with the private key `FILE` (\"default\": the key of mm keys generate)"},
				&cli.StringSliceFlag{Name: "with", Usage: "libraries for another platform, `OS/ARCH=FOLDER|ARCHIVE.tgz`; they are not tried"}, expectFlag(),
			}, remoteFlags()...),
			Action: func(c *cli.Context) error {
				opt := workspace.EnginePush{Engine: c.Args().Get(0), Dest: c.Args().Get(1), With: c.StringSlice("with"), Push: workspace.PushOptions{Expect: c.String("expect")}}
				return p.enginePush(c.Context, remoteOptions(c, "."), opt, c.String("sign"))
			},
		},
		{
			Name: "pull", Usage: "verify an engine at a registry or layout and install it", ArgsUsage: "REF",
			Description: "Like mm pull: name, version, kind and signatures are checked before a library is fetched. After\n" +
				"all bytes are verified, the library is loaded once to check that it works.",
			Flags: append(append([]cli.Flag{p.jsonFlag(), expectFlag()}, remoteFlags()...), claimFlags()...),
			Action: func(c *cli.Context) error {
				return p.enginePull(c.Context, remoteOptions(c, "."), c.Args().First(), claimOptions(c))
			},
		},
		{
			Name: "rm", Usage: "remove an installed engine", ArgsUsage: "NAME[@VERSION]",
			Action: func(c *cli.Context) error {
				return p.engineRemove(c.Context, c.Args().First())
			},
		},
	}
}

func (p *program) enginePush(ctx context.Context, open workspace.Options, opt workspace.EnginePush, key string) error {
	return p.transfer(open, "pushing", func(w *workspace.Workspace) (moved, error) {
		var err error
		if opt.Signer, err = p.signer(w, key); err != nil {
			return moved{}, err
		}
		done, err := w.PushEngine(ctx, opt)
		if err != nil {
			return moved{}, err
		}
		return moved{ref: done.Ref, digest: done.Digest, report: done.Report}, nil
	})
}

func (p *program) enginePull(ctx context.Context, open workspace.Options, ref string, claim workspace.Claim) error {
	t := p.newTransfer("pulling")
	open.Progress = t.event
	return p.inWorkspace(open, func(w *workspace.Workspace) error {
		opt, clear, err := w.PullEngine(ctx, ref, claim)
		t.wait()
		if err != nil {
			return invalidReference(err)
		}
		opt.Say = func(text string) { p.say("%s", text) }
		return errors.Join(p.installEngine(ctx, opt), clear())
	})
}

func (p *program) engineRemove(ctx context.Context, arg string) error {
	home, err := workspace.DefaultHome()
	if err != nil {
		return err
	}
	r, err := native.Installed(home, arg)
	if err != nil {
		return err
	}
	if err := native.Remove(ctx, r); err != nil {
		return err
	}
	err = p.line("%s %s removed from %s", r.Name, r.Version, r.Dir)
	return err
}
