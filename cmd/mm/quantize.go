package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/internal/diag"
)

func (p *program) quantize(c *cli.Context) error {
	recipe, err := quantize.Recipe(c.String("to"))
	if err != nil {
		return diag.Usagef("--to: %w", err)
	}
	opt := quantize.Options{
		Recipe: recipe, Method: quantize.Method(c.String("method")), Imatrix: c.String("imatrix"), Calibration: c.String("calibration"),
		Separator: c.String("separator"), Windows: c.Int("windows"), Keep: c.String("keep-imatrix"), Threads: c.Int("threads"),
	}
	if text := c.String("split"); c.IsSet("split") {
		if opt.Split, err = quantize.ParseSplit(text); err != nil {
			return diag.Usagef("--split: %w", err)
		}
	}
	if err := opt.Check(); err != nil {
		return diag.Usage(err)
	}
	notes, written, err := quantize.Rewrite(c.Context, c.Args().Get(0), c.Args().Get(1), opt, c.Bool("force"))
	switch {
	case errors.Is(err, quantize.ErrSameFile):
		return diag.Hinted(err, "write another file: quantization is lossy")
	case errors.Is(err, quantize.ErrExists):
		return diag.Hinted(err, "--force replaces it")
	case err != nil:
		return err
	}
	q := quantized{File: written[0].Path, Recipe: recipe.Name, Notes: notes}
	if len(written) > 1 {
		q.Pieces = len(written)
	}
	for _, w := range written {
		q.Bytes += w.Bytes
	}
	return show(p, q, nil, p.printQuantized)
}

// quantized is the output of mm quantize.
type quantized struct {
	File   string   `json:"file"`
	Recipe string   `json:"recipe"`
	Bytes  int64    `json:"bytes"`           // of all pieces
	Pieces int      `json:"pieces"`          // files; the first is File
	Notes  []string `json:"notes,omitempty"` // tensors whose type differs from the recipe
}

func (p *program) printQuantized(q quantized) error {
	for _, n := range q.Notes {
		p.Note("%s", n)
	}
	pieces := ""
	if q.Pieces > 0 {
		pieces = fmt.Sprintf(" in %d pieces", q.Pieces)
	}
	return p.Line("%s: %s, %s%s", q.File, q.Recipe, size(q.Bytes), pieces)
}
