package main

import (
	"context"
	"errors"
	"path/filepath"

	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/decode"
)

// trainDecoder trains a decoder behind a frozen core: stage 2.
func (p *program) trainDecoder(ctx context.Context, doc *schemas.Document, opt trainingOptions) error {
	if opt.sample != "" {
		return usageError{errors.New("--sample is for language models")}
	}
	var r decode.Recipe
	if err := doc.Decode(&r); err != nil {
		return err
	}
	if err := placed(doc, r.Validate()); err != nil {
		return err
	}
	if opt.dir == "" {
		opt.dir = filepath.Join(filepath.Dir(opt.file), "runs", runName(r.Name, opt.file))
	}
	r.Stop = opt.stop(r.Stop)
	p.say("stage %s: the core frozen", r.Stage)
	view := p.newTrainingView(r.Stop)
	t, err := decode.RunFolder(ctx, r, opt.resume, train.Options{Dir: opt.dir, From: filepath.Dir(opt.file), Observer: view, Threads: opt.threads, CPU: processTime})
	view.close()
	if err == nil {
		defer t.Close()
	}
	return p.endStage(doc, opt, view, err)
}
