package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/optim"
)

// Settings holds the fields that the recipes of all stages share.
type Settings struct {
	Optimizer Optimizer      `json:"optimizer,omitempty"`
	Schedule  optim.Schedule `json:"schedule,omitempty"`
	Clip      float64        `json:"clip,omitempty"` // maximum global gradient norm; default 1, negative disables
	Stop      Stop           `json:"stop"`

	LogEvery  int     `json:"log_every,omitempty"`  // steps; default 10
	SealEvery int     `json:"seal_every,omitempty"` // steps between checks of the frozen tensors' hashes; default 50
	Eval      HeldOut `json:"eval,omitempty"`
	SaveEvery int     `json:"save_every,omitempty"` // steps between checkpoints; 0: at the end only
	Threads   int     `json:"threads,omitempty"`    // 0: all of the machine; does not change the result
}

// HeldOut configures the evaluation on held-out examples.
type HeldOut struct {
	Every int `json:"every,omitempty"` // steps; 0: at the end only
	N     int `json:"n,omitempty"`     // examples; default 64
}

// Limits of settings.
const (
	maxThreads = 1024
	maxHeldOut = 1 << 20
)

// WithDefaults returns s with the defaults filled in.
func (s Settings) WithDefaults() Settings {
	SetDefault(&s.LogEvery, 10)
	SetDefault(&s.SealEvery, 50)
	SetDefault(&s.Eval.N, 64)
	SetDefault(&s.Clip, 1)
	return s
}

// SetDefault sets v to a default if it is zero.
func SetDefault[T int | float64](v *T, to T) {
	if *v == 0 {
		*v = to
	}
}

// Run returns the run of a recipe.
func (s Settings) Run(name string, accumulate int) Run {
	return Run{
		Name: name, Accumulate: accumulate, Optimizer: s.Optimizer, Schedule: s.Schedule, Clip: s.Clip, Seal: s.SealEvery,
		Stop: s.Stop, LogEvery: s.LogEvery, EvalEvery: s.Eval.Every, SaveEvery: s.SaveEvery,
	}
}

// Validate reports all faults of the fields that [Run] does not check.
func (s Settings) Validate() error {
	var errs []error
	if s.Threads < 0 || s.Threads > maxThreads {
		errs = append(errs, Atf("/threads", "threads out of range: got %d, want 0 to %d", s.Threads, maxThreads))
	}
	if s.Eval.N < 1 || s.Eval.N > maxHeldOut {
		errs = append(errs, Atf("/eval/n", "eval.n out of range: got %d, want 1 to %d", s.Eval.N, maxHeldOut))
	}
	return errors.Join(errs...)
}

// UnmarshalStage decodes the name of a stage, a JSON number or string.
func UnmarshalStage[S ~string](b []byte, stage *S) error {
	if bytes.HasPrefix(b, []byte{'"'}) {
		var s string
		err := json.Unmarshal(b, &s)
		*stage = S(s)
		return err
	}
	var n json.Number
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	*stage = S(n)
	return nil
}

// Pool starts the threads of a run: opt.Threads if above 0, otherwise threads.
func (opt Options) Pool(threads int) *pool.Pool {
	if opt.Threads > 0 {
		threads = opt.Threads
	}
	return pool.New(threads)
}

// OpenAs opens the checkpoint at path and parses the header of its task, which is
// untrusted.
func OpenAs[H any](path string, parse func(Header) (H, error)) (*Checkpoint, H, error) {
	c, err := Open(path)
	if err != nil {
		var none H
		return nil, none, err
	}
	h, err := parse(c.Header)
	if err != nil {
		return nil, h, errors.Join(fmt.Errorf("opening checkpoint %s: %w", path, err), c.Close())
	}
	return c, h, nil
}

// Decode decodes the header of a task of this kind into task. Unknown keys are
// an error.
func (h Header) Decode(kind string, task any) error {
	if h.Kind != kind {
		return fmt.Errorf("task kind %q, want %q", h.Kind, kind)
	}
	d := json.NewDecoder(bytes.NewReader(h.Task))
	d.DisallowUnknownFields()
	if err := d.Decode(task); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	return nil
}

// Kind returns the task kind of the checkpoint at path.
func Kind(path string) (string, error) {
	c, err := Open(path)
	if err != nil {
		return "", err
	}
	return c.Header.Kind, c.Close()
}

// Path returns the path of the file.
func (c *Checkpoint) Path() string { return c.path }

// Folder returns the folder from, which is relative to the checkpoint's folder
// unless it is absolute.
func (c *Checkpoint) Folder(from string) string {
	return Resolve(filepath.Dir(c.path), filepath.FromSlash(from))
}

// Continue prepares opt for the run to resume: opt.Resumed, if set, must equal
// the run's recipe except for stop and threads, which it replaces, and opt.From
// defaults to dir.
func (opt *Options) Continue(recipe any, stop *Stop, threads *int, dir string) error {
	if opt.From == "" {
		opt.From = dir
	}
	r := opt.Resumed
	if r == nil {
		return nil
	}
	if r.Recipe != nil {
		if err := edited(recipe, r.Recipe); err != nil {
			return err
		}
	}
	*stop, *threads = r.Stop, r.Threads
	return nil
}
