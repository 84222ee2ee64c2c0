package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/hf"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	moduleinspect "mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/schemas"
)

// importLlama2C converts a llama2.c checkpoint to a module.
func (p *program) importLlama2C(c *cli.Context) error {
	vocabulary := c.String("tokenizer")
	return p.importModel(c.Context, c.Args().First(), convertOptions(c), func(ctx context.Context, path string, opt convert.Options) (string, error) {
		return convert.Llama2C(ctx, path, vocabulary, opt)
	})
}

func checkIdentity(name, version string) error {
	if !abi.ValidName(name) {
		return diag.Usagef("invalid module name %q", name)
	}
	if _, err := abi.ParseVersion(version); err != nil {
		return diag.Usage(err)
	}
	return nil
}

// importGGUF converts a GGUF file to a module.
func (p *program) importGGUF(c *cli.Context) error {
	if mmproj := c.String("mmproj"); mmproj != "" {
		return p.importGraph(c.Context, convertOptions(c), nextVision, func(ctx context.Context, opt convert.Options) (string, error) {
			return convert.VisionPair(ctx, c.Args().First(), mmproj, opt)
		})
	}
	if convert.IsSentenceGGUF(c.Args().First()) {
		return p.importModel(c.Context, c.Args().First(), convertOptions(c), convert.SentenceGGUF)
	}
	return p.importModel(c.Context, c.Args().First(), convertOptions(c), convert.GGUF)
}

// importHF converts a folder of Hugging Face transformers to a module, or to the
// modules and the graph of a vision language model.
func (p *program) importHF(c *cli.Context) error {
	if convert.IsPEFT(c.Args().First()) {
		return p.importPEFT(c.Context, c.Args().First(), c.String("core"), c.String("base"), convertOptions(c))
	}
	if c.IsSet("core") || c.IsSet("base") {
		return diag.Usagef("--core and --base are for folders of PEFT")
	}
	if folder := c.Args().First(); folder != "" {
		if joint, err := convert.IsJoint(folder); err == nil && joint {
			return p.importGraph(c.Context, convertOptions(c), "next: mm embed %s --image FILE \"…\"", func(ctx context.Context, opt convert.Options) (string, error) {
				return convert.Joint(ctx, folder, opt)
			})
		}
		if vision, err := convert.IsVision(folder); err == nil && vision {
			return p.importGraph(c.Context, convertOptions(c), nextVision, func(ctx context.Context, opt convert.Options) (string, error) {
				return convert.Vision(ctx, folder, opt)
			})
		}
	}
	if text, err := convert.IsSentence(c.Args().First()); err == nil && text {
		return p.importModel(c.Context, c.Args().First(), convertOptions(c), convert.Sentence)
	}
	if loop, err := convert.IsEncDec(c.Args().First()); err == nil && loop {
		return p.importModel(c.Context, c.Args().First(), convertOptions(c), convert.EncDec)
	}
	return p.importModel(c.Context, c.Args().First(), convertOptions(c), convert.HuggingFace)
}

// importPEFT converts a PEFT folder to an adapter of a core.
func (p *program) importPEFT(ctx context.Context, folder, core, base string, opt convert.Options) error {
	of := convert.Adapted{Core: core}
	if core == "" {
		return diag.Usagef("a PEFT adapter requires --core: a GGUF file or the folder of a core's module")
	}
	if base != "" {
		var err error
		if of.Base, err = abi.ParseModuleRef(base); err != nil {
			return diag.Usagef("--base: %w", err)
		}
	}
	if opt.Name == "" {
		opt.Name = strings.ToLower(filepath.Base(filepath.Clean(folder)))
	}
	if err := checkIdentity(opt.Name, opt.Version); err != nil {
		return err
	}
	return p.importModel(ctx, folder, opt, func(ctx context.Context, path string, opt convert.Options) (string, error) {
		return convert.PEFT(ctx, path, of, opt)
	})
}

// nextVision is what runs an imported vision language model.
const nextVision = "next: mm run %s --image FILE \"…\""

// importGraph converts a model of several modules and prints the graph and what runs it.
func (p *program) importGraph(ctx context.Context, opt convert.Options, next string, from func(context.Context, convert.Options) (string, error)) error {
	opt.Note = func(text string) { p.say("%s", text) }
	dir, err := from(ctx, opt)
	if err != nil {
		return unknownKey(err)
	}
	graph := filepath.Join(dir, convert.GraphFile)
	p.say(next, graph)
	p.line("%s", graph)
	return nil
}

// importONNX converts an ONNX function to a module.
func (p *program) importONNX(c *cli.Context) error {
	fn, err := functionBlocksOptions(c)
	if err != nil {
		return err
	}
	return p.importModel(c.Context, c.Args().First(), convertOptions(c), func(ctx context.Context, path string, opt convert.Options) (string, error) {
		return convert.ONNX(ctx, path, opt, fn)
	})
}

// functionBlocksOptions reads the blocks of a module's manifest from the flags.
func functionBlocksOptions(c *cli.Context) (convert.Function, error) {
	fn := convert.Function{Type: abi.ModuleType(c.String("type")), Modality: abi.Modality(c.String("modality")), Like: c.String("like"), With: c.StringSlice("with")}
	if !slices.Contains([]abi.ModuleType{"", abi.Encoder, abi.Projector, abi.Decoder}, fn.Type) {
		return fn, diag.Usagef("--type %s: want encoder, projector or decoder", fn.Type)
	}
	for _, f := range []struct {
		flag string
		into any
	}{{"preprocess", &fn.Preprocess}, {"state", &fn.State}, {"constant", &fn.Constants}, {"postprocess", &fn.Postprocess}, {"param", &fn.Params}, {"cap", &fn.Caps}} {
		if err := schemas.Assign(c.StringSlice(f.flag), f.into); err != nil {
			return fn, diag.Usagef("--%s %w", f.flag, err)
		}
	}
	if text := c.String("speech"); text != "" {
		if err := schemas.Assign([]string{"speech=" + text}, &struct {
			Speech **modules.Speech `json:"speech"`
		}{&fn.Speech}); err != nil {
			return fn, diag.Usagef("--speech %w", err)
		}
	}
	return fn, nil
}

func convertOptions(c *cli.Context) convert.Options {
	return convert.Options{Dir: c.String("dir"), Name: c.String("name"), Version: c.String("version"), License: c.String("license"), Ignore: c.StringSlice("ignore")}
}

// importModel converts a model and reports the module. If no name is set, the model
// provides it.
func (p *program) importModel(ctx context.Context, path string, opt convert.Options, from func(context.Context, string, convert.Options) (string, error)) error {
	name := opt.Name
	if name == "" {
		name = "any"
	}
	if err := checkIdentity(name, opt.Version); err != nil {
		return err
	}
	opt.Note = func(text string) { p.say("%s", text) }
	dir, err := from(ctx, path, opt)
	if err != nil {
		return unknownKey(err)
	}
	if list := moduleinspect.Pass(ctx, dir); list.Failed() {
		return list.Err()
	}
	return p.newModule(dir)
}

// unknownKey adds the flag that ignores an unknown key.
func unknownKey(err error) error {
	if key := (*hf.UnknownKeyError)(nil); errors.As(err, &key) {
		return diag.Hinted(err, "if it does not change the result, ignore it: --ignore "+key.Key)
	}
	return err
}

// likes lists the presets of mm module import onnx.
func likes() string {
	var names []string
	for _, p := range convert.Presets() {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}
