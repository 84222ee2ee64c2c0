package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/workspace"
)

func (p *program) runtimeInstall(c *cli.Context) error {
	return p.installEngine(c.Context, native.Options{Name: c.Args().First(), From: c.String("from"), AcceptLicense: c.Bool("accept-license") || c.Bool("accept-licence"), Say: func(text string) { p.say("%s", text) }})
}

func (p *program) installEngine(ctx context.Context, opt native.Options) error {
	var err error
	if opt.Home, err = workspace.DefaultHome(); err != nil {
		return err
	}
	r, err := native.Install(ctx, opt)
	if bound := (*native.LicenseError)(nil); errors.As(err, &bound) {
		fmt.Fprintln(p.stderr, strings.TrimSpace(bound.Text))
		return usageError{err}
	}
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(r)
	}
	for _, path := range r.Notices() {
		p.say("license: %s", path)
	}
	err = p.line("%s %s (%s) in %s, from %s", r.Name, r.Version, r.License, r.Dir, r.Origin())
	return err
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
