package train

import (
	"errors"
	"fmt"
	"math"

	"mm-abi.org/mm/train/optim"
)

// Run is how a task is trained: all of a configuration that does not depend on
// what the task is. Zero fields take the defaults of [Config].
type Run struct {
	Name       string
	Accumulate int // batches a step
	Optimizer  Optimizer
	Schedule   optim.Schedule
	Clip       float64 // of the global gradient norm; negative never clips
	Seal       int     // steps between comparisons of the frozen tensors' hashes
	Stop       Stop
	LogEvery   int // steps
	EvalEvery  int // steps; 0: at the end only
	SaveEvery  int // steps between checkpoints; 0: at the end only
}

// Validate says everything that is wrong with r, defaults filled in first.
func (r Run) Validate() error { return r.withDefaults().validate() }

// withDefaults is r with the defaults filled in.
func (r Run) withDefaults() Run {
	SetDefault(&r.Accumulate, 1)
	SetDefault(&r.Seal, 10)
	SetDefault(&r.LogEvery, 10)
	SetDefault(&r.Clip, 1)
	if r.Optimizer.Name == "" {
		r.Optimizer.Name = "adamw"
	}
	if r.Optimizer.Rate == 0 {
		r.Optimizer.Rate = 3e-3
		if r.Optimizer.Name == "lion" {
			r.Optimizer.Rate = 3e-4
		}
	}
	return r
}

// validate says everything that is wrong with r, defaults filled in.
func (r Run) validate() error {
	errs := []error{At("/schedule", r.Schedule.Validate()), At("/optimizer", r.Optimizer.validate())}
	fault := func(path string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, At(path, fmt.Errorf(format, args...)))
		}
	}
	s := r.Stop
	fault("/accumulate", r.Accumulate < 1, "accumulate is %d, at least 1", r.Accumulate)
	fault("/freeze/every", r.Seal < 1, "freeze: every is %d", r.Seal)
	fault("/stop", s.Steps < 0 || s.Tokens < 0 || !(s.Seconds >= 0) || !(s.Loss >= 0), "stop: nothing may be negative")
	fault("/stop", s.Steps == 0 && s.Tokens == 0 && s.Seconds == 0, "stop: one of steps, tokens, seconds must end the run")
	fault("/stop/loss", s.Loss > 0 && r.EvalEvery == 0, "stop: a target loss needs eval.every")
	fault("/log_every", r.LogEvery < 1 || r.EvalEvery < 0 || r.SaveEvery < 0, "log_every %d, eval.every %d, save_every %d: out of range", r.LogEvery, r.EvalEvery, r.SaveEvery)
	fault("/clip", math.IsNaN(r.Clip) || math.IsInf(r.Clip, 0), "clip %v is no number", r.Clip)
	return errors.Join(errs...)
}
