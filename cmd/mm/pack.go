package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	exportgguf "mm-abi.org/mm/assemble/export/gguf"
	"mm-abi.org/mm/modules/pack"
)

// modulePack turns a checkpoint into a module folder.
func (p *program) modulePack(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	opt := pack.Options{
		Dir: c.String("dir"), Name: c.String("name"), Version: c.String("version"), License: c.String("license"),
		Quant: c.String("quant"), Config: c.String("recipe"), About: c.String("about"),
	}
	var err error
	if opt.Recipe, err = exportgguf.Recipe(opt.Quant); err != nil {
		return usageError{fmt.Errorf("--quant: %w", err)}
	}
	if draft := c.String("draft"); draft != "" {
		if opt.Draft, err = abi.ParseModuleRef(draft); err != nil {
			return usageError{fmt.Errorf("--draft: %w", err)}
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
