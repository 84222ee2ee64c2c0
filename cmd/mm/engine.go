package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/workspace"
)

func (p *program) runtimePushAction(c *cli.Context) error {
	opt := workspace.EnginePush{Engine: c.Args().Get(0), Dest: c.Args().Get(1), With: c.StringSlice("with"), Push: workspace.PushOptions{Expect: c.String("expect")}}
	return p.enginePush(c.Context, remoteOptions(c, "."), opt, c.String("sign"))
}

func (p *program) runtimePullAction(c *cli.Context) error {
	return p.enginePull(c.Context, remoteOptions(c, "."), c.Args().First(), claimOptions(c))
}

func (p *program) runtimeRmAction(c *cli.Context) error {
	return p.engineRemove(c.Context, c.Args().First())
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
