package main

import (
	"context"
	"errors"
	"path/filepath"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/improve"
	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train"
)

// improve trains a core on its own answers, round by round.
func (p *program) improve(ctx context.Context, doc *schemas.Document, opt trainingOptions) error {
	if opt.sample != "" || opt.steps > 0 || opt.time > 0 {
		return diag.Usagef("--sample, --steps and --time are for other stages")
	}
	var s improve.Spec
	if err := doc.Decode(&s); err != nil {
		return err
	}
	if opt.threads > 0 {
		s.Threads = opt.threads
	}
	dir := opt.folder(s.Name)
	run := improve.Options{Dir: dir, From: filepath.Dir(opt.file), Resume: opt.resume, Say: func(r improve.Round) { p.Note("%s", r) }, Warn: func(err error) { p.Note("warning: %v", err) }}
	if opt.checkpoints != "" {
		var err error
		if run.Copies, err = bucketFiles(opt.checkpoints); err != nil {
			return err
		}
	}
	sum, err := improve.Run(ctx, s, run)
	switch {
	case errors.Is(err, train.ErrHeld):
		return diag.Hinted(err, "--resume continues it; --out selects another folder, --checkpoints another place")
	case err != nil:
		return placed(doc, bucket.Fault(opt.checkpoints, err))
	}
	if opt.plot != "" {
		if err := sum.Plot(opt.plot); err != nil {
			return err
		}
		p.Note("plotted %s", opt.plot)
	}
	p.Note("%s", sum)
	return p.PrintLine(map[string]any{"dir": dir, "improvement": sum.Figures()}, "%s", filepath.Join(dir, sum.Model()))
}
