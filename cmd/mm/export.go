package main

import (
	"slices"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/builds/servers"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/workspace"
)

func (p *program) exportPeft(c *cli.Context) error {
	if err := convert.ExportPEFT(c.Args().First(), convert.Adapted{Core: c.String("core")}, c.String("base"), c.String("out")); err != nil {
		return err
	}
	return p.PrintLine(map[string]any{"out": c.String("out")}, "%s", diag.Printable(c.String("out")))
}

func (p *program) exportServer(c *cli.Context) error {
	opt := workspace.ServerOptions{Claim: claimOptions(c), Kind: servers.Kind(c.String("kind")), Target: c.String("target"), Out: c.String("out"),
		ManifestOptions: servers.ManifestOptions{Server: c.String("server"), Format: c.String("format")}}
	if !slices.Contains(servers.Kinds(), opt.Kind) {
		return diag.Usagef("kind: got %q, want one of %s", opt.Kind, joined(servers.Kinds()))
	}
	if c.Args().First() == "" {
		return diag.Usagef("REF is missing")
	}
	return p.inWorkspace(remoteOptions(c, c.Args().First()), func(w *workspace.Workspace) error {
		files, err := w.ExportServer(c.Context, c.Args().First(), opt)
		return p.exported(map[string]any{"kind": opt.Kind}, opt.Out, files, err)
	})
}

func (p *program) exportWeb(c *cli.Context) error {
	opt := workspace.WebOptions{Claim: claimOptions(c), Target: c.String("target"), Out: c.String("out")}
	runtime, err := native.OpenWeb(c.Context, c.String("runtime"))
	if err != nil {
		return err
	}
	opt.Runtime = servers.WebRuntime(runtime)
	return p.inWorkspace(remoteOptions(c, c.Args().First()), func(w *workspace.Workspace) error {
		files, err := w.ExportWeb(c.Context, c.Args().First(), opt)
		return p.exported(map[string]any{}, opt.Out, files, err)
	})
}

// exported prints the files of an export.
func (p *program) exported(doc map[string]any, out string, files []string, err error) error {
	if err != nil {
		return invalidReference(err)
	}
	for _, f := range files {
		if !p.JSON {
			p.Note("%s", diag.Printable(f))
		}
	}
	doc["out"], doc["files"] = out, files
	return p.PrintLine(doc, "%s", diag.Printable(out))
}
