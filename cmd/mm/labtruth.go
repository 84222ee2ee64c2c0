package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/core/qnn/soc"
	"mm-abi.org/mm/lab/attempt"
	"mm-abi.org/mm/lab/journal"
	"mm-abi.org/mm/lab/truth"
	"mm-abi.org/mm/runtimes/coreonnx"
	"mm-abi.org/mm/runtimes/onnxrt"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/workspace"
)

// truthTable makes the table of records, or of a matrix, which it fills first
// where that is asked for.
func (p *program) truthTable(c *cli.Context) (truth.Table, error) {
	file, matrix := c.Args().First(), c.String("matrix")
	if matrix == "" {
		if c.Bool("fill") {
			return truth.Table{}, usageError{errors.New("--fill wants a --matrix")}
		}
		records, err := journal.ReadExisting[truth.Record](file)
		if err != nil {
			return truth.Table{}, err
		}
		return truth.Make(records)
	}
	m, err := attempt.Read(matrix, soc.Known())
	if err != nil {
		return truth.Table{}, err
	}
	if c.Bool("fill") {
		if err := p.fillTruth(c, m); err != nil {
			return truth.Table{}, err
		}
	}
	records, err := journal.Read[truth.Record](file)
	if err != nil {
		return truth.Table{}, err
	}
	return m.Table(records)
}

func (p *program) fillTruth(c *cli.Context, m attempt.Matrix) error {
	file, matrix := c.Args().First(), c.String("matrix")
	tried, err := m.Fill(c.Context, attempt.Options{
		Records: file, Only: c.StringSlice("only"), Again: c.Bool("again"),
		ONNX: coreonnx.Engine{}, ORT: onnxrt.Engine{Home: workspace.DefaultHome}, NPU: &qnn.Engine{Home: workspace.DefaultHome, Library: c.String("libs")},
		Chips: soc.Known(), Now: time.Now,
		Command: func(cell string) string {
			return fmt.Sprintf("mm lab truth %s --matrix %s --fill --again --only %s", file, matrix, cell)
		},
		Note: func(r truth.Record) {
			p.say("%s on %s, %s: %s, %.1f s %s", r.Scope, r.Target, r.Backend, r.Result, r.Seconds, r.Failure)
		},
	})
	p.say("%s tried", count(tried, "cell"))
	return err
}
