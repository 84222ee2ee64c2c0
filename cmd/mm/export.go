package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/builds/servers"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/workspace"
)

func (p *program) exportCommand() *cli.Command {
	return &cli.Command{
		Name: "export", Usage: "write a build in the form of other software",
		Subcommands: []*cli.Command{{
			Name: "server", Usage: "write the files of an inference server or an orchestrator", ArgsUsage: "REF",
			Description: "triton and ovms get the ONNX functions of a build, laid out and configured. kserve and k8s refer\n" +
				"to a container image at a registry (mm push --as-image), compose to one target of a build there,\n" +
				"each pinned by digest. vllm gets the core as a folder of transformers, if it was imported from one.\n" +
				"The artifact is verified, and the files are checked before they are written.",
			Flags: append(append([]cli.Flag{p.jsonFlag(), layoutFlag(), expectFlag(),
				&cli.StringFlag{Name: "kind", Usage: "`KIND`: " + kindNames(), Required: true},
				&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "new or empty `FOLDER`", Required: true},
				&cli.StringFlag{Name: "target", Usage: "triton, ovms, vllm: `TARGET` of a build with several"},
				&cli.StringFlag{Name: "server", Usage: "k8s, compose: container `IMAGE` that serves or uses the model"},
				&cli.StringFlag{Name: "format", Usage: "kserve: `NAME` of the model format", Value: "onnx"}}, remoteFlags()...), trustFlags()...),
			Action: func(c *cli.Context) error {
				opt := workspace.ServerOptions{Claim: claimOptions(c), Kind: servers.Kind(c.String("kind")), Target: c.String("target"), Out: c.String("out"),
					ManifestOptions: servers.ManifestOptions{Server: c.String("server"), Format: c.String("format")}}
				if !slices.Contains(servers.Kinds(), opt.Kind) {
					return usageError{fmt.Errorf("kind: got %q, want one of %s", opt.Kind, kindNames())}
				}
				if c.Args().First() == "" {
					return usageError{errors.New("REF is missing")}
				}
				return p.exportServer(c.Context, remoteOptions(c, c.Args().First()), c.Args().First(), opt)
			},
		}, {
			Name: "web", Usage: "write a static page that runs a build's functions in a browser", ArgsUsage: "REF",
			Description: "The page runs the ONNX functions with ONNX Runtime Web, which npm fetches at the version and digest\n" +
				"pinned by this mm. It takes pictures, sounds, files of NumPy and numbers, shows the outputs, and compares\n" +
				"the functions with their golden tensors. SHA256SUMS has the digests; mm sign --oms signs the folder.",
			Flags: append(append([]cli.Flag{layoutFlag(), expectFlag(),
				&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "new or empty `FOLDER`", Required: true},
				&cli.StringFlag{Name: "target", Usage: "`TARGET` of a build with several"},
				&cli.StringFlag{Name: "runtime", Usage: "npm package `FILE.tgz` of onnxruntime-web (default: npm fetches it)"}}, remoteFlags()...), trustFlags()...),
			Action: func(c *cli.Context) error {
				opt := workspace.WebOptions{Claim: claimOptions(c), Target: c.String("target"), Out: c.String("out")}
				return p.exportWeb(c.Context, remoteOptions(c, c.Args().First()), c.Args().First(), c.String("runtime"), opt)
			},
		}, {
			Name: "peft", Usage: "write an adapter as a folder of Hugging Face PEFT", ArgsUsage: "ADAPTER",
			Description: "ADAPTER is the folder of an adapter's module or a GGUF adapter. Factors, DoRA's magnitudes and the\n" +
				"order of rows are those of transformers; the logits of PeftModel on the same core are equal.",
			Flags: []cli.Flag{p.jsonFlag(),
				&cli.StringFlag{Name: "core", Usage: "core of the adapter, a GGUF `FILE` or the folder of a module", Required: true},
				&cli.StringFlag{Name: "base", Usage: "`NAME` or folder of the core for PEFT (default: the core's name)"},
				&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "new `FOLDER`", Required: true}},
			Action: func(c *cli.Context) error {
				if err := convert.ExportPEFT(c.Args().First(), convert.Adapted{Core: c.String("core")}, c.String("base"), c.String("out")); err != nil {
					return err
				}
				return p.printLine(map[string]any{"out": c.String("out")}, "%s", diag.Printable(c.String("out")))
			},
		}},
	}
}

// kindNames lists the kinds of servers.
func kindNames() string {
	var names []string
	for _, k := range servers.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

func (p *program) exportServer(ctx context.Context, open workspace.Options, ref string, opt workspace.ServerOptions) error {
	return p.inWorkspace(open, func(w *workspace.Workspace) error {
		files, err := w.ExportServer(ctx, ref, opt)
		return p.exported(map[string]any{"kind": opt.Kind}, opt.Out, files, err)
	})
}

func (p *program) exportWeb(ctx context.Context, open workspace.Options, ref, archive string, opt workspace.WebOptions) error {
	runtime, err := native.OpenWeb(ctx, archive)
	if err != nil {
		return err
	}
	opt.Runtime = servers.WebRuntime(runtime)
	return p.inWorkspace(open, func(w *workspace.Workspace) error {
		files, err := w.ExportWeb(ctx, ref, opt)
		return p.exported(map[string]any{}, opt.Out, files, err)
	})
}

// exported prints the files of an export.
func (p *program) exported(doc map[string]any, out string, files []string, err error) error {
	if err != nil {
		return invalidReference(err)
	}
	for _, f := range files {
		if !p.json {
			p.say("%s", diag.Printable(f))
		}
	}
	doc["out"], doc["files"] = out, files
	return p.printLine(doc, "%s", diag.Printable(out))
}
