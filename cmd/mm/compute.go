package main

import (
	"context"
	"errors"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/workspace"
)

// compute runs functions of a build on what the flags give them.
func (p *program) compute(ctx context.Context, w *workspace.Workspace, r *runner.Runner, u use, req runner.Request) error {
	var given []runner.Given
	for _, in := range req.Inputs {
		if in.Type == abi.Text || in.Type == "" {
			return r.Load(ctx) // which says that there is nobody to talk to
		}
		given = append(given, runner.Given{Modality: in.Type, Input: modality.Input{File: in.Path, Data: in.Data}})
	}
	results, err := r.Compute(ctx, given)
	w.Record(ctx, audit.Entry{Action: "run", Ref: u.arg, Result: workspace.Outcome(err)})
	if wrong := (*runner.InputError)(nil); errors.As(err, &wrong) {
		return usageError{hinted{err, wrong.Hint}}
	}
	if err != nil {
		return err
	}
	return p.printJSON(results)
}
