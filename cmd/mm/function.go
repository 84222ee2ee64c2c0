package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes/embed"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/workspace"
)

// textFlags apply only to language models.
var textFlags = []string{"prompt", "p", "request", "smoke", "raw", "max-tokens", "temperature", "top-k", "top-p", "min-p", "repetition-penalty", "seed", "stop", "no-draft", "json-schema", "keep", "out-image", "out-audio", "out-text", "trace", "trace-svg"}

// functionOptions refuses a prompt and the flags that apply only to language models.
func functionOptions(c *cli.Context) error {
	if c.NArg() > 1 {
		return diag.Usagef("a prompt is for language models; functions take --input")
	}
	return refuseOptions(c, "--%s is for language models; functions take --input", textFlags...)
}

// runLoose runs a function from the user's own files, which may be a voice that synthesizes speech.
func (p *program) runLoose(ctx context.Context, w *workspace.Workspace, use use, opt runner.Options, call part.Call, say func(*runner.Runner) error) error {
	fn, err := w.Function(ctx, use.arg, workspace.RunOptions{Target: use.target, Resolve: use.resolve})
	if err != nil {
		return err
	}
	if fn == nil {
		return diag.Hinted(fmt.Errorf("%s is both a folder and the name of a build in the store", use.arg), "use ./"+use.arg+" for the folder")
	}
	r, err := p.start(ctx, fn.Build(), opt)
	if err != nil {
		return err
	}
	defer r.Close()
	if fn.Made {
		p.Note("%s has no manifest: its ports are read from the file for this run", use.arg)
	}
	if say != nil {
		return say(r)
	}
	return p.compute(ctx, w, r, use, call)
}

// runFunctions runs functions of a build.
func (p *program) runFunctions(ctx context.Context, w *workspace.Workspace, r *runner.Runner, use use, call part.Call) error {
	if !r.Computes() {
		return diag.Usagef("--input and --output are for functions of tensors; %s has none", use.arg)
	}
	return p.compute(ctx, w, r, use, call)
}

// compute runs functions, writes the outputs and prints the results.
func (p *program) compute(ctx context.Context, w *workspace.Workspace, r *runner.Runner, use use, call part.Call) error {
	results, err := r.Compute(ctx, call.Inputs)
	w.Record(ctx, audit.Entry{Action: "run", Ref: use.arg, Digest: r.Build().Digest, Result: workspace.Outcome(err)})
	if err != nil {
		return inputError(err)
	}
	var reports []*part.Report
	for _, c := range results {
		report, err := c.Report(r.Build().Manifests[c.Part.Name])
		if err != nil {
			return err
		}
		reports = append(reports, report)
	}
	if err := part.WriteOutputs(call.Outputs, results, reports); err != nil {
		return inputError(err)
	}
	return p.printReports(reports)
}

// inputError turns a missing, unknown or invalid input into a usage error.
func inputError(err error) error {
	if in := (*modality.InputError)(nil); errors.As(err, &in) {
		return diag.Usage(diag.Hinted(in, in.Hint))
	}
	if in := (*embed.InputError)(nil); errors.As(err, &in) {
		return diag.Usage(diag.Hinted(in, in.Hint))
	}
	return err
}

func (p *program) printReports(reports []*part.Report) error {
	if p.JSON {
		return p.PrintJSON(struct {
			Parts []*part.Report `json:"parts"`
		}{reports})
	}
	for _, r := range reports {
		if len(reports) > 1 {
			if _, err := fmt.Fprintf(p.Stdout, "%s\n", diag.Printable(r.Part)); err != nil {
				return err
			}
		}
		for _, line := range r.Assumed {
			p.Note("assumed: %s", line)
		}
		if err := r.WriteText(p.Stdout); err != nil {
			return err
		}
		p.Note("backend %s; load %.0f ms, run %.1f ms", r.Backend, r.Timings.LoadMS, r.Timings.RunMS)
	}
	return nil
}
