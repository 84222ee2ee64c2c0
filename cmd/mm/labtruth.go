package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mm-abi.org/mm/lab/attempt"
	"mm-abi.org/mm/lab/judge"
	"mm-abi.org/mm/lab/records"
	"mm-abi.org/mm/onnx/htp/fit"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/workspace"
)

// truthOptions holds the options of mm lab truth.
type truthOptions struct {
	records, matrix, libs string
	only                  []string
	fill, again           bool
}

// truthTable returns the table of records, or of a matrix, which it fills first if
// requested.
func (p *program) truthTable(ctx context.Context, o truthOptions) (judge.Table, error) {
	if o.matrix == "" {
		if o.fill {
			return judge.Table{}, usageError{errors.New("--fill requires --matrix")}
		}
		records, err := records.ReadExisting[judge.Record](o.records)
		if err != nil {
			return judge.Table{}, err
		}
		return judge.MakeTable(records)
	}
	m, err := attempt.Read(o.matrix, fit.KnownChips())
	if err != nil {
		return judge.Table{}, err
	}
	if o.fill {
		if err := p.fillTruth(ctx, m, o); err != nil {
			return judge.Table{}, err
		}
	}
	records, err := records.Read[judge.Record](o.records)
	if err != nil {
		return judge.Table{}, err
	}
	return m.Table(records)
}

func (p *program) fillTruth(ctx context.Context, m attempt.Matrix, o truthOptions) error {
	tried, err := m.Fill(ctx, attempt.Options{
		Records: o.records, Only: o.only, Again: o.again,
		ONNX: engines.ONNX{}, ORT: engines.ONNXRuntime{Home: workspace.DefaultHome}, NPU: &qnn.Engine{Home: workspace.DefaultHome, Library: o.libs},
		Chips: fit.KnownChips(), Now: time.Now,
		Command: func(cell string) string {
			return fmt.Sprintf("mm lab truth %s --matrix %s --fill --again --only %s", o.records, o.matrix, cell)
		},
		Note: func(r judge.Record) {
			p.say("%s on %s, %s: %s, %.1f s %s", r.Scope, r.Target, r.Backend, r.Result, r.Seconds, r.Failure)
		},
	})
	p.say("%s tried", count(tried, "cell"))
	return err
}
