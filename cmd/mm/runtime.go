package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/workspace"
)

func (p *program) runtimeInstall(c *cli.Context) error {
	return p.installEngine(c.Context, native.Options{Name: c.Args().First(), From: c.String("from"), AcceptLicense: c.Bool("accept-license") || c.Bool("accept-licence"), Say: func(text string) { p.Note("%s", text) }})
}

func (p *program) installEngine(ctx context.Context, opt native.Options) error {
	var err error
	if opt.Home, err = workspace.DefaultHome(); err != nil {
		return err
	}
	r, err := native.Install(ctx, opt)
	if bound := (*native.LicenseError)(nil); errors.As(err, &bound) {
		fmt.Fprintln(p.Stderr, strings.TrimSpace(bound.Text))
		return diag.Usage(err)
	}
	if err != nil {
		return err
	}
	if p.JSON {
		return p.PrintJSON(r)
	}
	for _, path := range r.Notices() {
		p.Note("license: %s", path)
	}
	return p.Line("%s %s (%s) in %s, from %s", r.Name, r.Version, r.License, r.Dir, r.Origin())
}

func (p *program) runtimeList(c *cli.Context) error {
	home, err := workspace.DefaultHome()
	if err != nil {
		return err
	}
	states, err := native.States(c.Context, home)
	if err != nil {
		return err
	}
	return printRows(p, states, []string{"ENGINE", "VERSION", "LICENSE", "STATE", "FOLDER", "FROM"}, func(s native.State) []string {
		state, _, _ := strings.Cut(s.State, "\n")
		return []string{s.Name, s.Version, s.License, state, s.Dir, s.Record.Origin()}
	})
}

func (p *program) enginePush(c *cli.Context) error {
	opt := workspace.EnginePush{Engine: c.Args().Get(0), Dest: c.Args().Get(1), With: c.StringSlice("with"), Push: workspace.PushOptions{Expect: c.String("expect")}}
	return p.transfer(remoteOptions(c, "."), "pushing", func(w *workspace.Workspace) (moved, error) {
		var err error
		if opt.Signer, err = p.signer(w, c.String("sign")); err != nil {
			return moved{}, err
		}
		done, err := w.PushEngine(c.Context, opt)
		if err != nil {
			return moved{}, err
		}
		return moved{ref: done.Ref, digest: done.Digest, report: done.Report}, nil
	})
}

func (p *program) enginePull(c *cli.Context) error {
	open := remoteOptions(c, ".")
	t := p.newTransfer("pulling")
	open.Progress = t.Event
	return p.inWorkspace(open, func(w *workspace.Workspace) error {
		opt, clear, err := w.PullEngine(c.Context, c.Args().First(), claimOptions(c))
		t.Wait()
		if err != nil {
			return invalidReference(err)
		}
		opt.Say = func(text string) { p.Note("%s", text) }
		return errors.Join(p.installEngine(c.Context, opt), clear())
	})
}

func (p *program) engineRemove(c *cli.Context) error {
	home, err := workspace.DefaultHome()
	if err != nil {
		return err
	}
	r, err := native.Installed(home, c.Args().First())
	if err != nil {
		return err
	}
	if err := native.Remove(c.Context, r); err != nil {
		return err
	}
	return p.Line("%s %s removed from %s", r.Name, r.Version, r.Dir)
}

func (p *program) doctor(c *cli.Context, w *workspace.Workspace) error {
	found := w.Examine(c.Context, workspace.ExamineOptions{Version: version, Engines: p.engines})
	err := printRows(p, found, []string{"WHAT", "STATE", "DETAIL"}, func(f workspace.Finding) []string { return []string{f.What, f.State, f.Detail} })
	for _, f := range found {
		if f.Hint != "" && !p.JSON {
			fmt.Fprintf(p.Stdout, "%s: %s\n", f.What, f.Hint)
		}
	}
	return err
}
