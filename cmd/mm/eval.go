package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/eval"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/qa"
	"mm-abi.org/mm/train/decode"
	"mm-abi.org/mm/train/modal"
	"mm-abi.org/mm/train/preference"
	"mm-abi.org/mm/workspace"
)

// ofBuilds lists the flags of mm eval sense and mm eval draw for builds. For a
// checkpoint, its recipe sets these values.
var ofBuilds = []string{"kinds", "ask", "seed", "speech", "fsdd", "speakers", "backend", "target", "layout", "trust", "key", "insecure-skip-verify", "expect", "locked", "offline", "plain-http", "out"}

// recipeOptions refuses the flags that a checkpoint's recipe replaces.
func recipeOptions(c *cli.Context) error {
	return refuseOptions(c, "--%s is for builds: the recipe of a checkpoint sets it", ofBuilds...)
}

// wordOptions splits the values of a flag at commas.
func wordOptions(c *cli.Context, flag string) (out []string) {
	for _, v := range c.StringSlice(flag) {
		for _, word := range strings.Split(v, ",") {
			if word = strings.TrimSpace(word); word != "" {
				out = append(out, word)
			}
		}
	}
	return out
}

func (p *program) evalSense(c *cli.Context) error {
	looks := []qa.Look{qa.Actual}
	if c.Bool("ablate") {
		looks = append(looks, qa.Another, qa.Nothing)
	}
	if arg := c.Args().First(); filepath.Ext(arg) != ".safetensors" && !train.IsCheckpoint(arg) {
		if c.IsSet("data") {
			return diag.Usagef("--data is for checkpoints; for builds, use --speech and --fsdd")
		}
		m, err := p.measuredOptions(c)
		if err != nil {
			return err
		}
		return p.senseBuild(c.Context, m, eval.Options{
			N: c.Int("n"), Seed: c.Uint64("seed"), Kinds: wordOptions(c, "kinds"), Ask: wordOptions(c, "ask"), Speech: c.String("speech"), FSDD: c.String("fsdd"),
			Speakers: wordOptions(c, "speakers"), Looks: looks, Progress: p.tenths("examples"),
		})
	}
	if err := recipeOptions(c); err != nil {
		return err
	}
	all, err := modal.Measure(c.Context, c.Args().First(), looks, modal.MeasureOptions{N: c.Int("n"), Dir: c.String("data"), Threads: c.Int("threads")})
	if err != nil {
		return err
	}
	return printLooks(p, looks, all, "SHOWN", "QUESTION")
}

// look is the measurement of a checkpoint for a way to show an example, or to ask.
type look[L interface{ Name() string }] struct {
	Look L `json:"look,omitempty"`
	train.Evaluation
}

// printLooks prints the measurements of a checkpoint for some of looks.
func printLooks[L interface{ Name() string }](p *program, looks []L, all []train.Evaluation, heading ...string) error {
	var out []look[L]
	for i, e := range all {
		out = append(out, look[L]{looks[i], e})
	}
	return printScores(p, out, heading, func(l look[L]) ([]train.Score, []string) { return l.Scores, []string{l.Look.Name()} })
}

// printScores prints list as JSON if --json is set, otherwise a row for each score, which
// starts with the columns of what was measured.
func printScores[T any](p *program, list []T, heading []string, of func(T) (scores []train.Score, columns []string)) error {
	return p.PrintOr(list, func() error {
		var rows [][]string
		for _, one := range list {
			scores, columns := of(one)
			for _, s := range scores {
				rows = append(rows, append(slices.Clone(columns), s.Row()...))
			}
		}
		return p.PrintTable(append(heading, train.ScoreHeading()...), rows)
	})
}

// senseBuild measures a build on images and sounds.
func (p *program) senseBuild(ctx context.Context, m measuredBuild, opt eval.Options) error {
	var out []eval.Sensed
	if err := p.measuring(ctx, m, func(r *runner.Runner) (err error) {
		out, err = eval.Sense(ctx, r, opt)
		return err
	}); err != nil {
		return err
	}
	return printScores(p, out, []string{"SHOWN", "INPUT", "QUESTION"}, func(s eval.Sensed) ([]train.Score, []string) {
		return s.Scores, []string{s.Look.Name(), string(s.Input)}
	})
}

// measuredBuild is a build to measure, and how to run it.
type measuredBuild struct {
	use
	run   runner.Options
	where workspace.Options
	by    string // name of the command
}

func (p *program) measuredOptions(c *cli.Context) (measuredBuild, error) {
	m := measuredBuild{use: useOptions(c), by: c.Command.Name}
	m.resolve.Claim.Measure = true
	var err error
	if m.run, err = p.runOptions(c); err != nil {
		return m, err
	}
	m.run.Now, err = workspace.Clock("", true)
	m.where = workspaceOptions(c, m.arg)
	return m, err
}

// measuring opens a build and measures it.
func (p *program) measuring(ctx context.Context, m measuredBuild, measure func(*runner.Runner) error) error {
	return p.inWorkspace(m.where, func(w *workspace.Workspace) error { return p.measuringIn(ctx, w, m, measure) })
}

// measuringIn opens a build in a workspace and measures it.
func (p *program) measuringIn(ctx context.Context, w *workspace.Workspace, m measuredBuild, measure func(*runner.Runner) error) error {
	r, err := p.runner(ctx, w, m.use, m.run)
	if err != nil {
		return err
	}
	defer r.Close()
	err = measure(r)
	w.Record(ctx, audit.Entry{Action: "run", Ref: m.arg + " (eval " + m.by + ")", Digest: r.Build().Digest, Result: workspace.Outcome(err)})
	return runner.Explain(err)
}

// tenths returns a progress function that reports every tenth of a long run.
func (p *program) tenths(what string) func(done, total int) {
	const worth = 100
	return func(done, total int) {
		if step := total / 10; total >= worth && done%step == 0 {
			p.Note("%d of %d %s", done, total, what)
		}
	}
}

func (p *program) evalTools(c *cli.Context) error {
	opt := eval.ErrandOptions{N: c.Int("n"), Seed: c.Uint64("seed"), Kinds: wordOptions(c, "kinds"), Progress: p.tenths("questions")}
	if err := opt.Check(); err != nil {
		return diag.Usagef("--kinds: %w", err)
	}
	m, err := p.measuredOptions(c)
	if err != nil {
		return err
	}
	m.skills = true
	var out []eval.Errand
	if err := p.measuring(c.Context, m, func(r *runner.Runner) (err error) {
		out, err = eval.Errands(c.Context, r, opt)
		return err
	}); err != nil {
		return err
	}
	return printScores(p, out, []string{"TOOLS", "QUESTION"}, func(e eval.Errand) ([]train.Score, []string) {
		return e.Scores, []string{map[bool]string{true: "its own", false: "none"}[e.Tools]}
	})
}

func (p *program) evalDraw(c *cli.Context) error {
	opt := eval.DrawOptions{N: c.Int("n"), Seed: c.Uint64("seed"), Kinds: wordOptions(c, "kinds"), Ask: wordOptions(c, "ask"), Ablate: c.Bool("ablate"), Dir: c.String("out"), Progress: p.tenths("pictures")}
	if train.IsCheckpoint(c.Args().First()) {
		if err := recipeOptions(c); err != nil {
			return err
		}
		return p.drawCheckpoint(c.Context, c.Args().First(), c.Bool("ablate"), decode.MeasureOptions{N: opt.N, Dir: c.String("data"), Threads: c.Int("threads")})
	}
	m, err := p.measuredOptions(c)
	if err != nil {
		return err
	}
	return p.drawBuild(c.Context, m, opt)
}

// drawBuild measures the images that a build draws.
func (p *program) drawBuild(ctx context.Context, m measuredBuild, opt eval.DrawOptions) error {
	if opt.Dir != "" {
		if err := makeFolder(opt.Dir); err != nil {
			return err
		}
	}
	var out []eval.Judged
	err := p.measuring(ctx, m, func(r *runner.Runner) (err error) {
		out, err = eval.Draw(ctx, r, opt)
		return err
	})
	if err != nil {
		return err
	}
	return printScores(p, out, []string{"PICTURE", "JUDGE", "QUESTION"}, func(j eval.Judged) ([]train.Score, []string) {
		return j.Scores, []string{j.Canvas.Name(), string(j.Judge)}
	})
}

func (p *program) evalPreference(c *cli.Context) error {
	opt := preference.MeasureOptions{N: c.Int("n"), Dir: c.String("data"), Threads: c.Int("threads")}
	m, err := preference.Measure(c.Context, c.Args().First(), opt)
	return show(p, m, err, func(m preference.Measured) error {
		return p.PrintTable(train.ChangeHeading(), rowsOf(m.Changes, train.Change.Row))
	})
}

// drawCheckpoint measures the images that the decoder in a checkpoint draws.
func (p *program) drawCheckpoint(ctx context.Context, file string, ablate bool, opt decode.MeasureOptions) error {
	looks := []decode.Look{decode.Actual}
	if ablate {
		looks = append(looks, decode.Another)
	}
	all, err := decode.Measure(ctx, file, looks, opt)
	if err != nil {
		return err
	}
	return printLooks(p, looks, all, "PROMPT", "ASKED FOR")
}
