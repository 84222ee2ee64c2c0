package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules/convert"
)

// importLlama2C makes a module of a llama2.c checkpoint.
func (p *program) importLlama2C(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	vocabulary := c.String("tokenizer")
	return p.importModel(c.Context, c.Args().First(), convertOptions(c), func(ctx context.Context, path string, opt convert.Options) (string, error) {
		return convert.Llama2C(ctx, path, vocabulary, opt)
	})
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
