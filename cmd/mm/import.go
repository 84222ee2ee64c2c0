package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/llama2c"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/schemas"
)

func (p *program) importLlama2C(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	name := c.String("name")
	if err := checkIdentity(name, c.String("version")); err != nil {
		return err
	}
	in, err := os.Open(c.Args().First())
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	model, err := llama2c.Read(in, info.Size())
	if err != nil {
		return err
	}
	vocab, err := os.ReadFile(c.String("tokenizer"))
	if err != nil {
		return err
	}
	tok, err := tokenizer.FromLlama2C(vocab, model.Vocab)
	if err != nil {
		return err
	}
	dir := moduleDir(c, name)
	if err := writeLlama2C(dir, c, model, tok); err != nil {
		return err
	}
	return p.newModule(dir)
}

// writeLlama2C writes the GGUF and a manifest that says what is in it.
func writeLlama2C(dir string, c *cli.Context, model *llama2c.File, tok *tokenizer.Tokenizer) error {
	return createModule(dir, func(d *fsx.Dir) error { return fillLlama2C(d, c, model, tok) })
}

func fillLlama2C(d *fsx.Dir, c *cli.Context, model *llama2c.File, tok *tokenizer.Tokenizer) error {
	name := c.String("name")
	weights := name + ".gguf"
	file, err := convert.WriteFile(d, weights, func(w io.Writer) error {
		_, err := gguf.Write(w, append(model.Metadata(name), tok.KVs()...), model.Tensors())
		return err
	})
	if err != nil {
		return err
	}
	m := importedCore(c, weights, file)
	m.Description = "Imported from a llama2.c checkpoint."
	m.Tokens = &abi.TokenContract{VocabSize: model.Vocab, MaxSeq: model.Context, DModel: model.Dim, SpecialTokens: convert.Specials(tok)}
	return writeManifest(d, m)
}

func checkIdentity(name, version string) error {
	if !abi.ValidName(name) {
		return usageError{fmt.Errorf("%q is no module name", name)}
	}
	if _, err := abi.ParseVersion(version); err != nil {
		return usageError{err}
	}
	return nil
}

// createModule makes the folder of a new module, whole or not at all.
func createModule(dir string, fill func(d *fsx.Dir) error) error {
	_, _, err := modules.Create(dir, fill)
	return err
}

// importedCore is the manifest that imports have in common.
func importedCore(c *cli.Context, weights string, file modules.File) modules.Manifest {
	m := modules.Manifest{
		Name: c.String("name"), Version: c.String("version"), Type: abi.Core, Modality: abi.Text, ABI: abi.V1_0, License: c.String("license"),
		Export: map[abi.Format]modules.Export{abi.GGUF: {Path: weights}}, Quant: &modules.Quant{Supported: abi.Precisions()}, Files: []modules.File{file},
	}
	m.KVDTypes = []abi.DType{abi.FP32, abi.FP16, abi.Int8, abi.FP8}
	return m
}

func writeManifest(d *fsx.Dir, m modules.Manifest) error {
	text, err := schemas.Encode(m)
	if err != nil {
		return err
	}
	return d.WriteFile(modules.FileName, text, 0o644)
}

// importGGUF makes a module of a GGUF file.
func (p *program) importGGUF(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	return p.importModel(c.Context, c.Args().First(), convertOptions(c), convert.GGUF)
}

// importHF makes a module of a folder of transformers.
func (p *program) importHF(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	return p.importModel(c.Context, c.Args().First(), convertOptions(c), convert.HuggingFace)
}

func convertOptions(c *cli.Context) convert.Options {
	return convert.Options{Dir: c.String("dir"), Name: c.String("name"), Version: c.String("version"), License: c.String("license"), Ignore: c.StringSlice("ignore")}
}

// importModel makes the module and tells of it. A name that was given must be
// one; without it the model has its own.
func (p *program) importModel(ctx context.Context, path string, opt convert.Options, from func(context.Context, string, convert.Options) (string, error)) error {
	name := opt.Name
	if name == "" {
		name = "any"
	}
	if err := checkIdentity(name, opt.Version); err != nil {
		return err
	}
	dir, err := from(ctx, path, opt)
	if err != nil {
		return err
	}
	return p.newModule(dir)
}
