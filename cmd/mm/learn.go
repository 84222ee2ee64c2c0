package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/core/infer/score"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/llm"
)

func (p *program) gradcheck(c *cli.Context) error {
	checks, err := llm.CheckVariants(c.Context, c.Uint64("seed"))
	if err != nil {
		return err
	}
	lines, bad := llm.Worst(checks, c.Float64("tolerance"), c.Bool("all"))
	err = printRows(p, lines, []string{"VARIANT", "TENSOR", "PROBED", "RELATIVE ERROR"}, func(l llm.Probe) []string {
		return []string{l.Variant, l.Tensor, fmt.Sprint(l.Probed), fmt.Sprintf("%.1e", l.Error)}
	})
	if err == nil && bad > 0 {
		err = fmt.Errorf("%d gradients differ by more than %g", bad, c.Float64("tolerance"))
	}
	return err
}

func (p *program) evalLM(c *cli.Context) error {
	arg := c.Args().First()
	switch filepath.Ext(arg) {
	case ".yaml", ".yml":
		base, err := measureData(c.Context, arg)
		return show(p, train.Report{NGram: &base}, err, p.printMeasured)
	case ".gguf":
		if err := refuseOptions(c, "--%s is for checkpoints and configurations", "ngram", "sample"); err != nil {
			return err
		}
		if c.String("data") == "" {
			return diag.Usagef("a GGUF file requires a text: set --data FILE")
		}
		text, err := fsx.ReadFile(c.String("data"), mostText)
		if err != nil {
			return err
		}
		ev, err := score.File(c.Context, arg, string(text), score.FileOptions{Threads: c.Int("threads"), Options: score.Options{
			Window: c.Int("window"), Limit: c.Int("windows"), Separator: c.String("separator"), Special: c.Bool("special"),
		}})
		m := train.Measured{Evaluation: train.Evaluation{Loss: ev.Loss, BitsPerByte: ev.BitsPerByte, Predictions: ev.Predictions, Bytes: ev.Bytes}}
		return show(p, m.Report(), err, p.printMeasured)
	}
	m, err := train.Measure(c.Context, arg, train.MeasureOptions{
		Dir: c.String("data"), Windows: c.Int("windows"), Threads: c.Int("threads"), NGram: c.Bool("ngram"), Samples: c.StringSlice("sample"), Objects: objects(),
	})
	return show(p, m.Report(), err, p.printMeasured)
}

// measureData measures the n-gram baselines on the data of a configuration.
func measureData(ctx context.Context, file string) (base dataset.Baselines, err error) {
	doc, _, err := schemas.ReadTraining(file)
	if err != nil {
		return base, err
	}
	cfg, err := decodeConfig(doc)
	if err != nil {
		return base, err
	}
	corpus, err := train.PrepareFrom(ctx, cfg, filepath.Dir(file), objects())
	if err != nil {
		return base, placed(doc, bucket.Fault(file, err))
	}
	defer corpus.Close()
	return dataset.NGrams(corpus.Train, corpus.Held, cfg.Model.Vocab)
}

// mostText is the largest text that is read into memory.
const mostText = 256 << 20

func (p *program) printMeasured(m train.Report) error {
	if err := p.PrintTable(train.ReportHeading(), m.Rows()); err != nil {
		return err
	}
	for _, s := range m.Samples {
		if _, err := io.WriteString(p.Stdout, "\n"+s+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// readText concatenates files, mostText bytes at most; - is standard input.
func (p *program) readText(files []string) (string, error) {
	var b strings.Builder
	for _, f := range files {
		data, err := p.input().Read(f, int64(mostText-b.Len()))
		if err != nil {
			return "", err
		}
		b.Write(data)
	}
	return b.String(), nil
}
