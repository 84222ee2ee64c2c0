package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/core/train"
	"mm-abi.org/mm/core/train/modal"
	"mm-abi.org/mm/schemas"
)

// loadStage is the recipe of a training stage.
func loadStage(doc *schemas.Document) (modal.Recipe, error) {
	var r modal.Recipe
	if err := doc.Decode(&r); err != nil {
		return r, err
	}
	return r, placed(doc, r.Validate())
}

// trainStage trains encoders, projectors or adapters.
func (p *program) trainStage(ctx context.Context, doc *schemas.Document, opt trainingOptions) error {
	if opt.sample != "" {
		return usageError{errors.New("--sample is for language models")}
	}
	r, err := loadStage(doc)
	if err != nil {
		return err
	}
	if opt.dir == "" {
		opt.dir = filepath.Join(filepath.Dir(opt.file), "runs", runName(r.Name, opt.file))
	}
	r.Stop = opt.stop(r.Stop)
	p.say("stage %s: %s frozen", r.Stage, r.Stage.Frozen())
	view := p.newTrainingView(r.Stop)
	t, err := modal.RunFolder(ctx, r, opt.resume, train.Options{Dir: opt.dir, From: filepath.Dir(opt.file), Observer: view, Threads: opt.threads, CPU: processTime})
	view.close()
	if err == nil {
		defer t.Close()
	}
	return p.endStage(doc, opt, view, err)
}

// endStage tells how a run of a stage ended.
func (p *program) endStage(doc *schemas.Document, opt trainingOptions, view *trainingView, err error) error {
	if errors.Is(err, train.ErrHeld) {
		return hinted{err, "--resume goes on with it; --out chooses another folder"}
	}
	if err != nil {
		return placed(doc, err)
	}
	if opt.plot != "" {
		if err := plotRun(filepath.Join(opt.dir, train.MetricsFile), opt.plot, nil, 0); err != nil {
			return err
		}
		p.say("drew %s", opt.plot)
	}
	if p.json {
		return p.printJSON(map[string]any{"dir": opt.dir, "end": view.end, "eval": view.eval})
	}
	_, err = fmt.Fprintln(p.stdout, filepath.Join(opt.dir, train.BestFile))
	return err
}

// shares are scores in one line.
func shares(scores []train.Score) string {
	var parts []string
	for _, s := range scores {
		parts = append(parts, fmt.Sprintf("%s %.0f%%", s.Kind, 100*s.Accuracy()))
	}
	return strings.Join(parts, ", ")
}

func (p *program) evalSenseCommand() *cli.Command {
	return &cli.Command{
		Name: "sense", Usage: "how often a checkpoint answers right about pictures and sounds it has never met",
		ArgsUsage: "CHECKPOINT",
		Description: "Asks every question about N held-out examples, of the sources of the recipe it was trained by,\n" +
			"and counts the answers that greedy decoding gives exactly right. --ablate asks the same with the\n" +
			"input of another example, and with none, where right answers should fall to chance.",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.IntFlag{Name: "n", Value: 500, Usage: "held-out examples"},
			&cli.BoolFlag{Name: "ablate", Usage: "ask with another's input, and with none, as well"},
			&cli.StringFlag{Name: "data", Usage: "folder that the recipe's paths are relative to (default: where it lay, seen from the checkpoint)"},
			&cli.IntFlag{Name: "threads", Usage: "threads"},
		},
		Action: p.evalSense,
	}
}

// tried is what mm eval sense prints of one way to show an example.
type tried struct {
	Look modal.Look `json:"look,omitempty"`
	train.Evaluation
}

func (p *program) evalSense(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	if n := c.Int("n"); n < 1 {
		return usageError{fmt.Errorf("--n is %d, at least 1", n)}
	}
	looks := []modal.Look{modal.Own}
	if c.Bool("ablate") {
		looks = append(looks, modal.Another, modal.Nothing)
	}
	all, err := modal.Measure(c.Context, c.Args().First(), looks, modal.MeasureOptions{N: c.Int("n"), Dir: c.String("data"), Threads: c.Int("threads")})
	if err != nil {
		return err
	}
	var out []tried
	var rows [][]string
	for i, e := range all {
		out = append(out, tried{looks[i], e})
		for _, s := range e.Scores {
			low, high := s.Interval()
			rows = append(rows, []string{looks[i].Name(), s.Kind, fmt.Sprintf("%.1f%%", 100*s.Accuracy()), fmt.Sprintf("%.1f–%.1f%%", 100*low, 100*high),
				fmt.Sprint(s.N), fmt.Sprintf("%.1f%%", 100*s.Chance)})
		}
	}
	if p.json {
		return p.printJSON(out)
	}
	return p.printTable([]string{"SHOWN", "QUESTION", "RIGHT", "95 % INTERVAL", "N", "CHANCE"}, rows)
}
