package main

import (
	"errors"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/torch"
)

func (p *program) exportTorch(c *cli.Context) error {
	file, out := c.Args().First(), c.String("out")
	doc, kind, err := train.ReadDocument(file)
	if err == nil && kind != schemas.Train {
		var list diag.List
		list.Add(diag.TorchLacks, doc.Pos("/stage"), "got a stage, want the recipe of a language model", "")
		err = list.Err()
	}
	if err != nil {
		return err
	}
	cfg, err := train.DecodeConfig(doc)
	if err != nil {
		return err
	}
	if err := train.PlacedAs(diag.TorchLacks, doc, torch.Supported(cfg)); err != nil {
		return err
	}
	from := filepath.Dir(file)
	corpus, err := train.PrepareFrom(c.Context, cfg, from, objects())
	if err != nil {
		return train.Placed(doc, bucket.Fault(file, err))
	}
	defer corpus.Close()
	err = torch.Export(cfg, corpus, from, out)
	if errors.Is(err, torch.ErrExists) {
		return diag.Hinted(err, "--out selects another folder")
	}
	if err != nil {
		return train.Placed(doc, err)
	}
	return p.PrintLine(map[string]any{"dir": out}, "%s\nnext: pip install -r %s && torchrun --nproc-per-node 2 %s", out, filepath.Join(out, "requirements.txt"), filepath.Join(out, "train.py"))
}
