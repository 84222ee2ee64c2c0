package train

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// afterStep runs the actions due after a step: the check of the frozen hashes,
// before anything is reported or saved, the report, the evaluation, the
// checkpoint. It reports whether the held-out loss has reached its target.
func (t *Trainer) afterStep() (reached bool, err error) {
	due := func(every int) bool { return every > 0 && t.step%every == 0 }
	if due(t.cfg.Seal) || due(t.cfg.EvalEvery) || due(t.cfg.SaveEvery) {
		if err := t.seal.check(t.step); err != nil {
			return false, err
		}
	}
	if t.step == 1 || due(t.cfg.LogEvery) { // the first step alone: a mean would hide the initial loss
		if err := t.logSteps(); err != nil {
			return false, err
		}
	}
	if due(t.cfg.EvalEvery) {
		loss, err := t.evaluate()
		if err != nil {
			return false, err
		}
		reached = t.size.Held > 0 && t.cfg.Stop.Loss > 0 && loss <= t.cfg.Stop.Loss
	}
	if due(t.cfg.SaveEvery) {
		return reached, t.save()
	}
	return reached, nil
}

// finish evaluates and saves at the end of a run. It saves first, so that a
// later failure does not lose the run, and again if the evaluation found the
// best weights.
func (t *Trainer) finish(reason string) error {
	if err := t.seal.check(t.step); err != nil {
		return err
	}
	if err := t.save(); err != nil {
		return err
	}
	if t.since.Steps > 0 {
		if err := t.logSteps(); err != nil {
			return err
		}
	}
	if t.cfg.EvalEvery == 0 || t.step%t.cfg.EvalEvery != 0 {
		best := t.best
		if _, err := t.evaluate(); err != nil {
			return err
		}
		if t.best != best {
			if err := t.save(); err != nil {
				return err
			}
		}
	}
	if a, ok := t.mover.(averager); ok {
		a.Average()
		t.task.Refresh()
	}
	return t.tell(t.finished(reason))
}

// finished returns the final event and the seals of the frozen parts.
func (t *Trainer) finished(reason string) Finished {
	f := Finished{Step: t.step, Tokens: t.tokens, Reason: reason, Seconds: t.watch.seconds(), CPU: t.watch.cpuSeconds()}
	if p, ok := t.task.(Parted); ok {
		f.Sealed = t.seal.parts(p.Part, t.task.Tensors())
	}
	return f
}

// interrupted saves a checkpoint.
func (t *Trainer) interrupted(ctx context.Context) error {
	if err := t.seal.check(t.step); err != nil {
		return err
	}
	if err := errors.Join(t.save(), t.tell(t.finished("interrupted"))); err != nil {
		return fmt.Errorf("interrupted at step %d: %w", t.step, err) // more severe than the interruption
	}
	return ctx.Err()
}

// pause saves a checkpoint and leaves the model as the end of a run does: that
// of the average, if the optimizer averages.
func (t *Trainer) pause(ctx context.Context) error {
	if err := t.interrupted(ctx); err != nil {
		return err
	}
	if a, ok := t.mover.(averager); ok {
		a.Average()
		t.task.Refresh()
	}
	return nil
}

func (t *Trainer) tell(e Event) error {
	if t.opt.Observer == nil {
		return nil
	}
	return t.opt.Observer.Observe(e)
}

func (t *Trainer) started() Started {
	s := Started{Name: t.cfg.Name, Frozen: len(t.seal.tensors), FLOPs: t.size.FLOPs,
		TrainTokens: t.size.Train, HeldTokens: t.size.Held, Threads: t.pool.Threads(), Step: t.step}
	if traced, ok := t.task.(Traced); ok {
		s.Lineage = traced.Lineage()
	}
	for _, w := range t.task.Tensors() {
		s.Parameters += w.Size()
		s.Trainable += len(w.Grad)
	}
	return s
}

func (t *Trainer) logSteps() error {
	r := t.since
	t.since = report{}
	return t.tell(Step{
		Step: t.step, Steps: r.Steps, Tokens: t.tokens, Epoch: float64(t.tokens) / float64(t.size.Train),
		Loss: r.Loss / float64(r.Steps), Rate: r.rate, GradNorm: r.norm,
		Speed: float64(r.Tokens) / r.Busy, Seconds: t.watch.seconds(), CPU: t.watch.cpuSeconds(),
	})
}

// evaluate measures the held-out loss, if there is held-out data, and saves the
// weights if it is the lowest so far.
func (t *Trainer) evaluate() (loss float64, err error) {
	if t.size.Held == 0 {
		return 0, nil
	}
	var e Evaluation
	err = t.averaged(func() error {
		if e, err = t.task.Evaluate(); err != nil {
			return err
		}
		if best := t.best == 0 || e.Loss < t.best; best {
			t.best = e.Loss
			if t.opt.Dir != "" {
				return t.write(filepath.Join(t.opt.Dir, BestFile), false)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return e.Loss, t.tell(Evaluated{Step: t.step, Evaluation: e, Tokens: t.tokens, Best: e.Loss == t.best, Seconds: t.watch.seconds(), CPU: t.watch.cpuSeconds()})
}

// averaged runs f with the averaged weights, if the optimizer averages.
func (t *Trainer) averaged(f func() error) error {
	a, ok := t.mover.(averager)
	if !ok {
		return f()
	}
	a.Average()
	t.task.Refresh()
	err := f()
	a.Continue()
	t.task.Refresh()
	return err
}

// save writes the checkpoint to resume from.
func (t *Trainer) save() error {
	if t.opt.Dir == "" {
		return nil
	}
	path := filepath.Join(t.opt.Dir, LastFile)
	if err := t.averaged(func() error { return t.write(path, true) }); err != nil {
		return err
	}
	return t.tell(Saved{Step: t.step, Path: path})
}
