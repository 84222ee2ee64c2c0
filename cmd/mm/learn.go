package main

import (
	"context"
	"fmt"
	"io"
	"math"
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

// measured is the output of mm eval lm.
type measured struct {
	Model   *evaluation        `json:"model,omitempty"`
	NGram   *dataset.Baselines `json:"ngram,omitempty"`
	Samples []string           `json:"samples,omitempty"`
}

// evaluation is the loss of a model with its perplexity.
type evaluation struct {
	train.Evaluation
	Perplexity float64         `json:"perplexity"` // e^loss
	Adapters   *train.Recovery `json:"adapters,omitempty"`
}

func (p *program) evalLM(c *cli.Context) error {
	arg := c.Args().First()
	switch filepath.Ext(arg) {
	case ".yaml", ".yml":
		base, err := measureData(c.Context, arg)
		return show(p, measured{NGram: &base}, err, p.printMeasured)
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
		e := train.Evaluation{Loss: ev.Loss, BitsPerByte: ev.BitsPerByte, Predictions: ev.Predictions, Bytes: ev.Bytes}
		return show(p, measured{Model: &evaluation{e, math.Exp(e.Loss), nil}}, err, p.printMeasured)
	}
	m, err := train.Measure(c.Context, arg, train.MeasureOptions{
		Dir: c.String("data"), Windows: c.Int("windows"), Threads: c.Int("threads"), NGram: c.Bool("ngram"), Samples: c.StringSlice("sample"), Objects: objects(),
	})
	return show(p, measured{&evaluation{m.Evaluation, math.Exp(m.Loss), m.Adapters}, m.NGram, m.Samples}, err, p.printMeasured)
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

func (p *program) printMeasured(m measured) error {
	var rows [][]string
	if m.NGram != nil {
		for _, b := range []struct {
			name string
			loss float64
		}{{"uniform", m.NGram.Uniform}, {"unigram", m.NGram.Unigram}, {"bigram", m.NGram.Bigram}, {"trigram", m.NGram.Trigram}} {
			rows = append(rows, []string{b.name, fmt.Sprintf("%.4f", b.loss), "", fmt.Sprint(m.NGram.Predictions), fmt.Sprintf("%.4f", math.Exp(b.loss))})
		}
	}
	if m.Model != nil {
		rows = append(rows, []string{"model", fmt.Sprintf("%.4f", m.Model.Loss), fmt.Sprintf("%.4f", m.Model.BitsPerByte), fmt.Sprint(m.Model.Predictions), fmt.Sprintf("%.4f", m.Model.Perplexity)})
		if a := m.Model.Adapters; a != nil {
			rows = append(rows, []string{"without adapters", "", fmt.Sprintf("%.4f", a.Before), "", ""},
				[]string{"change, 95 %", "", fmt.Sprintf("%+.4f (%+.4f to %+.4f)", a.After-a.Before, a.Low, a.High), "", ""})
		}
	}
	if err := p.PrintTable([]string{"HELD OUT", "NATS A TOKEN", "BITS A BYTE", "PREDICTIONS", "PERPLEXITY"}, rows); err != nil {
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
