package farm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/study"
)

// maxTrial bounds the result of a trial, in bytes.
const maxTrial = 16 << 20

// MaxSpec bounds the spec of a trial, in bytes.
const MaxSpec = 1 << 20

// Trial executes a trial in the current folder and writes its result to a file.
func Trial(ctx context.Context, spec []byte, out string) error {
	result, err := study.Execute(ctx, spec, ".")
	if err != nil {
		return err
	}
	return fsx.WriteFile(out, result, 0o644)
}

// The files of the job of a trial.
const (
	specFile   = "spec.json"
	resultFile = "result.json"
)

// Trials executes the trials of a study on the workers of a queue. It implements
// [study.Runner].
type Trials struct {
	Queue *Queue
	Dir   string // folder of the study
}

// TrialOptions for [OpenTrials].
type TrialOptions struct {
	Dir     string  // folder of the study
	Queue   Options // without servers: a queue with workers is started
	Workers int     // of that
	Program string  // path of mm
	Server  string  // and of mm-queue
}

// OpenTrials connects to a queue for the trials of a study. stop closes it, and ends a
// server and workers that were started.
func OpenTrials(ctx context.Context, opt TrialOptions) (t study.Runner, stop func() error, err error) {
	end := func() error { return nil }
	if opt.Queue.Servers == "" {
		at := filepath.Join(opt.Dir, "jobs")
		c, err := Hire(ctx, CrewOptions{Program: opt.Program, Dir: filepath.Join(at, "workers"), Workers: opt.Workers, Threads: pool.Default() / opt.Workers,
			Server: ServerOptions{Program: opt.Server, Dir: filepath.Join(at, "server"), Listen: "127.0.0.1:0", Token: filepath.Join(at, "token")}})
		if err != nil {
			return nil, nil, err
		}
		opt.Queue.Servers, opt.Queue.Token, end = c.Server.URL, c.Server.Token, c.Close
	}
	q, err := Open(ctx, opt.Queue)
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return Trials{Queue: q, Dir: opt.Dir}, func() error { return errors.Join(q.Close(), end()) }, nil
}

// Run executes a trial on a worker whose kernels are of the same level: the result is that
// of this machine, byte for byte.
func (t Trials) Run(ctx context.Context, spec []byte) ([]byte, error) {
	var s study.Spec
	if err := json.Unmarshal(spec, &s); err != nil {
		return nil, fmt.Errorf("trial: %w", err)
	}
	j := Job{Args: []string{"experiment", "trial", specFile, "--out", resultFile}, Inputs: map[string]string{}, Outputs: []string{resultFile},
		Needs: []string{"cpu=" + string(cpu.Use())}, Keep: "study-" + s.Group()}
	var err error
	for name, want := range s.Files {
		if j.Inputs[name], err = t.Queue.PutFile(ctx, filepath.Join(t.Dir, filepath.FromSlash(name))); err != nil {
			return nil, err
		}
		if got := j.Inputs[name]; got != want {
			return nil, fmt.Errorf("trial: file %s: digest mismatch: got %.12s…, want %.12s…", name, got, want)
		}
	}
	if j.Inputs[specFile], err = t.Queue.PutBytes(ctx, spec); err != nil {
		return nil, err
	}
	id, err := t.Queue.Submit(ctx, j)
	if err != nil {
		return nil, err
	}
	var r Result
	if err := t.Queue.Wait(ctx, []string{id}, func(got Result) error { r = got; return got.Err() }); err != nil {
		return nil, err
	}
	return t.Queue.GetBytes(ctx, r.Outputs[resultFile], maxTrial)
}
