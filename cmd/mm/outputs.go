package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/media"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/workspace"
)

// outputs holds what mm run produces in addition to text.
type outputs struct {
	files map[abi.Modality]string // for an image and a sound
	text  bool                    // text as well
	trace bool
	svg   string
}

// features opens the cache of encoded inputs. If off, or if the folder is not
// usable, the result is nil.
func (p *program) features(w *workspace.Workspace, off bool) *media.VectorCache {
	dir := ""
	if !off {
		dir = w.FeatureDir()
	}
	if dir == "" {
		return nil
	}
	f, err := media.OpenVectorCache(dir, 0)
	if err != nil {
		p.say("%v", err)
	}
	return f
}

// outputOptions reads outputFlags.
func outputOptions(c *cli.Context) (outputs, error) {
	o := outputs{files: map[abi.Modality]string{}, text: c.Bool("out-text"), trace: c.Bool("trace"), svg: c.String("trace-svg")}
	flags := map[string]string{} // by path
	for _, f := range []struct {
		flag, ext string
		out       abi.Modality
	}{{"out-image", ".png", abi.Image}, {"out-audio", ".wav", abi.Audio}, {"trace-svg", ".svg", ""}} {
		path := c.String(f.flag)
		if path == "" {
			continue
		}
		if !strings.EqualFold(filepath.Ext(path), f.ext) {
			return o, diag.Usagef("--%s %s: unsupported extension, want %s", f.flag, path, f.ext)
		}
		if other := flags[filepath.Clean(path)]; other != "" {
			return o, diag.Usagef("--%s and --%s name the same file", other, f.flag)
		}
		flags[filepath.Clean(path)] = f.flag
		if err := fsx.Writable(filepath.Dir(path)); err != nil {
			return o, fmt.Errorf("--%s: %w", f.flag, err)
		}
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return o, fmt.Errorf("--%s %s: not a regular file", f.flag, path)
		}
		if f.out != "" {
			o.files[f.out] = path
		}
	}
	if o.text && len(o.files) == 0 {
		return o, diag.Usagef("--out-text requires --out-image or --out-audio: without them, every answer is text")
	}
	return o, nil
}

// any reports whether the outputs require an answer of a language model.
func (o outputs) any() bool { return len(o.files) > 0 || o.trace || o.svg != "" }

// check refuses to overwrite the inputs of a request.
func (o outputs) check(req *runner.Request) error {
	written := map[string]string{"out-image": o.files[abi.Image], "out-audio": o.files[abi.Audio], "trace-svg": o.svg}
	for _, flag := range slices.Sorted(maps.Keys(written)) {
		for _, in := range req.Inputs {
			if fsx.Overwrites(written[flag], in.Path) {
				return diag.Usagef("--%s %s would overwrite an input", flag, written[flag])
			}
		}
		for _, a := range req.Assets {
			if fsx.Overwrites(written[flag], a.Path) {
				return diag.Usagef("--%s %s would overwrite the asset %s", flag, written[flag], a.Name)
			}
		}
	}
	return nil
}

// apply adds the outputs to a request. A request from a file already lists its
// outputs, which must match the flags.
func (o outputs) apply(req *runner.Request, fromFile bool) error {
	if err := o.check(req); err != nil {
		return err
	}
	if fromFile {
		for _, m := range []abi.Modality{abi.Image, abi.Audio} {
			if slices.Contains(req.Outputs, string(m)) != (o.files[m] != "") {
				return diag.Usagef("--out-%s is required if, and only if, the outputs of the request contain %s", m, m)
			}
		}
		return nil
	}
	if len(o.files) == 0 {
		return nil
	}
	if o.text {
		req.Outputs = append(req.Outputs, string(abi.Text))
	}
	for _, m := range []abi.Modality{abi.Image, abi.Audio} {
		if o.files[m] != "" {
			req.Outputs = append(req.Outputs, string(m))
		}
	}
	return nil
}

// traceReport draws the trace to a file and returns it, as requested; without
// --json it is printed.
func (p *program) traceReport(o outputs, title string, steps []part.Step) ([]part.StepReport, error) {
	if o.svg != "" {
		if err := fsx.Replace(o.svg, 0o644, func(to io.Writer) error { return part.DrawSteps(to, title, steps) }); err != nil {
			return nil, err
		}
	}
	if !o.trace {
		return nil, nil
	}
	out := part.StepReports(steps)
	if p.json {
		return out, nil
	}
	var rows [][]string
	for _, s := range out {
		rows = append(rows, s.Row())
	}
	return out, diag.Table(p.stderr, part.StepHeading, rows)
}
