package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/attempt"
	"mm-abi.org/mm/lab/experiment"
	"mm-abi.org/mm/lab/judge"
	"mm-abi.org/mm/lab/records"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/workspace"
)

// no returns the error of a negative answer.
func no(format string, args ...any) error {
	return diag.Exiting(diag.ExitMissed, fmt.Errorf(format, args...))
}

func (p *program) labFalsify(c *cli.Context) error {
	if c.Bool("list") {
		return p.printRules()
	}
	if c.NArg() == 0 {
		return diag.Usagef("missing argument EVIDENCE.json")
	}
	e, err := judge.ReadEvidence(c.Args().First())
	if err != nil {
		return err
	}
	r, err := judge.Falsify(e, judge.Selection{Gate: c.String("gate"), Only: c.StringSlice("only")})
	if err != nil {
		return diag.Usage(err)
	}
	if dir := c.String("record"); dir != "" {
		if err := p.recordFindings(c.Context, dir, c.String("sign"), r); err != nil {
			return broken(err)
		}
	}
	return p.printFindings(r)
}

// recordFindings appends each finding to a chain.
func (p *program) recordFindings(ctx context.Context, dir, key string, r judge.Report) error {
	return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
		s, err := w.Signer(key, p.password)
		if err != nil {
			return err
		}
		return experiment.Append(ctx, dir, s.Key, s.Key.Public(), "falsify", "falsifier", r.Findings)
	})
}

func (p *program) printFindings(r judge.Report) error {
	err := p.PrintOr(r, func() error {
		return p.PrintTable([]string{"RESULT", "FALSIFIER", "DETAIL"}, rowsOf(r.Findings, func(f judge.Finding) []string { return []string{string(f.Result), f.ID, f.Detail} }))
	})
	if err == nil && r.Overall != judge.Pass {
		return no("%s: %d passed, %d warned, %d skipped, %d failed, %d blocked", r.Overall, r.Counts[judge.Pass], r.Counts[judge.Warn], r.Counts[judge.Skip], r.Counts[judge.Fail], r.Counts[judge.Blocked])
	}
	return err
}

func (p *program) printRules() error {
	return printRows(p, judge.Falsifiers(), []string{"FALSIFIER", "GATES", "RULE"}, func(f judge.Falsifier) []string {
		return []string{f.ID, strings.Join(f.Gates, " "), f.Rule}
	})
}

func (p *program) labBoundary(c *cli.Context) error {
	b, err := judge.ReadBoundary(c.Args().First())
	if err != nil {
		return err
	}
	results, err := b.Scan(c.Args().Tail()...)
	if err != nil {
		return err
	}
	failed := 0
	rows := rowsOf(results, func(r judge.TextResult) []string {
		if r.Failed() {
			failed++
		}
		at := r.Path
		if r.Line > 0 {
			at = fmt.Sprintf("%s:%d", at, r.Line)
		}
		return []string{string(r.Status), at, r.Detail}
	})
	err = p.PrintOr(map[string]any{"boundary_id": b.ID, "boundary_sha256": b.SHA256, "failures": failed, "results": results}, func() error {
		return p.PrintTable([]string{"STATUS", "FILE", "DETAIL"}, rows)
	})
	if err == nil && failed > 0 {
		return no("%s outside the boundary %s", console.Count(failed, "place"), b.ID)
	}
	return err
}

func (p *program) labTruth(c *cli.Context) error {
	opt := truthOptions{records: c.Args().First(), matrix: c.String("matrix"), libs: c.String("libs"), only: c.StringSlice("only"), fill: c.Bool("fill"), again: c.Bool("again")}
	t, err := p.truthTable(c.Context, opt)
	if err != nil {
		return err
	}
	if out := c.String("out"); out != "" {
		if err := fsx.Replace(out, 0o644, func(w io.Writer) error { return t.Markdown(w) }); err != nil {
			return err
		}
	}
	t.Rows, t.Counts = listed(t.Rows), listed(t.Counts)
	err = p.PrintOr(t, func() error { return p.PrintTable(t.Cells()) })
	if target := c.String("require"); err == nil && target != "" && !t.Proves(target) {
		return no("no measured row proves that something works on %s", target)
	}
	return err
}

func (p *program) labCorpus(c *cli.Context) error {
	m, err := judge.ReadManifest(c.Args().First())
	if err != nil {
		return err
	}
	a := m.Audit()
	err = p.PrintOr(a, func() error {
		if err := p.Line("%s; class A %d, B %d, C %d, D %d, E %d", console.Count(a.Sources, "source"), a.ByClass["A"], a.ByClass["B"], a.ByClass["C"], a.ByClass["D"], a.ByClass["E"]); err != nil || len(a.Failures) == 0 {
			return err
		}
		return p.PrintTable([]string{"SOURCE", "CLASS", "REASON"}, rowsOf(a.Failures, func(f judge.CorpusFailure) []string { return []string{f.Source, string(f.Class), f.Reason} }))
	})
	if err == nil && !a.OK {
		return no("%s in the corpus", console.Count(len(a.Failures), "fault"))
	}
	return err
}

func (p *program) labProbe(c *cli.Context) error {
	e, err := judge.ReadEnvelope(c.Args().First(), htp.KnownChips())
	if err != nil {
		return err
	}
	if p.JSON {
		return p.PrintJSON(e)
	}
	for _, d := range e.Devices {
		p.Line("%s: %s %s", d.Serial, d.State, d.Extra["model"])
	}
	err = p.Line("phone %q, Android %s, %s; chip %q, identified as %q with confidence %.1f; QNN allowed: %v", e.Model, e.Android, e.ABI, e.Reported, e.Target.SoC, e.Target.Confidence, e.QNN)
	if len(e.Absent) > 0 {
		p.Note("missing: %s", strings.Join(e.Absent, ", "))
	}
	return err
}

// truthOptions holds the options of mm lab truth.
type truthOptions struct {
	records, matrix, libs string
	only                  []string
	fill, again           bool
}

// truthTable returns the table of records, or of a matrix, which it fills first if
// requested.
func (p *program) truthTable(ctx context.Context, o truthOptions) (t judge.Table, err error) {
	if o.matrix == "" {
		if o.fill {
			return t, diag.Usagef("--fill requires --matrix")
		}
		list, err := records.ReadExisting[judge.Record](o.records)
		if err != nil {
			return t, err
		}
		return judge.MakeTable(list)
	}
	m, err := attempt.Read(o.matrix, htp.KnownChips())
	if err == nil && o.fill {
		err = p.fillTruth(ctx, m, o)
	}
	if err != nil {
		return t, err
	}
	list, err := records.Read[judge.Record](o.records)
	if err != nil {
		return t, err
	}
	return m.Table(list)
}

func (p *program) fillTruth(ctx context.Context, m attempt.Matrix, o truthOptions) error {
	tried, err := m.Fill(ctx, attempt.Options{
		Records: o.records, Only: o.only, Again: o.again,
		ONNX: engines.ONNX{}, ORT: engines.ONNXRuntime{Home: workspace.DefaultHome}, NPU: &qnn.Engine{Home: workspace.DefaultHome, Library: o.libs},
		Chips: htp.KnownChips(), Now: time.Now,
		Command: func(cell string) string {
			return fmt.Sprintf("mm lab truth %s --matrix %s --fill --again --only %s", o.records, o.matrix, cell)
		},
		Note: func(r judge.Record) {
			p.Note("%s on %s, %s: %s, %.1f s %s", r.Scope, r.Target, r.Backend, r.Result, r.Seconds, r.Failure)
		},
	})
	p.Note("%s tried", console.Count(tried, "cell"))
	return err
}
