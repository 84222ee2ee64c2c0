package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/pack"
	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/records"
	"mm-abi.org/mm/modules"
	moduleinspect "mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/workspace"
)

func (p *program) moduleAddAction(c *cli.Context) error {
	return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
		return p.moduleAdd(c.Context, w, c.Args().First(), c.String("sign"), c.Bool("force"))
	})
}

func (p *program) initAction(c *cli.Context) error {
	done, err := workspace.NewProject(cmp.Or(c.Args().First(), "."), c.String("name"))
	if errors.Is(err, workspace.ErrName) {
		return diag.Usage(diag.Hinted(err, "set it with --name"))
	}
	if err != nil {
		return err
	}
	return p.PrintLine(done, "%s: %s\nnext: %s", done.Dir, strings.Join(done.Files, ", "), strings.Join(done.Next, "\n      "))
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
		return diag.Usage(err)
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
	if p.JSON {
		return p.PrintJSON(struct {
			Name        string         `json:"name"`
			Version     string         `json:"version"`
			Type        abi.ModuleType `json:"type"`
			Dir         string         `json:"dir"`
			Diagnostics diag.List      `json:"diagnostics,omitempty"` // warnings
		}{m.Name, m.Version, m.Type, dir, list})
	}
	if err := p.Diagnose(p.Stderr, list); err != nil {
		return err
	}
	return p.Line("%s %s in %s", m.Type, m.ID(), dir)
}

// moduleCheck reports every fault of every module.
func (p *program) moduleCheck(c *cli.Context) error {
	var list diag.List
	for _, dir := range c.Args().Slice() {
		list = append(list, moduleinspect.Pass(c.Context, dir)...)
	}
	if p.JSON {
		if err := list.JSON(p.Stdout); err != nil {
			return err
		}
	} else if err := p.Diagnose(p.Stdout, list); err != nil {
		return err
	}
	if err := list.Err(); err != nil {
		return reported{err}
	}
	p.Note("%s checked: files match the manifests", diag.Count(c.NArg(), "module"))
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
	if err := p.Diagnose(p.Stderr, added.Diagnostics); err != nil {
		return err
	}
	return p.PrintLine(added, "%s %s (%s)", added.Ref, added.Digest, size(added.Size))
}

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
