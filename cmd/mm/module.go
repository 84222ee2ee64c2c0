package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/records"
	"mm-abi.org/mm/modules"
	moduleinspect "mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/workspace"
)

func (p *program) moduleCommand() *cli.Command {
	dir := &cli.StringFlag{Name: "dir", Usage: "folder of the module (default: ./NAME)"}
	return &cli.Command{
		Name: "module", Usage: "create, import and pack modules",
		Subcommands: []*cli.Command{
			{
				Name: "new", Usage: "create a module folder with random, untrained weights", ArgsUsage: "TYPE NAME",
				Flags: []cli.Flag{
					p.jsonFlag(), dir,
					&cli.StringFlag{Name: "shape", Usage: "JSON `FILE` with the shape of a core of any architecture (docs/LAB.md)"},
					&cli.StringFlag{Name: "version", Value: "0.1.0", Usage: "SemVer of the module"},
					&cli.Uint64Flag{Name: "seed", Usage: "seed of the weights"},
					&cli.StringFlag{Name: "modality", Usage: "image, audio or video, for encoders, projectors and decoders"},
					&cli.IntFlag{Name: "d-model", Usage: "width of the core's vectors (default: 256)"},
					&cli.IntFlag{Name: "d-enc", Usage: "width of an encoder's tokens (default: 64)"},
					&cli.IntFlag{Name: "t-cap", Usage: "maximum number of vectors of a projector (default: the modality's cap)"},
					&cli.StringFlag{Name: "license", Usage: "SPDX expression (default: Apache-2.0)"},
				},
				Action: p.moduleNew,
			},
			{
				Name: "import", Usage: "convert a model of another project to a module folder",
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
					Name: "gguf", Usage: "a GGUF file (docs/MODELS.md lists the supported ones)", ArgsUsage: "FILE",
					Flags: []cli.Flag{
						p.jsonFlag(), dir,
						&cli.StringFlag{Name: "name", Usage: "name of the module (default: the model's own)"},
						&cli.StringFlag{Name: "version", Usage: "SemVer of the module", Required: true},
						&cli.StringFlag{Name: "license", Usage: "SPDX expression of the weights (default: the one in the file, if valid)"},
						&cli.StringFlag{Name: "mmproj", Usage: "`FILE` of the model's vision tower: makes modules and a graph"},
					},
					Action: p.importGGUF,
				}, {
					Name: "hf", Usage: "a folder of Hugging Face transformers: config.json, safetensors, tokenizer.json; or of PEFT", ArgsUsage: "FOLDER",
					Description: "A folder of PEFT (adapter_config.json, adapter_model.safetensors) becomes an adapter of the core that\n" +
						"--core names, whose matrices it must fit.",
					Flags: []cli.Flag{
						p.jsonFlag(), dir,
						&cli.StringFlag{Name: "name", Usage: "name of the module (default: the model's own)"},
						&cli.StringFlag{Name: "version", Usage: "SemVer of the module", Required: true},
						&cli.StringFlag{Name: "license", Usage: "SPDX expression of the weights (default: the one on the card, if valid)"},
						&cli.StringSliceFlag{Name: "ignore", Usage: "ignore the unknown `KEY` of config.json"},
						&cli.StringFlag{Name: "core", Usage: "PEFT: core of the adapter, a GGUF `FILE` or the folder of a module"},
						&cli.StringFlag{Name: "base", Usage: "PEFT: core `REF` of the adapter (default: that of the module)"},
					},
					Action: p.importHF,
				}, {
					Name: "onnx", Usage: "an ONNX file: an encoder, a projector, a decoder", ArgsUsage: "FILE",
					Description: "Ports are read from the model. The blocks are YAML, as in module.yaml (docs/MODELS.md). --with\n" +
						"copies further files that they name.",
					Flags: []cli.Flag{
						p.jsonFlag(), dir,
						&cli.StringFlag{Name: "name", Usage: "name of the module (default: the file name)"},
						&cli.StringFlag{Name: "version", Usage: "SemVer of the module", Required: true},
						&cli.StringFlag{Name: "license", Usage: "SPDX expression of the weights"},
						&cli.StringFlag{Name: "like", Usage: "use the blocks and the license of a known `MODEL`: " + likes() + " (other flags override them)"},
						&cli.StringFlag{Name: "type", Usage: "encoder, projector or decoder (default: decoder if FILE is a voice, otherwise encoder)"},
						&cli.StringFlag{Name: "modality", Usage: "image, audio, video or text (default: audio if --preprocess prepares sounds, otherwise image)"},
						&cli.StringSliceFlag{Name: "preprocess", Usage: "`INPUT={…}`: preprocessing of images or sounds; the name is optional if there is one input"},
						&cli.StringSliceFlag{Name: "state", Usage: "`INPUT=OUTPUT`: the output becomes the next value of the input; or INPUT={from: OUTPUT, …}"},
						&cli.StringSliceFlag{Name: "constant", Usage: "`INPUT=NUMBER`: constant input"},
						&cli.StringSliceFlag{Name: "postprocess", Usage: "`OUTPUT={…}`: postprocessing of an output"},
						&cli.StringSliceFlag{Name: "param", Usage: "`NAME=NUMBER` of params, such as d_model of a projector"},
						&cli.StringSliceFlag{Name: "cap", Usage: "`NAME=NUMBER` of caps, such as window_ms, the length of a window of sound"},
						&cli.StringFlag{Name: "speech", Usage: "`{…}`: how the decoder synthesizes speech (default: that of Piper, with MODEL.onnx.json next to it, or of Kokoro, with --with config.json --with voices.bin)"},
						&cli.StringSliceFlag{Name: "with", Usage: "copy `FILE` next to the model, such as labels or voices"},
					},
					Action: p.importONNX,
				}},
			},
			{
				Name: "add", Usage: "add a module folder to the store as NAME:VERSION", ArgsUsage: "DIR",
				Flags: []cli.Flag{p.jsonFlag(), forceFlag(), &cli.StringFlag{Name: "sign", Usage: "sign with the private key `FILE` (\"default\": the key of mm keys generate)"}},
				Action: func(c *cli.Context) error {
					return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
						return p.moduleAdd(c.Context, w, c.Args().First(), c.String("sign"), c.Bool("force"))
					})
				},
			},
			{
				Name: "check", Usage: "compare a module's manifest with its files, and compute its model once", ArgsUsage: "DIR…",
				Description: "Reads the ONNX or GGUF files and compares ports, dimensions, vocabulary, special\n" +
					"tokens, sizes and digests with module.yaml. Neither a graph nor a core is required.\n" +
					"Weights must be finite; of a language model, the chat template is rendered and one pass\n" +
					"is computed.",
				Flags:  []cli.Flag{p.jsonFlag()},
				Action: p.moduleCheck,
			},
			{
				Name: "pack", Usage: "create a module folder from a checkpoint of mm train", ArgsUsage: "CHECKPOINT",
				Flags: []cli.Flag{
					p.jsonFlag(), dir,
					&cli.StringFlag{Name: "name", Usage: "name of the module", Value: "core-llm"},
					&cli.StringFlag{Name: "version", Usage: "SemVer of the module", Required: true},
					&cli.StringFlag{Name: "license", Usage: "SPDX expression of the weights", Required: true},
					&cli.StringFlag{Name: "quant", Value: "fp16", Usage: "precision of the weights: fp32, fp16, bf16, int8, int4"},
					&cli.StringFlag{Name: "recipe", Usage: "training configuration, copied next to the weights"},
					&cli.StringFlag{Name: "draft", Usage: "create a draft core for the core `REF`"},
					&cli.StringFlag{Name: "about", Usage: "start the card with the text of `FILE`"},
					&cli.StringFlag{Name: "part", Usage: "part of a training stage: encoder, projector, adapter or decoder"},
					&cli.StringFlag{Name: "modality", Usage: "with --part: modality of the encoder or projector (default: the only one)"},
					&cli.StringFlag{Name: "base", Usage: "with --part adapter: core `REF` of the adapter"},
					&cli.StringFlag{Name: "data", Usage: "with --part: folder that the paths of the recipe are relative to (default: the original one)"},
					&cli.StringSliceFlag{Name: "with", Usage: "with --part: copy `FILE` next to the weights, such as a sound for a golden prompt"},
				},
				Action: p.modulePack,
			},
		},
	}
}

func (p *program) initCommand() *cli.Command {
	return &cli.Command{
		Name: "init", Usage: "create the folder of a new project: settings, a first graph, a README", ArgsUsage: "[DIR]",
		Description: "The default DIR is the current folder. Existing files are not overwritten. .gitattributes keeps git\n" +
			"from converting line endings, since modules are identified by their digests.",
		Flags: []cli.Flag{p.jsonFlag(), &cli.StringFlag{Name: "name", Usage: "name of the build (default: the name of the folder)"}},
		Action: func(c *cli.Context) error {
			done, err := workspace.NewProject(cmp.Or(c.Args().First(), "."), c.String("name"))
			if errors.Is(err, workspace.ErrName) {
				return usageError{hinted{err, "set it with --name"}}
			}
			if err != nil {
				return err
			}
			return p.printLine(done, "%s: %s\nnext: %s", done.Dir, strings.Join(done.Files, ", "), strings.Join(done.Next, "\n      "))
		},
	}
}

func (p *program) moduleNew(c *cli.Context) error {
	opt := seed.Options{
		Type: abi.ModuleType(c.Args().Get(0)), Name: c.Args().Get(1), Version: c.String("version"), Modality: abi.Modality(c.String("modality")),
		Seed: c.Uint64("seed"), DModel: c.Int("d-model"), DEnc: c.Int("d-enc"), TCap: c.Int("t-cap"), License: c.String("license"),
	}
	if path := c.String("shape"); path != "" {
		if err := records.ReadJSON(path, &opt.Shape); err != nil {
			return err
		}
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

// newModule reads a new module back, so that faults show now rather than at the
// first use.
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
			Diagnostics diag.List      `json:"diagnostics,omitempty"` // warnings
		}{m.Name, m.Version, m.Type, dir, list})
	}
	if err := p.tell(p.stderr, list); err != nil {
		return err
	}
	err := p.line("%s %s in %s", m.Type, m.ID(), dir)
	return err
}

// moduleCheck reports every fault of every module.
func (p *program) moduleCheck(c *cli.Context) error {
	var list diag.List
	for _, dir := range c.Args().Slice() {
		list = append(list, moduleinspect.Pass(c.Context, dir)...)
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
	p.say("%s checked: files match the manifests", count(c.NArg(), "module"))
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
	return p.printLine(added, "%s %s (%s)", added.Ref, added.Digest, size(added.Size))
}
