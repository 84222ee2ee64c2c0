package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/modal"
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
