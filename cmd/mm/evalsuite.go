package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

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
	for flag, n := range map[string]int{"limit": o.load.Limit, "max-length": o.local.Most, "parallel": o.parallel - 1, "num-fewshot": c.Int("num-fewshot")} {
		if n < 0 {
			return usageError{fmt.Errorf("--%s %d: too small", flag, c.Int(flag))}
		}
	}
	if c.IsSet("num-fewshot") {
		n := c.Int("num-fewshot")
		o.load.Shots = &n
	}
	for _, v := range c.StringSlice("data") {
		split, file, ok := strings.Cut(v, "=")
		if !ok {
			return usageError{fmt.Errorf("--data %s: want SPLIT=FILE", v)}
		}
		o.load.Data[split] = file
	}
	o.answers = c.StringSlice("answers")
	if v := c.String("shard"); v != "" {
		if o.shard, err = suite.ParseShard(v); err == nil && (o.out == "" || len(o.answers) > 0) {
			err = errors.New("--shard: want --out FILE and no --answers")
		}
		if err != nil {
			return usageError{err}
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
			if o.shard.Count > 0 {
				return p.answerShard(ctx, r, tasks, cache, o)
			}
			outcomes, err := p.outcomes(ctx, r, tasks, cache, o)
			if err != nil {
				return err
			}
			results := suite.NewResults(source, outcomes, map[string]any{"model": "mm", "model_args": map[string]any{"pretrained": o.arg, "max_length": o.local.Most, "add_bos_token": !o.local.Bare}, "limit": o.load.Limit, "fewshot_seed": o.load.Seed})
			if o.out != "" {
				if err := results.Write(o.out, outcomes); err != nil {
					return fmt.Errorf("--out: %w", err)
				}
			}
			return p.printSuite(results, outcomes)
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

// outcomes returns the outcomes of tasks, from answers in files if there are any.
func (p *program) outcomes(ctx context.Context, r *runner.Runner, tasks []*suite.Task, cache suite.Cache, o suiteRun) (out []*suite.Outcome, err error) {
	if len(o.answers) == 0 {
		return p.askAll(ctx, r, tasks, cache, o)
	}
	answers, err := suite.ReadAnswers(o.answers)
	if err != nil {
		return nil, err
	}
	for _, t := range tasks {
		one, err := cache.Join(t, answers)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, answers.Rest()
}

// answerShard writes the answers to the questions of a shard.
func (p *program) answerShard(ctx context.Context, r *runner.Runner, tasks []*suite.Task, cache suite.Cache, o suiteRun) error {
	m, err := suite.NewLocal(ctx, r, o.local)
	if err != nil {
		return err
	}
	return fsx.Replace(o.out, 0o644, func(w io.Writer) error {
		for _, t := range tasks {
			if err := cache.Part(ctx, t, m, o.shard, suite.RunOptions{Parallel: o.parallel, Progress: p.tenths("questions of " + t.Name)}, w); err != nil {
				return err
			}
		}
		return nil
	})
}

// askAll returns the outcomes of tasks.
func (p *program) askAll(ctx context.Context, r *runner.Runner, tasks []*suite.Task, cache suite.Cache, o suiteRun) (out []*suite.Outcome, err error) {
	var local *suite.Local
	model := func() (suite.Model, error) {
		if local == nil {
			if local, err = suite.NewLocal(ctx, r, o.local); err != nil {
				return nil, err
			}
		}
		return local, nil
	}
	for _, t := range tasks {
		one, kept, err := cache.Ask(ctx, t, model, suite.RunOptions{Parallel: o.parallel, Progress: p.tenths("questions of " + t.Name)})
		if err != nil {
			return nil, err
		}
		if kept {
			p.say("%s: from the cache", t.Name)
		}
		if one.Cut > 0 {
			p.say("%s: the start of %d questions did not fit the context", t.Name, one.Cut)
		}
		out = append(out, one)
	}
	return out, nil
}

func (p *program) printSuite(results *suite.Results, outcomes []*suite.Outcome) error {
	if p.json {
		return p.printJSON(results)
	}
	var rows [][]string
	for _, o := range outcomes {
		for _, s := range o.Scores {
			rows = append(rows, []string{o.Task, fmt.Sprint(o.Shots), s.Metric, s.Filter, figured(s.Value), figured(s.Interval.Low) + "–" + figured(s.Interval.High), fmt.Sprint(s.N)})
		}
	}
	return p.printTable([]string{"TASK", "SHOTS", "METRIC", "FILTER", "VALUE", "95 % INTERVAL", "N"}, rows)
}

func figured(x float64) string { return fmt.Sprintf("%.4f", x) }

func (p *program) compareRuns(c *cli.Context) error {
	opt := suite.CompareOptions{Margin: c.Float64("margin"), Relative: c.Float64("relative"), Tasks: wordOptions(c, "task"), Metric: wordOptions(c, "metric")}
	switch {
	case !(opt.Margin >= 0):
		return usageError{fmt.Errorf("--margin %g: must not be negative", opt.Margin)}
	case c.IsSet("relative") && !(opt.Relative > 0 && opt.Relative < 1):
		return usageError{fmt.Errorf("--relative %g: want a part between 0 and 1", opt.Relative)}
	case c.IsSet("relative") && c.IsSet("margin"):
		return usageError{errors.New("--margin and --relative exclude each other")}
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
	if p.json {
		return p.printJudged(rows, list)
	}
	var table [][]string
	for _, c := range rows {
		gate := string(c.Gate)
		if gate == "" {
			gate = "-"
		}
		table = append(table, []string{c.Task, c.Metric + "," + c.Filter, figured(c.First), figured(c.Second), fmt.Sprintf("%+.4f", c.Delta),
			fmt.Sprintf("%+.4f–%+.4f", c.Interval.Low, c.Interval.High), fmt.Sprint(c.N), fmt.Sprintf("%.4f", c.Adjusted), string(c.Verdict), gate})
	}
	if err := p.printTable([]string{"TASK", "METRIC", "FIRST", "SECOND", "DIFFERENCE", "95 % INTERVAL", "N", "P", "VERDICT", "GATE"}, table); err != nil {
		return err
	}
	return list.Err()
}

// printJudged prints rows as JSON and returns the faults among them as reported.
func (p *program) printJudged(rows any, list diag.List) error {
	if err := p.printJSON(rows); err != nil {
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
		run, list := suite.ReadRun(results)
		if list.Failed() {
			return list.Err()
		}
		f.Run = run
	}
	var rows []eval.Row
	var source suite.Source
	err = p.measuring(ctx, m, func(r *runner.Runner) error {
		if err := b.Measure(ctx, r, &f); err != nil {
			return err
		}
		n, err := suite.Size(r.Build())
		if err != nil {
			return err
		}
		f.Files, f.Peak = &n, eval.Peak()
		rows, list = b.Judge(f)
		if out != "" {
			source, err = suite.NewSource(ctx, m.arg, r.Build(), r.Engine())
		}
		return err
	})
	if err == nil && out != "" {
		err = eval.Report{Source: source, Rows: rows}.Write(out)
	}
	if err != nil {
		return err
	}
	if p.json {
		return p.printJudged(rows, list)
	}
	var table [][]string
	for _, r := range rows {
		value := "-"
		if r.Value != nil {
			value = r.Shown(*r.Value)
		}
		bound := map[bool]string{false: "≤ ", true: "≥ "}[r.Least]
		table = append(table, []string{r.Budget, bound + r.Shown(r.Limit), value, r.Result()})
	}
	if err := p.printTable([]string{"BUDGET", "LIMIT", "MEASURED", "RESULT"}, table); err != nil {
		return err
	}
	return list.Err()
}
