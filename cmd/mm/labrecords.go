package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

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
	if err := written(p, r, nil); err != nil {
		return err
	}
	return r.Err()
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
	r, err := b.Report(c.Args().Tail()...)
	if err = written(p, r, err); err == nil && r.Failures > 0 {
		return no("%s outside the boundary %s", diag.Count(r.Failures, "place"), b.ID)
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
	if err = written(p, a, nil); err == nil && !a.OK {
		return no("%s in the corpus", diag.Count(len(a.Failures), "fault"))
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
	p.Note("%s tried", diag.Count(tried, "cell"))
	return err
}
