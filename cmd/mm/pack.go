package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/pack"
	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/internal/diag"
)

// modulePack converts a checkpoint to a module folder.
func (p *program) modulePack(c *cli.Context) error {
	if kind := c.String("part"); kind != "" {
		return p.packPart(c.Context, c.Args().First(), partFlags{
			PartOptions: pack.PartOptions{
				Dir: c.String("dir"), Name: c.String("name"), Version: c.String("version"), License: c.String("license"),
				Config: c.String("recipe"), About: c.String("about"), Data: c.String("data"), Type: abi.ModuleType(kind), Modality: abi.Modality(c.String("modality")),
				With: c.StringSlice("with"),
			},
			named: c.IsSet("name"), base: c.String("base"),
		})
	}
	opt := pack.Options{
		Dir: c.String("dir"), Name: c.String("name"), Version: c.String("version"), License: c.String("license"),
		Quant: c.String("quant"), Config: c.String("recipe"), About: c.String("about"),
	}
	var err error
	if opt.Recipe, err = quantize.Recipe(opt.Quant); err != nil {
		return diag.Usagef("--quant: %w", err)
	}
	if draft := c.String("draft"); draft != "" {
		if opt.Draft, err = abi.ParseModuleRef(draft); err != nil {
			return diag.Usagef("--draft: %w", err)
		}
	}
	if err := checkIdentity(opt.Name, opt.Version); err != nil {
		return err
	}
	dir, err := pack.Checkpoint(c.Context, c.Args().First(), opt)
	if err != nil {
		return err
	}
	return p.newModule(dir)
}

// partFlags holds the flags for a part of a training stage.
type partFlags struct {
	pack.PartOptions
	named bool   // --name is set
	base  string // the core of an adapter
}

// packPart converts a part of a checkpoint to a module folder.
func (p *program) packPart(ctx context.Context, checkpoint string, f partFlags) error {
	if !f.named {
		return diag.Usagef("--part requires --name")
	}
	if err := checkIdentity(f.Name, f.Version); err != nil {
		return err
	}
	if f.base != "" {
		var err error
		if f.Base, err = abi.ParseModuleRef(f.base); err != nil {
			return diag.Usagef("--base: %w", err)
		}
	}
	dir, err := pack.Part(ctx, checkpoint, f.PartOptions)
	if err != nil {
		return err
	}
	return p.newModule(dir)
}
