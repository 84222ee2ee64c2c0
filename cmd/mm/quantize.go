package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/internal/fsx"
)

func (p *program) quantizeCommand() *cli.Command {
	return &cli.Command{
		Name: "quantize", Usage: "rewrite a GGUF file in another precision", ArgsUsage: "IN.gguf OUT.gguf",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.StringFlag{Name: "to", Value: "int4", Usage: "fp32, fp16, bf16, int8, int4, or a recipe: " + strings.Join(quant.RecipeNames(), ", ")},
			&cli.StringFlag{Name: "method", Value: string(quantize.Nearest), Usage: "how weights are rounded: " + strings.Join(quantize.Methods(), ", ")},
			&cli.StringFlag{Name: "imatrix", Usage: "which columns matter: an importance matrix of llama.cpp's, or a `TEXT` that the model reads to make one"},
			&cli.StringFlag{Name: "calibration", Usage: "`TEXT` that the model reads, for awq and gptq"},
			&cli.StringFlag{Name: "separator", Usage: "what stands between the documents of a text"},
			&cli.IntFlag{Name: "windows", Usage: "how many windows of up to 512 tokens are read of a text (default: 64)"},
			&cli.StringFlag{Name: "keep-imatrix", Usage: "write the importance matrix to `FILE` as well: GGUF, or llama.cpp's older form where it ends in .dat or .imatrix"},
			&cli.IntFlag{Name: "threads", Usage: "threads that compute (default: what the machine has)"},
			&cli.BoolFlag{Name: "force", Usage: "replace OUT.gguf if there is one"},
		},
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 2, 2); err != nil {
				return err
			}
			recipe, err := quantize.Recipe(c.String("to"))
			if err != nil {
				return usageError{fmt.Errorf("--to: %w", err)}
			}
			opt := quantize.Options{
				Recipe: recipe, Method: quantize.Method(c.String("method")), Imatrix: c.String("imatrix"), Calibration: c.String("calibration"),
				Separator: c.String("separator"), Windows: c.Int("windows"), Keep: c.String("keep-imatrix"), Threads: c.Int("threads"),
			}
			if err := opt.Check(); err != nil {
				return usageError{err}
			}
			in, err := os.Open(c.Args().Get(0))
			if err != nil {
				return err
			}
			defer in.Close()
			if err := mayWrite(in, c.Args().Get(1), c.Bool("force")); err != nil {
				return err
			}
			notes, written, err := rewrite(c.Context, in, opt, c.Args().Get(1))
			if err != nil {
				return err
			}
			return p.printQuantized(quantized{File: c.Args().Get(1), Recipe: recipe.Name, Bytes: written, Notes: notes})
		},
	}
}

// quantized is what mm quantize prints.
type quantized struct {
	File   string   `json:"file"`
	Recipe string   `json:"recipe"`
	Bytes  int64    `json:"bytes"`
	Notes  []string `json:"notes,omitempty"` // where a tensor got another type than the recipe's
}

func (p *program) printQuantized(q quantized) error {
	if p.json {
		return p.printJSON(q)
	}
	for _, n := range q.Notes {
		p.say("%s", n)
	}
	_, err := fmt.Fprintf(p.stdout, "%s: %s, %s\n", q.File, q.Recipe, size(q.Bytes))
	return err
}

// mayWrite refuses to write over the file that is read, by whatever name, and
// over another unless it is forced.
func mayWrite(in *os.File, out string, force bool) error {
	there, err := os.Stat(out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	from, err := in.Stat()
	if err != nil {
		return err
	}
	switch {
	case os.SameFile(from, there):
		return hinted{fmt.Errorf("%s is the file that is read", out), "quantising loses what the file holds; write another one"}
	case there.IsDir():
		return fmt.Errorf("%s is a folder", out)
	case !force:
		return hinted{fmt.Errorf("%s exists already", out), "--force replaces it"}
	}
	return nil
}

// rewrite writes the file aside and gives it its name once it is whole.
func rewrite(ctx context.Context, in *os.File, opt quantize.Options, out string) (notes []string, written int64, err error) {
	d, err := fsx.Create(filepath.Dir(out), 0o755, fsx.Options{})
	if err != nil {
		return nil, 0, err
	}
	defer d.Close()
	tmp, err := d.CreateTemp(".", ".mm-quantize-", 0o644)
	if err != nil {
		return nil, 0, err
	}
	notes, err = quantize.File(ctx, in, opt, tmp)
	if err == nil {
		err = tmp.Sync()
	}
	stat, statErr := tmp.Stat()
	if err = errors.Join(err, statErr, tmp.Close()); err == nil {
		err = d.Rename(tmp.Name(), filepath.Base(out))
	}
	if err != nil {
		return nil, 0, errors.Join(err, d.Remove(tmp.Name()))
	}
	return notes, stat.Size(), d.SyncDir(".")
}
