package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/core/dataset"
	"mm-abi.org/mm/core/llm"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/train"
)

// gradcheckVariants are the shapes whose gradients are checked: every branch
// of the model, small enough for finite differences.
func gradcheckVariants() []struct {
	name string
	cfg  llm.Config
	lora *llm.LoRA
} {
	base := llm.Config{Vocab: 19, Dim: 12, Layers: 2, Heads: 3, Hidden: 20, Context: 16}
	with := func(change func(*llm.Config)) llm.Config {
		c := base
		change(&c)
		return c
	}
	type v = struct {
		name string
		cfg  llm.Config
		lora *llm.LoRA
	}
	return []v{
		{"swiglu, half-split rope", base, nil},
		{"interleaved rope", with(func(c *llm.Config) { c.Rope = "interleaved" }), nil},
		{"relu²", with(func(c *llm.Config) { c.Activation = "relu2" }), nil},
		{"grouped queries", with(func(c *llm.Config) { c.Dim, c.Heads, c.KVHeads = 16, 4, 2 }), nil},
		{"query and key norm", with(func(c *llm.Config) { c.QKNorm = true }), nil},
		{"tied head", with(func(c *llm.Config) { c.Tied = true }), nil},
		{"embedding norm", with(func(c *llm.Config) { c.EmbedNorm = true }), nil},
		{"rwkv", with(func(c *llm.Config) { c.Mixer = llm.RWKV }), nil},
		{"lora", base, &llm.LoRA{Rank: 2}},
	}
}

func (p *program) gradcheckCommand() *cli.Command {
	return &cli.Command{
		Name: "gradcheck", Usage: "compare every gradient with finite differences in float64",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.Uint64Flag{Name: "seed", Usage: "seed of weights and data"},
			&cli.Float64Flag{Name: "tolerance", Value: 1e-6, Usage: "largest relative error"},
			&cli.BoolFlag{Name: "all", Usage: "print every tensor, not only the worst of each variant"},
		},
		Action: p.gradcheck,
	}
}

func (p *program) gradcheck(c *cli.Context) error {
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
	type line struct {
		Variant string  `json:"variant"`
		Tensor  string  `json:"tensor"`
		Probed  int     `json:"probed"`
		Error   float64 `json:"relative_error"`
	}
	var lines []line
	bad := 0
	for _, v := range gradcheckVariants() {
		if err := c.Context.Err(); err != nil {
			return err
		}
		results, err := llm.Gradcheck(v.cfg, llm.GradcheckOptions{Seed: c.Uint64("seed"), LoRA: v.lora})
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		worst := slices.MaxFunc(results, func(a, b llm.GradcheckResult) int {
			if a.Error > b.Error {
				return 1
			}
			return -1
		})
		for _, r := range results {
			if r.Error > c.Float64("tolerance") {
				bad++
			}
			if c.Bool("all") || r.Tensor == worst.Tensor || r.Error > c.Float64("tolerance") {
				lines = append(lines, line{v.name, r.Tensor, r.Probed, r.Error})
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
		return fmt.Errorf("%d tensors are off by more than %g", bad, c.Float64("tolerance"))
	}
	return nil
}

func (p *program) evalCommand() *cli.Command {
	return &cli.Command{
		Name: "eval", Usage: "measure models",
		Subcommands: []*cli.Command{{
			Name: "lm", Usage: "held-out loss and bits a byte of a checkpoint; n-gram baselines of its data", ArgsUsage: "CHECKPOINT|CONFIG.yaml",
			Description: "A checkpoint is measured on the data of the configuration it was trained by. With --ngram\n" +
				"the baselines of the same split are printed too; for a CONFIG alone, only those.",
			Flags: []cli.Flag{
				p.jsonFlag(),
				&cli.BoolFlag{Name: "ngram", Usage: "held-out uniform, unigram, bigram and trigram cross-entropy"},
				&cli.StringFlag{Name: "data", Usage: "folder that the configuration's paths are relative to (default: the current one)"},
				&cli.IntFlag{Name: "windows", Usage: "at most so many windows (default: all)"},
				&cli.StringSliceFlag{Name: "sample", Usage: "continue this text"},
				&cli.IntFlag{Name: "threads", Usage: "threads"},
			},
			Action: p.evalLM,
		}},
	}
}

// measured is what mm eval lm prints.
type measured struct {
	Model   *train.Evaluation  `json:"model,omitempty"`
	NGram   *dataset.Baselines `json:"ngram,omitempty"`
	Samples []string           `json:"samples,omitempty"`
}

func (p *program) evalLM(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	arg := c.Args().First()
	if strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml") {
		cfg, err := loadTraining(arg)
		if err != nil {
			return err
		}
		corpus, err := train.Prepare(cfg, filepath.Dir(arg))
		if err != nil {
			return err
		}
		defer corpus.Close()
		base, err := dataset.NGrams(corpus.Train, corpus.Held, cfg.Model.Vocab)
		if err != nil {
			return err
		}
		return p.printMeasured(measured{NGram: &base})
	}
	return p.evalCheckpoint(c, arg)
}

func (p *program) evalCheckpoint(c *cli.Context, file string) error {
	ck, err := train.Open(file)
	if err != nil {
		return err
	}
	defer ck.Close()
	model, err := ck.Model()
	if err != nil {
		return err
	}
	cfg := ck.Header.Config.WithDefaults()
	cfg.Data.Cache = "" // measuring writes nothing, wherever a checkpoint wants it
	corpus, err := train.Prepare(cfg, c.String("data"))
	if err != nil {
		return hinted{err, "--data names the folder that the configuration's paths are relative to"}
	}
	defer corpus.Close()
	if !ck.Of(corpus) {
		return hinted{fmt.Errorf("%s was trained on other text or with another tokenizer than the files give now", file), "measure it beside the files it was trained on"}
	}
	workers := pool.New(c.Int("threads"))
	defer workers.Close()
	model.Refresh(workers)
	ev, err := train.Evaluate(model, workers, corpus.Held, cfg.SeqLen, c.Int("windows"), corpus.Tokenizer)
	if err != nil {
		return err
	}
	out := measured{Model: &ev}
	if c.Bool("ngram") {
		base, err := dataset.NGrams(corpus.Train, corpus.Held, ck.Header.Model.Vocab)
		if err != nil {
			return err
		}
		out.NGram = &base
	}
	for _, prompt := range c.StringSlice("sample") {
		text, err := train.Sample(model, corpus.Tokenizer, prompt, train.SampleOptions{Temperature: 0.8})
		if err != nil {
			return err
		}
		out.Samples = append(out.Samples, prompt+text)
	}
	return p.printMeasured(out)
}

func (p *program) printMeasured(m measured) error {
	if p.json {
		return p.printJSON(m)
	}
	var rows [][]string
	if m.NGram != nil {
		for _, b := range []struct {
			name string
			loss float64
		}{{"uniform", m.NGram.Uniform}, {"unigram", m.NGram.Unigram}, {"bigram", m.NGram.Bigram}, {"trigram", m.NGram.Trigram}} {
			rows = append(rows, []string{b.name, fmt.Sprintf("%.4f", b.loss), "", fmt.Sprint(m.NGram.Predictions)})
		}
	}
	if m.Model != nil {
		rows = append(rows, []string{"model", fmt.Sprintf("%.4f", m.Model.Loss), fmt.Sprintf("%.4f", m.Model.BitsPerByte), fmt.Sprint(m.Model.Predictions)})
	}
	if err := p.printTable([]string{"HELD OUT", "NATS A TOKEN", "BITS A BYTE", "PREDICTIONS"}, rows); err != nil {
		return err
	}
	for _, s := range m.Samples {
		if _, err := io.WriteString(p.stdout, "\n"+s+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// readText reads files one after the other; - is standard input.
func (p *program) readText(files []string) (string, error) {
	var b strings.Builder
	for _, f := range files {
		var data []byte
		var err error
		if f == "-" {
			data, err = io.ReadAll(p.stdin)
		} else {
			data, err = os.ReadFile(f)
		}
		if err != nil {
			return "", err
		}
		b.Write(data)
	}
	return b.String(), nil
}
