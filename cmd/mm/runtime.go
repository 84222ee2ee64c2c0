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

func (p *program) runtimeCommand() *cli.Command {
	return &cli.Command{
		Name: "runtime", Usage: "install native engines, list and send them",
		Description: "mm runs language models by itself. Native engines compute in a process of their own,\n" +
			"mm-native: llamacpp (GGUF), onnxruntime (ONNX) and qnn (contexts for Qualcomm's NPUs, which are\n" +
			"emulated on a PC), chosen by --backend.",
		Action: noCommand("runtime", nil),
		Subcommands: append([]*cli.Command{
			{
				Name: "install", Usage: "install an engine's libraries", ArgsUsage: "llamacpp|onnxruntime|qnn[@VERSION]",
				Description: "Without --from, npm fetches the package that this mm was released with, and its digest\n" +
					"is checked. Nothing of it is run but the library, once, in mm-native, to see that it fits.\n" +
					"qnn comes by pip, at 2.7.0 or 2.3.0, and under Qualcomm's own licence, which is told first.",
				Flags: []cli.Flag{
					p.jsonFlag(),
					&cli.StringFlag{Name: "from", Usage: "take the libraries out of `FOLDER|ARCHIVE.tgz|FILE.whl`"},
					&cli.BoolFlag{Name: "accept-licence", Aliases: []string{"accept-license"}, Usage: "accept the licence that the engine's maker gives it"},
				},
				Action: p.runtimeInstall,
			},
			{
				Name: "ls", Aliases: []string{"list"}, Usage: "list the engines that are installed",
				Flags: []cli.Flag{p.jsonFlag()}, Action: p.runtimeList,
			},
		}, p.engineCommands()...),
	}
}

func (p *program) runtimeInstall(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	return p.installEngine(c.Context, native.Options{Name: c.Args().First(), From: c.String("from"), AcceptLicense: c.Bool("accept-licence"), Say: func(text string) { p.say("%s", text) }})
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
	for _, path := range notices(r) {
		p.say("licence: %s", path)
	}
	_, err = fmt.Fprintf(p.stdout, "%s %s (%s) in %s, from %s\n", r.Name, r.Version, r.License, r.Dir, origin(r))
	return err
}

func (p *program) runtimeList(c *cli.Context) error {
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
	return p.listEngines(c.Context)
}

// engineState is an installed engine, and whether it can be used.
type engineState struct {
	native.Record
	Notices []string `json:"notices"`
	State   string   `json:"state"` // "loads", or why it does not
}

func engineStates(ctx context.Context, all []native.Record) []engineState {
	list := []engineState{}
	for _, r := range all {
		s := engineState{Record: r, Notices: notices(r), State: "loads"}
		if err := native.Try(ctx, r); err != nil {
			s.State = err.Error()
		}
		list = append(list, s)
	}
	return list
}

func (p *program) listEngines(ctx context.Context) error {
	home, err := workspace.DefaultHome()
	if err != nil {
		return err
	}
	all, err := native.List(home)
	if err != nil {
		return err
	}
	states := engineStates(ctx, all)
	if p.json {
		return p.printJSON(states)
	}
	var rows [][]string
	for _, s := range states {
		state, _, _ := strings.Cut(s.State, "\n")
		rows = append(rows, []string{s.Name, s.Version, s.License, state, s.Dir, origin(s.Record)})
	}
	return p.printTable([]string{"ENGINE", "VERSION", "LICENSE", "STATE", "FOLDER", "FROM"}, rows)
}
