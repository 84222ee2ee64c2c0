package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/lab/experiment"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
	"mm-abi.org/mm/workspace/trust"
)

func (p *program) labRun(c *cli.Context, w *workspace.Workspace) error {
	plan, err := experiment.ReadPlan(c.Args().First())
	if err != nil {
		return err
	}
	s, err := w.Signer(c.String("sign"), p.password)
	if err != nil {
		return err
	}
	opt := experiment.Options{Dir: c.String("out"), Resume: c.Bool("resume"), Key: s.Key, Verifier: s.Key.Public(), Note: func(text string) { p.Note("%s", text) }}
	opt.Each = func(row chain.Row) {
		if row.Event != experiment.StepDone && row.Event != experiment.Telemetry {
			p.Note("%s  row %d: %s", row.Time, row.Seq, row.Event)
		}
	}
	if c.Bool("simulate") {
		if opt, err = experiment.Simulation(opt, plan); err != nil {
			return err
		}
	} else {
		opt = experiment.Machine(opt, experiment.Functions())
	}
	got, err := experiment.Run(c.Context, plan, opt)
	switch {
	case errors.Is(err, experiment.ErrExists):
		return diag.Hinted(err, "--resume continues it")
	case errors.Is(err, experiment.ErrComplete):
		p.Note("the run is already complete")
	case err != nil:
		return broken(err)
	}
	return p.PrintLine(got, "%s: stopped by %s %s after %s, %s, %s; head %s", got.Run, got.Reason, got.Detail, got.Elapsed, diag.Count(got.Iterations, "iteration"), diag.Count(got.Rows, "row"), got.Head)
}

// broken gives a broken chain its exit code, and an unfinished one a hint.
func broken(err error) error {
	switch {
	case errors.Is(err, chain.ErrBroken), errors.Is(err, chain.ErrNone):
		return diag.Exiting(diag.ExitRefused, err)
	case errors.Is(err, chain.ErrUnfinished):
		return diag.Exiting(diag.ExitRefused, diag.Hinted(err, "mm lab run PLAN.yaml --out DIR --resume repairs it"))
	case errors.Is(err, fsx.ErrLocked):
		return diag.Hinted(err, "another process uses the folder")
	}
	return err
}

// publicKey reads the public key of a run.
func (p *program) publicKey(w *workspace.Workspace, file string) (*sign.PublicKey, error) {
	if file == "" {
		file = w.KeyPrefix(workspace.DefaultKey) + ".pub"
	}
	data, err := fsx.ReadFile(file, trust.MaxKey)
	if err != nil {
		return nil, diag.Hinted(fmt.Errorf("no public key: %w", err), "set --key to the public key of the run")
	}
	return sign.LoadPublic(data)
}

func (p *program) labVerify(c *cli.Context, w *workspace.Workspace) error {
	key, err := p.publicKey(w, c.String("key"))
	if err != nil {
		return err
	}
	r, err := experiment.Verify(c.Args().First(), key, checkOptions(c))
	return show(p, r, broken(err), func(r experiment.Report) error {
		state := ""
		if r.Simulated {
			state = "; simulated"
		}
		if r.Running {
			state += "; running"
		}
		return p.Line("%s: %s, none missing, the head signed by %s; head %s%s", r.Run, diag.Count(r.Rows, "row"), r.Key, r.Head, state)
	})
}

// checkOptions returns what the chain of a run must contain.
func checkOptions(c *cli.Context) experiment.Check {
	return experiment.Check{Noted: c.String("head"), Run: c.String("run")}
}

func (p *program) labSummary(c *cli.Context, w *workspace.Workspace) error {
	dir := c.Args().First()
	key, err := p.publicKey(w, c.String("key"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, experiment.ChainDir)); err != nil {
		return err
	}
	s, err := experiment.Summarize(dir, key, checkOptions(c))
	if errors.Is(err, chain.ErrUnfinished) {
		p.Note("the run was killed while writing its last row, which is ignored")
	} else if err != nil {
		return broken(err)
	}
	if plots := c.String("plot"); plots != "" {
		if err := s.Plot(plots); err != nil {
			return err
		}
	}
	s.Steps = listed(s.Steps)
	return written(p, &s, nil)
}

func (p *program) labHeartbeat(c *cli.Context) error {
	path := c.Args().First()
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, experiment.HeartbeatFile)
	}
	s, err := experiment.ReadStatus(path, time.Now())
	if err != nil {
		return err
	}
	err = p.PrintLine(s, "%s: %s ago, row %d (%s), iteration %d, %s", s.Run, s.Age, s.Rows, s.Event, s.Iteration, s.Reading)
	if err == nil && !s.Alive {
		return no("the run is not alive")
	}
	return err
}
