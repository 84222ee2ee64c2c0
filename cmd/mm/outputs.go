package main

import (
	"io"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/media"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/workspace"
)

// outputs holds what mm run produces in addition to text.
type outputs struct {
	runner.Outputs
	trace bool
}

// any reports whether the outputs require an answer of a language model.
func (o outputs) any() bool { return len(o.Files()) > 0 || o.trace || o.TraceSVG != "" }

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
		p.Note("%v", err)
	}
	return f
}

// traceReport draws the trace to a file and returns it, as requested; without
// --json it is printed.
func (p *program) traceReport(o outputs, title string, steps []part.Step) ([]part.StepReport, error) {
	if o.TraceSVG != "" {
		if err := fsx.Replace(o.TraceSVG, 0o644, func(to io.Writer) error { return part.DrawSteps(to, title, steps) }); err != nil {
			return nil, err
		}
	}
	if !o.trace {
		return nil, nil
	}
	out := part.StepReports(steps)
	if p.JSON {
		return out, nil
	}
	var rows [][]string
	for _, s := range out {
		rows = append(rows, s.Row())
	}
	return out, diag.Table(p.Stderr, part.StepHeading, rows)
}
