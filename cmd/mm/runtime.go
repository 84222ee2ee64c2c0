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
		Name: "runtime", Usage: "install, list, push and pull native engines",
		Description: "mm runs language models with its own engine. Native engines run in a separate process,\n" +
			"mm-native: llamacpp (GGUF), onnxruntime (ONNX), openvino (its own files), litert (TFLite) and qnn\n" +
			"(contexts for Qualcomm NPUs, emulated on a PC). --backend selects them.",
		Action: noCommand("runtime", nil),
		Subcommands: append([]*cli.Command{
			{
				Name: "install", Usage: "install the libraries of an engine", ArgsUsage: "litert|llamacpp|onnxruntime|openvino|qnn[@VERSION]",
				Description: "Without --from, npm fetches the package pinned by this mm, and its digest is verified. Only the\n" +
					"library is executed, once, in mm-native, to check that it loads. litert, openvino and qnn are\n" +
					"fetched with pip; qnn (versions 2.7.0 and 2.3.0) requires acceptance of Qualcomm's license, which is shown first.",
				Flags: []cli.Flag{
					p.jsonFlag(),
					&cli.StringFlag{Name: "from", Usage: "take the libraries from `FOLDER|ARCHIVE.tgz|FILE.whl`"},
					&cli.BoolFlag{Name: "accept-license", Usage: "accept the license of the engine"},
					&cli.BoolFlag{Name: "accept-licence", Hidden: true}, // the former spelling
				},
				Action: p.runtimeInstall,
			},
			{
				Name: "ls", Aliases: []string{"list"}, Usage: "list the installed engines",
				Flags: []cli.Flag{p.jsonFlag()}, Action: p.runtimeList,
			},
		}, p.engineCommands()...),
	}
}

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
