package train

import (
	"errors"
	"fmt"
	"math"

	"mm-abi.org/mm/train/optim"
)

// Run holds the task-independent configuration of a run. Zero fields take the
// defaults of [Config].
type Run struct {
	Name       string
	Accumulate int // batches per step
	Optimizer  Optimizer
	Schedule   optim.Schedule
	Clip       float64 // maximum global gradient norm; negative disables
	Seal       int     // steps between checks of the frozen tensors' hashes
	Stop       Stop
	LogEvery   int // steps
	EvalEvery  int // steps; 0: at the end only
	SaveEvery  int // steps between checkpoints; 0: at the end only
}

// Validate reports all faults of r with the defaults filled in.
func (r Run) Validate() error { return r.withDefaults().validate() }

// withDefaults returns r with the defaults filled in.
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

// validate reports all faults of r.
func (r Run) validate() error {
	errs := []error{At("/schedule", r.Schedule.Validate()), At("/optimizer", r.Optimizer.validate())}
	fault := func(path string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, At(path, fmt.Errorf(format, args...)))
		}
	}
	s := r.Stop
	fault("/accumulate", r.Accumulate < 1, "accumulate out of range: got %d, want at least 1", r.Accumulate)
	fault("/freeze/every", r.Seal < 1, "freeze: every out of range: got %d, want at least 1", r.Seal)
	fault("/stop", s.Steps < 0 || s.Tokens < 0 || !(s.Seconds >= 0) || !(s.Loss >= 0), "stop: negative value")
	fault("/stop", s.Steps == 0 && s.Tokens == 0 && s.Seconds == 0, "stop: missing steps, tokens or seconds")
	fault("/stop/loss", s.Loss > 0 && r.EvalEvery == 0, "stop: loss requires eval.every")
	fault("/log_every", r.LogEvery < 1 || r.EvalEvery < 0 || r.SaveEvery < 0, "out of range: log_every %d, eval.every %d, save_every %d", r.LogEvery, r.EvalEvery, r.SaveEvery)
	fault("/clip", math.IsNaN(r.Clip) || math.IsInf(r.Clip, 0), "clip is not a finite number: %v", r.Clip)
	return errors.Join(errs...)
}
