package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/eval"
	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/workspace"
)

// suiteRun holds the options of mm eval suite.
type suiteRun struct {
	measuredBuild
	files    []string
	load     suite.Options
	out      string
	local    suite.LocalOptions
	parallel int
	fresh    bool
	shard    suite.Shard // of answers; Count 0: results
	answers  []string    // files of answers
}

func (p *program) evalSuite(c *cli.Context) error {
	m, err := p.measuredOptions(c)
	if err != nil {
		return err
	}
	o := suiteRun{measuredBuild: m, files: c.Args().Tail(), out: c.String("out"), local: suite.LocalOptions{Most: c.Int("max-length"), Bare: c.Bool("no-bos")}, parallel: c.Int("parallel"), fresh: c.Bool("no-cache")}
	o.run.Sequences = max(o.run.Sequences, o.parallel)
	o.load = suite.Options{Limit: c.Int("limit"), Seed: uint32(c.Uint("fewshot-seed")), Data: map[string]string{}}
	if c.IsSet("num-fewshot") {
		n := c.Int("num-fewshot")
		o.load.Shots = &n
	}
	for _, v := range c.StringSlice("data") {
		split, file, ok := strings.Cut(v, "=")
		if !ok {
			return diag.Usagef("--data %s: want SPLIT=FILE", v)
		}
		o.load.Data[split] = file
	}
	o.answers = c.StringSlice("answers")
	if v := c.String("shard"); v != "" {
		if o.shard, err = suite.ParseShard(v); err == nil && (o.out == "" || len(o.answers) > 0) {
			err = errors.New("--shard: want --out FILE and no --answers")
		}
		if err != nil {
			return diag.Usage(err)
		}
	}
	return p.runSuite(c.Context, o)
}

// runSuite asks the tasks and prints the figures.
func (p *program) runSuite(ctx context.Context, o suiteRun) error {
	tasks, list := suite.Load(o.files, o.load)
	if list.Failed() {
		return list.Err()
	}
	return p.inWorkspace(o.where, func(w *workspace.Workspace) error {
		return p.measuringIn(ctx, w, o.measuredBuild, func(r *runner.Runner) error {
			source, cache, err := p.measuredSource(ctx, w, r, o)
			if err != nil {
				return err
			}
			s := suite.Session{Reader: r, Cache: cache, Local: o.local, Parallel: o.parallel, Say: func(line string) { p.Note("%s", line) },
				Progress: func(task string) func(done, total int) { return p.tenths("questions of " + task) }}
			if o.shard.Count > 0 {
				return fsx.Replace(o.out, 0o644, func(w io.Writer) error { return s.WriteShard(ctx, tasks, o.shard, w) })
			}
			outcomes, err := s.Outcomes(ctx, tasks, o.answers)
			if err != nil {
				return err
			}
			results := suite.NewResults(source, outcomes, map[string]any{"model": "mm", "model_args": map[string]any{"pretrained": o.arg, "max_length": o.local.Most, "add_bos_token": !o.local.Bare}, "limit": o.load.Limit, "fewshot_seed": o.load.Seed})
			if o.out != "" {
				if err := results.Write(o.out, outcomes); err != nil {
					return fmt.Errorf("--out: %w", err)
				}
			}
			return p.PrintOr(results, func() error { return p.PrintTable(suite.OutcomeHeading, suite.OutcomeRows(outcomes)) })
		})
	})
}

// measuredSource describes the measured model and returns the cache of its outcomes.
func (p *program) measuredSource(ctx context.Context, w *workspace.Workspace, r *runner.Runner, o suiteRun) (s suite.Source, cache suite.Cache, err error) {
	if r.Engine() == nil {
		return s, cache, &runtimes.Unavailable{What: "a suite", Why: o.arg + " has no core", Hint: "suites measure builds with a core"}
	}
	if s, err = suite.NewSource(ctx, o.arg, r.Build(), r.Engine()); err != nil {
		return s, cache, err
	}
	dir := w.EvalDir()
	if o.fresh || o.shard.Count > 0 {
		dir = ""
	}
	revision, err := p.revision()
	cache = suite.Cache{Dir: dir, Model: strings.Join([]string{s.Digest, s.Engine, revision, o.target, fmt.Sprint(o.local, o.run.Backends)}, "\n")}
	return s, cache, err
}

func (p *program) compareRuns(c *cli.Context) error {
	opt := suite.CompareOptions{Margin: c.Float64("margin"), Relative: c.Float64("relative"), Tasks: wordOptions(c, "task"), Metric: wordOptions(c, "metric")}
	switch {
	case c.IsSet("relative") && !(opt.Relative > 0 && opt.Relative < 1):
		return diag.Usagef("--relative %g: want a part between 0 and 1", opt.Relative)
	case c.IsSet("relative") && c.IsSet("margin"):
		return diag.Usagef("--margin and --relative exclude each other")
	}
	var runs []*suite.Run
	var all diag.List
	for _, path := range c.Args().Slice() {
		r, list := suite.ReadRun(filepath.Clean(path))
		all = append(all, list...)
		runs = append(runs, r)
	}
	if all.Failed() {
		return all.Err()
	}
	rows, list := suite.Compare(runs[0], runs[1], opt)
	if rows == nil {
		return list.Err()
	}
	return printJudgedRows(p, rows, suite.ComparedHeading, list)
}

// printJudgedRows prints rows and returns the faults among them.
func printJudgedRows[T interface{ Row() []string }](p *program, rows []T, heading []string, list diag.List) error {
	if p.JSON {
		return p.printJudged(rows, list)
	}
	if err := p.PrintTable(heading, rowsOf(rows, T.Row)); err != nil {
		return err
	}
	return list.Err()
}

// printJudged prints rows as JSON and returns the faults among them as reported.
func (p *program) printJudged(rows any, list diag.List) error {
	if err := p.PrintJSON(rows); err != nil {
		return err
	}
	if list.Failed() {
		return reported{list.Err()}
	}
	return nil
}

func (p *program) evalBudget(c *cli.Context) error {
	m, err := p.measuredOptions(c)
	if err != nil {
		return err
	}
	ctx, results, out := c.Context, c.String("results"), c.String("out")
	b, list := eval.ReadBudgets(cmp.Or(c.Args().Get(1), "budgets.yaml"))
	if list.Failed() {
		return list.Err()
	}
	var f eval.Figures
	if results != "" {
		if f.Run, list = suite.ReadRun(results); list.Failed() {
			return list.Err()
		}
	}
	var rows []eval.Row
	var source suite.Source
	err = p.measuring(ctx, m, func(r *runner.Runner) error {
		describe := sync.OnceValues(func() (suite.Source, error) { return suite.NewSource(ctx, m.arg, r.Build(), r.Engine()) })
		err := f.Run.CheckBuild(describe)
		if err == nil {
			err = b.Measure(ctx, r, &f)
		}
		if err != nil {
			return err
		}
		n, err := suite.Size(r.Build())
		if err != nil {
			return err
		}
		f.Files, f.Peak = &n, eval.Peak()
		rows, list = b.Judge(f)
		if out != "" {
			source, err = describe()
		}
		return err
	})
	if err == nil && out != "" {
		err = eval.Report{Source: source, Rows: rows}.Write(out)
	}
	if err != nil {
		return err
	}
	return printJudgedRows(p, rows, eval.RowHeading, list)
}
