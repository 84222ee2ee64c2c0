package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	moduleinspect "mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/workspace"
)

func (p *program) moduleCommand() *cli.Command {
	dir := &cli.StringFlag{Name: "dir", Usage: "folder of the module (default: ./NAME)"}
	return &cli.Command{
		Name: "module", Usage: "make, import and pack modules",
		Subcommands: []*cli.Command{
			{
				Name: "new", Usage: "write a module folder with seeded, untrained weights", ArgsUsage: "TYPE NAME",
				Flags: []cli.Flag{
					p.jsonFlag(), dir,
					&cli.StringFlag{Name: "version", Value: "0.1.0", Usage: "SemVer of the module"},
					&cli.Uint64Flag{Name: "seed", Usage: "seed of the weights"},
					&cli.StringFlag{Name: "modality", Usage: "image, audio or video, for encoders, projectors and decoders"},
					&cli.IntFlag{Name: "d-model", Usage: "width of the core's vectors (default: 256)"},
					&cli.IntFlag{Name: "d-enc", Usage: "width of an encoder's tokens (default: 64)"},
					&cli.IntFlag{Name: "t-cap", Usage: "most vectors of a projector (default: the modality's cap)"},
					&cli.StringFlag{Name: "license", Usage: "SPDX expression (default: Apache-2.0)"},
				},
				Action: p.moduleNew,
			},
			{
				Name: "import", Usage: "make a module folder from another project's weights",
				Subcommands: []*cli.Command{{
					Name: "llama2c", Usage: "a llama2.c checkpoint with its tokenizer.bin", ArgsUsage: "FILE",
					Flags: []cli.Flag{
						p.jsonFlag(), dir,
						&cli.StringFlag{Name: "tokenizer", Usage: "tokenizer.bin `FILE`", Required: true},
						&cli.StringFlag{Name: "name", Usage: "name of the module", Value: "core-llm"},
						&cli.StringFlag{Name: "version", Usage: "SemVer of the module", Required: true},
						&cli.StringFlag{Name: "license", Usage: "SPDX expression of the weights"},
					},
					Action: p.importLlama2C,
				}, {
					Name: "gguf", Usage: "a GGUF file (docs/MODELS.md tells which)", ArgsUsage: "FILE",
					Flags: []cli.Flag{
						p.jsonFlag(), dir,
						&cli.StringFlag{Name: "name", Usage: "name of the module (default: the model's own)"},
						&cli.StringFlag{Name: "version", Usage: "SemVer of the module", Required: true},
						&cli.StringFlag{Name: "license", Usage: "SPDX expression of the weights (default: the file's own, if it is one)"},
					},
					Action: p.importGGUF,
				}, {
					Name: "hf", Usage: "a folder of Hugging Face transformers: config.json, safetensors, tokenizer.json", ArgsUsage: "FOLDER",
					Flags: []cli.Flag{
						p.jsonFlag(), dir,
						&cli.StringFlag{Name: "name", Usage: "name of the module (default: the model's own)"},
						&cli.StringFlag{Name: "version", Usage: "SemVer of the module", Required: true},
						&cli.StringFlag{Name: "license", Usage: "SPDX expression of the weights (default: the card's own, if it is one)"},
						&cli.StringSliceFlag{Name: "ignore", Usage: "pass over `KEY` of config.json although it is not known here"},
					},
					Action: p.importHF,
				}, {
					Name: "onnx", Usage: "an ONNX file: an encoder, a projector, a decoder", ArgsUsage: "FILE",
					Description: "Ports come from the model. The blocks are YAML, as module.yaml holds them\n" +
						"(docs/MODELS.md); what they name beside the model is copied by --with.",
					Flags: []cli.Flag{
						p.jsonFlag(), dir,
						&cli.StringFlag{Name: "name", Usage: "name of the module (default: the file's)"},
						&cli.StringFlag{Name: "version", Usage: "SemVer of the module", Required: true},
						&cli.StringFlag{Name: "license", Usage: "SPDX expression of the weights"},
						&cli.StringFlag{Name: "type", Usage: "encoder, projector or decoder", Value: string(abi.Encoder)},
						&cli.StringFlag{Name: "modality", Usage: "image, audio, video or text (default: audio where sounds are prepared, else image)"},
						&cli.StringSliceFlag{Name: "preprocess", Usage: "`INPUT={…}`: how pictures or sounds become the input; the name may be left out where there is one"},
						&cli.StringSliceFlag{Name: "state", Usage: "`INPUT=OUTPUT`: the output is the input's next value; or INPUT={from: OUTPUT, …}"},
						&cli.StringSliceFlag{Name: "constant", Usage: "`INPUT=NUMBER`: the input is always this"},
						&cli.StringSliceFlag{Name: "postprocess", Usage: "`OUTPUT={…}`: how the output is read"},
						&cli.StringSliceFlag{Name: "param", Usage: "`NAME=NUMBER` of params, such as d_model of a projector"},
						&cli.StringSliceFlag{Name: "cap", Usage: "`NAME=NUMBER` of caps, such as window_ms, how much of a sound is heard at once"},
						&cli.StringSliceFlag{Name: "with", Usage: "copy `FILE` beside the model, such as labels"},
					},
					Action: p.importONNX,
				}},
			},
			{
				Name: "add", Usage: "put a module folder into the store as NAME:VERSION", ArgsUsage: "DIR",
				Flags: []cli.Flag{p.jsonFlag(), forceFlag(), &cli.StringFlag{Name: "sign", Usage: "sign with the private key `FILE` (\"default\": the one of mm keys generate)"}},
				Action: func(c *cli.Context) error {
					if err := wantArgs(c, 1, 1); err != nil {
						return err
					}
					return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
						return p.moduleAdd(c.Context, w, c.Args().First(), c.String("sign"), c.Bool("force"))
					})
				},
			},
			{
				Name: "check", Usage: "compare a module's manifest with its files", ArgsUsage: "DIR...",
				Description: "Reads the ONNX or GGUF files and compares ports, dimensions, vocabulary, special\n" +
					"tokens, sizes and digests with module.yaml. No graph and no core is needed.",
				Flags:  []cli.Flag{p.jsonFlag()},
				Action: p.moduleCheck,
			},
			{
				Name: "pack", Usage: "make a module folder from a checkpoint of mm train", ArgsUsage: "CHECKPOINT",
				Flags: []cli.Flag{
					p.jsonFlag(), dir,
					&cli.StringFlag{Name: "name", Usage: "name of the module", Value: "core-llm"},
					&cli.StringFlag{Name: "version", Usage: "SemVer of the module", Required: true},
					&cli.StringFlag{Name: "license", Usage: "SPDX expression of the weights", Required: true},
					&cli.StringFlag{Name: "quant", Value: "fp16", Usage: "precision of the weights: fp32, fp16, bf16, int8, int4"},
					&cli.StringFlag{Name: "recipe", Usage: "the training configuration, copied beside the weights"},
					&cli.StringFlag{Name: "draft", Usage: "make a draft core for the core `REF`"},
					&cli.StringFlag{Name: "about", Usage: "text of `FILE` begins the card"},
					&cli.StringFlag{Name: "part", Usage: "of a training stage: the encoder, projector, adapter or decoder"},
					&cli.StringFlag{Name: "modality", Usage: "with --part: whose encoder or projector (default: the only one)"},
					&cli.StringFlag{Name: "base", Usage: "with --part adapter: the core `REF` that it is for"},
					&cli.StringFlag{Name: "data", Usage: "with --part: folder that the recipe's paths are relative to (default: where it lay)"},
					&cli.StringSliceFlag{Name: "with", Usage: "with --part: copy `FILE` beside the weights, such as a sound for a golden prompt (repeatable)"},
				},
				Action: p.modulePack,
			},
		},
	}
}

func (p *program) moduleNew(c *cli.Context) error {
	if err := wantArgs(c, 2, 2); err != nil {
		return err
	}
	opt := seed.Options{
		Type: abi.ModuleType(c.Args().Get(0)), Name: c.Args().Get(1), Version: c.String("version"), Modality: abi.Modality(c.String("modality")),
		Seed: c.Uint64("seed"), DModel: c.Int("d-model"), DEnc: c.Int("d-enc"), TCap: c.Int("t-cap"), License: c.String("license"),
	}
	dir := c.String("dir")
	if dir == "" {
		dir = opt.Name
	}
	if err := seed.Write(dir, opt); err != nil {
		var wrong *seed.OptionError
		if !errors.As(err, &wrong) {
			return err
		}
		if wrong.Option != "" {
			err = fmt.Errorf("--%w", err)
		}
		return usageError{err}
	}
	return p.newModule(dir)
}

// newModule reads back what was written, so that a fault shows here and not at
// its first use.
func (p *program) newModule(dir string) error {
	m, list := modules.Load(dir)
	if m == nil || list.Failed() {
		return list.Err()
	}
	if p.json {
		return p.printJSON(struct {
			Name        string         `json:"name"`
			Version     string         `json:"version"`
			Type        abi.ModuleType `json:"type"`
			Dir         string         `json:"dir"`
			Diagnostics diag.List      `json:"diagnostics,omitempty"` // what did not stop it
		}{m.Name, m.Version, m.Type, dir, list})
	}
	if err := p.tell(p.stderr, list); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s in %s\n", m.Type, m.ID(), dir)
	return err
}

// moduleCheck reports every fault of every module that is named.
func (p *program) moduleCheck(c *cli.Context) error {
	if err := wantArgs(c, 1, -1); err != nil {
		return err
	}
	var list diag.List
	for _, dir := range c.Args().Slice() {
		_, faults := moduleinspect.Module(c.Context, dir)
		list = append(list, faults...)
	}
	if p.json {
		if err := list.JSON(p.stdout); err != nil {
			return err
		}
	} else if err := p.tell(p.stdout, list); err != nil {
		return err
	}
	if err := list.Err(); err != nil {
		return reported{err}
	}
	p.say("%s checked: the files are what the manifests say", count(c.NArg(), "module"))
	return nil
}

func (p *program) moduleAdd(ctx context.Context, w *workspace.Workspace, dir, key string, force bool) error {
	signer, err := p.signer(w, key)
	if err != nil {
		return err
	}
	added, err := w.AddModule(ctx, dir, signer, force)
	if err != nil {
		return err
	}
	if err := p.tell(p.stderr, added.Diagnostics); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(added)
	}
	_, err = fmt.Fprintf(p.stdout, "%s %s (%s)\n", added.Ref, added.Digest, size(added.Size))
	return err
}
