package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/improve"
	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/torch"
)

func (p *program) exportTorch(c *cli.Context) error {
	file, out := c.Args().First(), c.String("out")
	doc, kind, err := schemas.ReadTraining(file)
	if err == nil && kind != schemas.Train {
		var list diag.List
		list.Add(diag.TorchLacks, doc.Pos("/stage"), "got a stage, want the recipe of a language model", "")
		err = list.Err()
	}
	if err != nil {
		return err
	}
	cfg, err := decodeConfig(doc)
	if err != nil {
		return err
	}
	if err := placedAs(diag.TorchLacks, doc, torch.Supported(cfg)); err != nil {
		return err
	}
	from := filepath.Dir(file)
	corpus, err := train.PrepareFrom(c.Context, cfg, from, objects())
	if err != nil {
		return placed(doc, bucket.Fault(file, err))
	}
	defer corpus.Close()
	err = torch.Export(cfg, corpus, from, out)
	if errors.Is(err, torch.ErrExists) {
		return diag.Hinted(err, "--out selects another folder")
	}
	if err != nil {
		return placed(doc, err)
	}
	return p.PrintLine(map[string]any{"dir": out}, "%s\nnext: pip install -r %s && torchrun --nproc-per-node 2 %s", out, filepath.Join(out, "requirements.txt"), filepath.Join(out, "train.py"))
}

// decodeRecipe decodes and checks a recipe.
func decodeRecipe[R interface{ Validate() error }](doc *schemas.Document, r *R) error {
	if err := doc.Decode(r); err != nil {
		return err
	}
	return placed(doc, (*r).Validate())
}

// decodeConfig decodes the configuration of a language model.
func decodeConfig(doc *schemas.Document) (cfg train.Config, err error) {
	return cfg, decodeRecipe(doc, &cfg)
}

// placed adds positions in the document to the faults in err.
func placed(doc *schemas.Document, err error) error { return placedAs(diag.NotAllowed, doc, err) }

// placedAs is placed with another code.
func placedAs(code diag.Code, doc *schemas.Document, err error) error {
	var list diag.List
	for _, f := range train.Faults(err) {
		list.Add(code, doc.Pos(f.Path), f.Error(), "")
	}
	if len(list) > 0 {
		return list.Err()
	}
	return err
}

// improve trains a core on its own answers, round by round.
func (p *program) improve(ctx context.Context, doc *schemas.Document, opt trainingOptions) error {
	if opt.sample != "" || opt.steps > 0 || opt.time > 0 {
		return diag.Usagef("--sample, --steps and --time are for other stages")
	}
	var s improve.Spec
	if err := doc.Decode(&s); err != nil {
		return err
	}
	if opt.threads > 0 {
		s.Threads = opt.threads
	}
	dir := opt.folder(s.Name)
	run := improve.Options{Dir: dir, From: filepath.Dir(opt.file), Resume: opt.resume, Say: func(r improve.Round) { p.Note("%s", r) }, Warn: func(err error) { p.Note("warning: %v", err) }}
	if opt.checkpoints != "" {
		var err error
		if run.Copies, err = bucketFiles(opt.checkpoints); err != nil {
			return err
		}
	}
	sum, err := improve.Run(ctx, s, run)
	switch {
	case errors.Is(err, train.ErrHeld):
		return diag.Hinted(err, "--resume continues it; --out selects another folder, --checkpoints another place")
	case err != nil:
		return placed(doc, bucket.Fault(opt.checkpoints, err))
	}
	if opt.plot != "" {
		if err := sum.Plot(opt.plot); err != nil {
			return err
		}
		p.Note("plotted %s", opt.plot)
	}
	p.Note("%s", sum)
	return p.PrintLine(map[string]any{"dir": dir, "improvement": sum.Figures()}, "%s", filepath.Join(dir, sum.Model()))
}
