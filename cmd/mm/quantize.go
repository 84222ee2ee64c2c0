package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/core/quant"
)

func (p *program) quantizeCommand() *cli.Command {
	return &cli.Command{
		Name: "quantize", Usage: "rewrite a GGUF file in another precision", ArgsUsage: "IN.gguf OUT.gguf",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.StringFlag{Name: "to", Value: "int4", Usage: "fp32, fp16, bf16, int8, int4, or a recipe: " + strings.Join(quant.RecipeNames(), ", ")},
			&cli.StringFlag{Name: "method", Value: string(quantize.Nearest), Usage: "rounding method: " + strings.Join(quantize.Methods(), ", ")},
			&cli.StringFlag{Name: "imatrix", Usage: "importance matrix of llama.cpp, or a `TEXT` to measure one on"},
			&cli.StringFlag{Name: "calibration", Usage: "calibration `TEXT` for awq and gptq"},
			&cli.StringFlag{Name: "separator", Usage: "separator of the documents in a text"},
			&cli.IntFlag{Name: "windows", Usage: "maximum number of windows of 512 tokens read from a text (default: 64)"},
			&cli.StringFlag{Name: "keep-imatrix", Usage: "write the importance matrix to `FILE`: GGUF, or llama.cpp's older format for .dat and .imatrix"},
			&cli.IntFlag{Name: "threads", Usage: "number of threads (default: all CPUs)"},
			&cli.StringFlag{Name: "split", Usage: "write pieces OUT-00001-of-0000N.gguf: a `SIZE` of each such as 2G or 500M, or their number"},
			&cli.BoolFlag{Name: "force", Usage: "replace OUT.gguf if it exists"},
		},
		Action: func(c *cli.Context) error {
			recipe, err := quantize.Recipe(c.String("to"))
			if err != nil {
				return usageError{fmt.Errorf("--to: %w", err)}
			}
			opt := quantize.Options{
				Recipe: recipe, Method: quantize.Method(c.String("method")), Imatrix: c.String("imatrix"), Calibration: c.String("calibration"),
				Separator: c.String("separator"), Windows: c.Int("windows"), Keep: c.String("keep-imatrix"), Threads: c.Int("threads"),
			}
			if text := c.String("split"); c.IsSet("split") {
				if opt.Split, err = quantize.ParseSplit(text); err != nil {
					return usageError{fmt.Errorf("--split: %w", err)}
				}
			}
			if err := opt.Check(); err != nil {
				return usageError{err}
			}
			notes, written, err := quantize.Rewrite(c.Context, c.Args().Get(0), c.Args().Get(1), opt, c.Bool("force"))
			switch {
			case errors.Is(err, quantize.ErrSameFile):
				return hinted{err, "write another file: quantization is lossy"}
			case errors.Is(err, quantize.ErrExists):
				return hinted{err, "--force replaces it"}
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
			return p.printQuantized(q)
		},
	}
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
	if p.json {
		return p.printJSON(q)
	}
	for _, n := range q.Notes {
		p.say("%s", n)
	}
	pieces := ""
	if q.Pieces > 0 {
		pieces = fmt.Sprintf(" in %d pieces", q.Pieces)
	}
	return p.line("%s: %s, %s%s", q.File, q.Recipe, size(q.Bytes), pieces)
}
