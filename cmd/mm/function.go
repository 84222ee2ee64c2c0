package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/workspace"
)

// call holds the inputs and outputs of functions.
type call struct {
	inputs, outputs []assignment
	media           []talk.Part // images, sounds and videos without a name
}

// assignment is NAME=VALUE; the name may be empty.
type assignment struct{ name, value string }

// reads lists the paths of the inputs.
func (c call) reads() (paths []string) {
	for _, in := range c.inputs {
		paths = append(paths, in.value)
	}
	for _, in := range c.media {
		paths = append(paths, in.Path)
	}
	return paths
}

// explicit reports whether --input or --output is set.
func (c call) explicit() bool { return len(c.inputs)+len(c.outputs) > 0 }

func (p *program) callOptions(c *cli.Context) (call, error) {
	var u call
	for _, m := range p.inputs {
		if m.Type != abi.Text {
			u.media = append(u.media, m)
		}
	}
	for _, f := range []struct {
		flag string
		into *[]assignment
	}{{"input", &u.inputs}, {"output", &u.outputs}} {
		seen := map[string]bool{}
		for _, text := range c.StringSlice(f.flag) {
			name, value, ok := strings.Cut(text, "=")
			if !ok {
				name, value = "", text
			}
			if value == "" {
				return u, diag.Usagef("--%s %s: missing value", f.flag, text)
			}
			if seen[name] {
				return u, diag.Usagef("--%s %s: duplicate name %q", f.flag, text, name)
			}
			seen[name] = true
			*f.into = append(*f.into, assignment{name, value})
		}
	}
	for _, o := range u.outputs {
		if ext := strings.ToLower(filepath.Ext(o.value)); ext != ".npy" && ext != ".png" && ext != ".wav" {
			return u, diag.Usagef("--output %s: unsupported extension, want .npy, .png or .wav", o.value)
		}
		for _, path := range u.reads() {
			if fsx.Overwrites(o.value, path) {
				return u, diag.Usagef("--output %s would overwrite an input", o.value)
			}
		}
	}
	return u, nil
}

// textFlags apply only to language models.
var textFlags = []string{"prompt", "p", "request", "smoke", "raw", "max-tokens", "temperature", "top-k", "top-p", "min-p", "repetition-penalty", "seed", "stop", "no-draft", "json-schema", "keep", "out-image", "out-audio", "out-text", "trace", "trace-svg"}

// checkFunction refuses a prompt and the flags in set that apply only to language
// models.
func checkFunction(set []string, args int) error {
	for _, name := range set {
		if slices.Contains(textFlags, name) {
			return diag.Usagef("--%s is for language models; functions take --input", name)
		}
	}
	if args > 1 {
		return diag.Usagef("a prompt is for language models; functions take --input")
	}
	return nil
}

// runLoose runs a function from the user's own files, which may be a voice that synthesizes speech.
func (p *program) runLoose(ctx context.Context, w *workspace.Workspace, use use, opt runner.Options, call call, say func(*runner.Runner) error) error {
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
		p.say("%s has no manifest: its ports are read from the file for this run", use.arg)
	}
	if say != nil {
		return say(r)
	}
	return p.compute(ctx, w, r, use, call)
}

// runFunctions runs functions of a build.
func (p *program) runFunctions(ctx context.Context, w *workspace.Workspace, r *runner.Runner, use use, call call) error {
	if !r.Computes() {
		return diag.Usagef("--input and --output are for functions of tensors; %s has none", use.arg)
	}
	return p.compute(ctx, w, r, use, call)
}

// compute runs functions, writes the outputs and prints the results.
func (p *program) compute(ctx context.Context, w *workspace.Workspace, r *runner.Runner, use use, call call) error {
	var args []part.Argument
	for _, a := range call.inputs {
		arg := part.Argument{Name: a.name, Input: modality.Input{File: a.value}}
		if numbers, err := part.ParseNumbers(a.value); err == nil && !exists(a.value) {
			arg.Numbers, arg.File = numbers, ""
		}
		args = append(args, arg)
	}
	for _, m := range call.media {
		args = append(args, part.Argument{Modality: m.Type, Input: modality.Input{File: m.Path, Data: m.Data}})
	}
	results, err := r.Compute(ctx, args)
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
	var files []part.OutputFile
	for _, o := range call.outputs {
		files = append(files, part.OutputFile{Name: o.name, Path: o.value})
	}
	if err := part.WriteOutputs(files, results, reports); err != nil {
		return inputError(err)
	}
	return p.printReports(reports)
}

// inputError turns a missing or unknown input into a usage error.
func inputError(err error) error {
	var in *modality.InputError
	if errors.As(err, &in) {
		return diag.Usage(diag.Hinted(in, in.Hint))
	}
	return err
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

func (p *program) printReports(reports []*part.Report) error {
	if p.json {
		return p.printJSON(struct {
			Parts []*part.Report `json:"parts"`
		}{reports})
	}
	for _, r := range reports {
		if len(reports) > 1 {
			if _, err := fmt.Fprintf(p.stdout, "%s\n", diag.Printable(r.Part)); err != nil {
				return err
			}
		}
		for _, line := range r.Assumed {
			p.say("assumed: %s", line)
		}
		if err := r.WriteText(p.stdout); err != nil {
			return err
		}
		p.say("backend %s; load %.0f ms, run %.1f ms", r.Backend, r.Timings.LoadMS, r.Timings.RunMS)
	}
	return nil
}
