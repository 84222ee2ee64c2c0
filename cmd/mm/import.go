package main

import (
	"cmp"
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
	return p.importModel(c.Context, convertOptions(c), convert.Converter{Convert: func(ctx context.Context, opt convert.Options) (string, error) {
		return convert.Llama2C(ctx, c.Args().First(), c.String("tokenizer"), opt)
	}})
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
	return p.importModel(c.Context, convertOptions(c), convert.OfGGUF(c.Args().First(), c.String("mmproj")))
}

// importHF converts a folder of Hugging Face transformers or PEFT to a module, or to the
// modules and the graph of a vision language model.
func (p *program) importHF(c *cli.Context) error {
	opt, folder := convertOptions(c), c.Args().First()
	if !convert.IsPEFT(folder) {
		if c.IsSet("core") || c.IsSet("base") {
			return diag.Usagef("--core and --base are for folders of PEFT")
		}
		return p.importModel(c.Context, opt, convert.OfHuggingFace(folder))
	}
	from, err := convert.OfPEFT(folder, c.String("core"), c.String("base"), &opt)
	if err != nil {
		return err
	}
	return p.importModel(c.Context, opt, from)
}

// importONNX converts an ONNX function to a module.
func (p *program) importONNX(c *cli.Context) error {
	fn, err := functionBlocksOptions(c)
	if err != nil {
		return err
	}
	return p.importModel(c.Context, convertOptions(c), convert.Converter{Convert: func(ctx context.Context, opt convert.Options) (string, error) {
		return convert.ONNX(ctx, c.Args().First(), opt, fn)
	}})
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

// importModel converts a model and reports the module, or the graph and what runs it. If no
// name is set, the model provides it.
func (p *program) importModel(ctx context.Context, opt convert.Options, from convert.Converter) error {
	if from.Next == "" {
		if err := checkIdentity(cmp.Or(opt.Name, "any"), opt.Version); err != nil {
			return err
		}
	}
	opt.Note = func(text string) { p.Note("%s", text) }
	dir, err := from.Convert(ctx, opt)
	if key := (*hf.UnknownKeyError)(nil); errors.As(err, &key) {
		return diag.Hinted(err, "if it does not change the result, ignore it: --ignore "+key.Key)
	}
	if err != nil {
		return err
	}
	if from.Next != "" {
		graph := filepath.Join(dir, convert.GraphFile)
		p.Note(from.Next, graph)
		return p.Line("%s", graph)
	}
	if list := moduleinspect.Pass(ctx, dir); list.Failed() {
		return list.Err()
	}
	return p.newModule(dir)
}

// likes lists the presets of mm module import onnx.
func likes() string {
	var names []string
	for _, p := range convert.Presets() {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}
