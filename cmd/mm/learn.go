package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/core/infer/score"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

func (p *program) gradcheck(c *cli.Context) error {
	type line struct {
		Variant string  `json:"variant"`
		Tensor  string  `json:"tensor"`
		Probed  int     `json:"probed"`
		Error   float64 `json:"relative_error"`
	}
	var lines []line
	bad := 0
	checks, err := llm.CheckVariants(c.Context, c.Uint64("seed"))
	if err != nil {
		return err
	}
	for _, v := range checks {
		worst := slices.MaxFunc(v.Tensors, func(a, b nn.Comparison) int {
			if a.Error > b.Error {
				return 1
			}
			return -1
		})
		for _, r := range v.Tensors {
			if r.Error > c.Float64("tolerance") {
				bad++
			}
			if c.Bool("all") || r.Tensor == worst.Tensor || r.Error > c.Float64("tolerance") {
				lines = append(lines, line{v.Variant, r.Tensor, r.Probed, r.Error})
			}
		}
	}
	if p.json {
		if err := p.printJSON(lines); err != nil {
			return err
		}
	} else {
		var rows [][]string
		for _, l := range lines {
			rows = append(rows, []string{l.Variant, l.Tensor, fmt.Sprint(l.Probed), fmt.Sprintf("%.1e", l.Error)})
		}
		if err := p.printTable([]string{"VARIANT", "TENSOR", "PROBED", "RELATIVE ERROR"}, rows); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d gradients differ by more than %g", bad, c.Float64("tolerance"))
	}
	return nil
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

func evaluated(e train.Evaluation) *evaluation {
	return &evaluation{Evaluation: e, Perplexity: math.Exp(e.Loss)}
}

func (p *program) evalLM(c *cli.Context) error {
	arg := c.Args().First()
	switch filepath.Ext(arg) {
	case ".yaml", ".yml":
		return p.evalConfig(c.Context, arg)
	case ".gguf":
		if err := refuseOptions(c, "--%s is for checkpoints and configurations", "ngram", "sample"); err != nil {
			return err
		}
		return p.evalGGUF(c.Context, arg, c.String("data"), score.FileOptions{Threads: c.Int("threads"), Options: score.Options{
			Window: c.Int("window"), Limit: c.Int("windows"), Separator: c.String("separator"), Special: c.Bool("special"),
		}})
	}
	return p.evalCheckpoint(c.Context, arg, train.MeasureOptions{
		Dir: c.String("data"), Windows: c.Int("windows"), Threads: c.Int("threads"), NGram: c.Bool("ngram"), Samples: c.StringSlice("sample"), Objects: objects(),
	})
}

// evalConfig measures the n-gram baselines on the data of a configuration.
func (p *program) evalConfig(ctx context.Context, file string) error {
	doc, err := readTraining(file)
	if err != nil {
		return err
	}
	cfg, err := loadTraining(doc)
	if err != nil {
		return err
	}
	corpus, err := train.PrepareFrom(ctx, cfg, filepath.Dir(file), objects())
	if err != nil {
		return placed(doc, bucket.Fault(file, err))
	}
	defer corpus.Close()
	base, err := dataset.NGrams(corpus.Train, corpus.Held, cfg.Model.Vocab)
	if err != nil {
		return err
	}
	return show(p, measured{NGram: &base}, nil, p.printMeasured)
}

// mostText is the largest text that is read into memory.
const mostText = 256 << 20

func (p *program) evalGGUF(ctx context.Context, file, data string, opt score.FileOptions) error {
	if data == "" {
		return diag.Usagef("a GGUF file requires a text: set --data FILE")
	}
	text, err := fsx.ReadFile(data, mostText)
	if err != nil {
		return err
	}
	ev, err := score.File(ctx, file, string(text), opt)
	if err != nil {
		return err
	}
	return show(p, measured{Model: evaluated(train.Evaluation{Loss: ev.Loss, BitsPerByte: ev.BitsPerByte, Predictions: ev.Predictions, Bytes: ev.Bytes})}, nil, p.printMeasured)
}

func (p *program) evalCheckpoint(ctx context.Context, file string, opt train.MeasureOptions) error {
	m, err := train.Measure(ctx, file, opt)
	if err != nil {
		return err
	}
	model := evaluated(m.Evaluation)
	model.Adapters = m.Adapters
	return show(p, measured{Model: model, NGram: m.NGram, Samples: m.Samples}, nil, p.printMeasured)
}

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
	if err := p.printTable([]string{"HELD OUT", "NATS A TOKEN", "BITS A BYTE", "PREDICTIONS", "PERPLEXITY"}, rows); err != nil {
		return err
	}
	for _, s := range m.Samples {
		if _, err := io.WriteString(p.stdout, "\n"+s+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// readText concatenates files, mostText bytes at most; - is standard input.
func (p *program) readText(files []string) (string, error) {
	var b strings.Builder
	for _, f := range files {
		left := int64(mostText - b.Len())
		var data []byte
		var err error
		if f != "-" {
			data, err = fsx.ReadFile(f, left)
		} else if data, err = io.ReadAll(io.LimitReader(p.stdin, left+1)); err == nil && int64(len(data)) > left {
			err = fmt.Errorf("standard input is %w: the limit is %s", fsx.ErrTooLarge, size(mostText))
		}
		if err != nil {
			return "", err
		}
		b.Write(data)
	}
	return b.String(), nil
}
