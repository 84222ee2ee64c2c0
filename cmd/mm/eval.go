package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/eval"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/qa"
	"mm-abi.org/mm/train/dataset/synth"
	"mm-abi.org/mm/train/decode"
	"mm-abi.org/mm/train/modal"
	"mm-abi.org/mm/workspace"
)

// ofBuilds are the flags of mm eval sense and mm eval draw that say of a build
// what a checkpoint's recipe says of it.
var ofBuilds = []string{"kinds", "ask", "seed", "speech", "fsdd", "speakers", "backend", "target", "layout", "trust", "key", "insecure-skip-verify", "expect", "locked", "offline", "plain-http", "out"}

// buildFlags say which build is measured, and on which engines.
func buildFlags() []cli.Flag {
	return append(append([]cli.Flag{
		layoutFlag(),
		&cli.IntFlag{Name: "threads", Usage: "threads"},
		&cli.StringSliceFlag{Name: "backend", Usage: "engine for the core, or PART=`NAME` for a part of the graph (repeatable; mm doctor lists engines)"},
		&cli.StringFlag{Name: "target", Usage: "which target of a multi-target build"},
	}, resolveFlags()...), append(claimFlags(), expectFlag())...)
}

func (p *program) evalSenseCommand() *cli.Command {
	return &cli.Command{
		Name: "sense", Usage: "how often a checkpoint or a build answers right about pictures and sounds it has never met",
		ArgsUsage: "CHECKPOINT|BUILD",
		Description: "Asks every question about N held-out examples and counts the answers that greedy decoding gives\n" +
			"exactly right; numbers read off a scale are counted again as right within 5 %. A checkpoint is asked\n" +
			"about the sources of the recipe it was trained by; a build, which mm run would take, through its own\n" +
			"engines about those that --kinds names. --ablate asks the same with the input of another example, and\n" +
			"with none, where right answers should fall to chance.",
		Flags: append([]cli.Flag{
			p.jsonFlag(),
			&cli.IntFlag{Name: "n", Value: 500, Usage: "held-out examples"},
			&cli.BoolFlag{Name: "ablate", Usage: "ask with another's input, and with none, as well"},
			&cli.StringFlag{Name: "data", Usage: "of a checkpoint: folder that the recipe's paths are relative to (default: where it lay, seen from the checkpoint)"},
			&cli.StringSliceFlag{Name: "kinds", Usage: "of a build: `KIND`S of examples with commas between them, such as charts,words:2,audio/digits (default: all stills and sounds that it takes)"},
			&cli.StringSliceFlag{Name: "ask", Usage: "of a build: kinds of questions, as `PATTERN`S such as charts/*,*/colour (default: all)"},
			&cli.Uint64Flag{Name: "seed", Usage: "of a build: another seed, other examples"},
			&cli.StringFlag{Name: "speech", Usage: "of a build: `FOLDER` of the speech that mm data speech wrote"},
			&cli.StringFlag{Name: "fsdd", Usage: "of a build: `FOLDER` of people's digits (the Free Spoken Digit Dataset)"},
			&cli.StringSliceFlag{Name: "speakers", Usage: "of a build: `NAME`S of the people in it who are heard (default: all)"},
		}, buildFlags()...),
		Action: p.evalSense,
	}
}

// recipeOptions refuses what of a checkpoint its recipe says.
func recipeOptions(c *cli.Context) error {
	for _, name := range ofBuilds {
		if c.IsSet(name) {
			return usageError{fmt.Errorf("--%s is for builds: what a checkpoint is asked stands in its recipe", name)}
		}
	}
	return nil
}

// wordOptions are the values of a flag, which may have commas between them.
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

// tried is what mm eval sense prints of one way to show an example.
type tried struct {
	Look qa.Look `json:"look,omitempty"`
	train.Evaluation
}

func (p *program) evalSense(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	if n := c.Int("n"); n < 1 {
		return usageError{fmt.Errorf("--n is %d, at least 1", n)}
	}
	looks := []qa.Look{qa.Own}
	if c.Bool("ablate") {
		looks = append(looks, qa.Another, qa.Nothing)
	}
	if arg := c.Args().First(); filepath.Ext(arg) != ".safetensors" && !isCheckpoint(arg) {
		if c.IsSet("data") {
			return usageError{errors.New("--data is for checkpoints: --speech and --fsdd name the folders that a build is asked about")}
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
	var out []tried
	var rows [][]string
	for i, e := range all {
		out = append(out, tried{looks[i], e})
		rows = append(rows, scored(e.Scores, looks[i].Name())...)
	}
	if p.json {
		return p.printJSON(out)
	}
	return p.printTable(append([]string{"SHOWN"}, scoreHeading...), rows)
}

var scoreHeading = []string{"QUESTION", "RIGHT", "95 % INTERVAL", "N", "CHANCE"}

// scored are scores as rows of a table, behind what stands before them.
func scored(scores []train.Score, before ...string) (rows [][]string) {
	for _, s := range scores {
		low, high := s.Interval()
		rows = append(rows, append(slices.Clone(before), s.Kind, fmt.Sprintf("%.1f%%", 100*s.Accuracy()), fmt.Sprintf("%.1f–%.1f%%", 100*low, 100*high),
			fmt.Sprint(s.N), fmt.Sprintf("%.1f%%", 100*s.Chance)))
	}
	return rows
}

// senseBuild asks a build about pictures and sounds.
func (p *program) senseBuild(ctx context.Context, m measuredBuild, opt eval.Options) error {
	var out []eval.Sensed
	err := p.measuring(ctx, m, func(r *runner.Runner) (err error) {
		out, err = eval.Sense(ctx, r, opt)
		return err
	})
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(out)
	}
	var rows [][]string
	for _, s := range out {
		rows = append(rows, scored(s.Scores, s.Look.Name(), string(s.Input))...)
	}
	return p.printTable(append([]string{"SHOWN", "INPUT"}, scoreHeading...), rows)
}

// measuredBuild is the build that a command measures, and how it is run.
type measuredBuild struct {
	use
	run   runner.Options
	where workspace.Options
	by    string // the command
}

func (p *program) measuredOptions(c *cli.Context) (measuredBuild, error) {
	m := measuredBuild{use: useOptions(c), by: c.Command.Name}
	var err error
	m.run, err = p.runOptions(c)
	m.where = workspaceOptions(c, m.arg)
	return m, err
}

// measuring opens a build and measures it.
func (p *program) measuring(ctx context.Context, m measuredBuild, measure func(*runner.Runner) error) error {
	return p.inWorkspace(m.where, func(w *workspace.Workspace) error {
		r, err := p.runner(ctx, w, m.use, m.run)
		if err != nil {
			return err
		}
		defer r.Close()
		err = measure(r)
		w.Record(ctx, audit.Entry{Action: "run", Ref: m.arg + " (eval " + m.by + ")", Result: workspace.Outcome(err)})
		return explained(err)
	})
}

// tenths tells how far something that takes long has come.
func (p *program) tenths(what string) func(done, total int) {
	const worth = 100
	return func(done, total int) {
		if step := total / 10; total >= worth && done%step == 0 {
			p.say("%d of %d %s", done, total, what)
		}
	}
}

func (p *program) evalToolsCommand() *cli.Command {
	return &cli.Command{
		Name: "tools", Usage: "how often a build calls the right tool with the right arguments, and answers right", ArgsUsage: "BUILD",
		Description: "Asks N questions that tools answer: sums, units, and tables that are attached; none is among the\n" +
			"documents that cores train on. Each is asked twice, with the build's skills and with none.",
		Flags: append([]cli.Flag{
			p.jsonFlag(),
			&cli.IntFlag{Name: "n", Value: 600, Usage: "questions"},
			&cli.StringSliceFlag{Name: "kinds", Usage: "`KIND`S of questions with commas between them: arithmetic, units, tables (default: all)"},
			&cli.Uint64Flag{Name: "seed", Usage: "another seed, other questions"},
		}, buildFlags()...),
		Action: p.evalTools,
	}
}

func (p *program) evalTools(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	opt := eval.ErrandOptions{N: c.Int("n"), Seed: c.Uint64("seed"), Kinds: wordOptions(c, "kinds"), Progress: p.tenths("questions")}
	if opt.N < 1 {
		return usageError{fmt.Errorf("--n is %d, at least 1", opt.N)}
	}
	for _, k := range opt.Kinds {
		if !slices.Contains(synth.ErrandKinds(), k) {
			return usageError{fmt.Errorf("--kinds: %q is none of %v", k, synth.ErrandKinds())}
		}
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
	if p.json {
		return p.printJSON(out)
	}
	var rows [][]string
	for _, e := range out {
		rows = append(rows, scored(e.Scores, map[bool]string{true: "its own", false: "none"}[e.Tools])...)
	}
	return p.printTable(append([]string{"TOOLS"}, scoreHeading...), rows)
}

func (p *program) evalDrawCommand() *cli.Command {
	return &cli.Command{
		Name: "draw", Usage: "how often a build, or a decoder's checkpoint, draws what it is asked for", ArgsUsage: "BUILD|CHECKPOINT",
		Description: "Asks for N held-out pictures in words and has two judges look at what was drawn: their pixels are\n" +
			"measured, and the build itself answers questions about them where it has an encoder for pictures.\n" +
			"\"all\" is a picture that has as many shapes as were asked for, each in its shape, its colour and its\n" +
			"place. --ablate has the picture of another prompt judged as well, where right answers should fall to\n" +
			"chance, and the one that mm draws for the prompt itself, which tells what the judges miss. A\n" +
			"checkpoint is asked for the pictures of its recipe, which are measured.",
		Flags: append([]cli.Flag{
			p.jsonFlag(),
			&cli.IntFlag{Name: "n", Value: 500, Usage: "pictures"},
			&cli.BoolFlag{Name: "ablate", Usage: "judge another prompt's picture, and mm's own, as well"},
			&cli.StringSliceFlag{Name: "kinds", Usage: "`KIND`S of pictures with commas between them, of shapes, charts, words and digits (default: shapes)"},
			&cli.StringSliceFlag{Name: "ask", Usage: "kinds of questions that the build is asked about them, as `PATTERN`S such as */caption (default: all)"},
			&cli.Uint64Flag{Name: "seed", Usage: "another seed, other prompts"},
			&cli.StringFlag{Name: "out", Usage: "leave the pictures in `FOLDER`, in the order of the prompts"},
			&cli.StringFlag{Name: "data", Usage: "of a checkpoint: folder that the recipe's paths are relative to (default: where it lay)"},
		}, buildFlags()...),
		Action: p.evalDraw,
	}
}

func (p *program) evalDraw(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	opt := eval.DrawOptions{N: c.Int("n"), Seed: c.Uint64("seed"), Kinds: wordOptions(c, "kinds"), Ask: wordOptions(c, "ask"), Ablate: c.Bool("ablate"), Dir: c.String("out"), Progress: p.tenths("pictures")}
	if opt.N < 1 {
		return usageError{fmt.Errorf("--n is %d, at least 1", opt.N)}
	}
	if isCheckpoint(c.Args().First()) {
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

// drawBuild asks a build for pictures.
func (p *program) drawBuild(ctx context.Context, m measuredBuild, opt eval.DrawOptions) error {
	if opt.Dir != "" {
		d, err := fsx.Create(opt.Dir, 0o755, fsx.Options{})
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		if err := d.Close(); err != nil {
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
	if p.json {
		return p.printJSON(out)
	}
	var rows [][]string
	for _, j := range out {
		rows = append(rows, scored(j.Scores, j.Canvas.Name(), string(j.Judge))...)
	}
	return p.printTable(append([]string{"PICTURE", "JUDGE"}, scoreHeading...), rows)
}
