package main

import (
	"bytes"
	"context"
	"fmt"
	"image/png"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/train"
	"mm-abi.org/mm/core/train/decode"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/sniff"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/workspace"
)

func (p *program) evalDrawCommand() *cli.Command {
	return &cli.Command{
		Name: "draw", Usage: "how often a build, or a checkpoint, draws what it is asked for",
		ArgsUsage: "BUILD|CHECKPOINT",
		Description: "Has pictures drawn for N prompts of the held-out split of mm's scenes, as mm run would draw\n" +
			"them, and measures them by their pixels: how many shapes, which, in which colours and at which\n" +
			"places; \"all\" is everything right. --ablate judges each picture by another's prompt as well,\n" +
			"where right answers should fall to chance.",
		Flags: append(append([]cli.Flag{
			p.jsonFlag(),
			&cli.IntFlag{Name: "n", Value: 500, Usage: "held-out prompts"},
			&cli.Uint64Flag{Name: "seed", Usage: "of the scenes; of a checkpoint, its recipe's"},
			&cli.BoolFlag{Name: "ablate", Usage: "judge by another's prompt as well"},
			&cli.StringFlag{Name: "data", Usage: "of a checkpoint: folder that its recipe's paths are relative to"},
			&cli.IntFlag{Name: "threads", Usage: "threads"},
			&cli.StringSliceFlag{Name: "backend", Usage: "engine for the core, or PART=`NAME` for a part of the graph (repeatable)"},
			&cli.StringFlag{Name: "target", Usage: "which target of a multi-target build"},
		}, resolveFlags()...), append(claimFlags(), expectFlag())...),
		Action: p.evalDraw,
	}
}

func (p *program) evalDraw(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	n, arg := c.Int("n"), c.Args().First()
	if n < 1 {
		return usageError{fmt.Errorf("--n is %d, at least 1", n)}
	}
	looks := []decode.Look{decode.Own}
	if c.Bool("ablate") {
		looks = append(looks, decode.Another)
	}
	if head, err := fsx.ReadHead(arg, sniff.Head); err == nil && sniff.Bytes(head) == sniff.Safetensors {
		all, err := decode.Measure(c.Context, arg, looks, decode.MeasureOptions{N: n, Dir: c.String("data"), Threads: c.Int("threads")})
		if err != nil {
			return err
		}
		return p.printDrawn(looks, all)
	}
	opt, err := p.runOptions(c)
	if err != nil {
		return err
	}
	return p.inWorkspace(workspaceOptions(c, arg), func(w *workspace.Workspace) (err error) {
		r, err := p.runner(c.Context, w, useOptions(c), opt)
		if err != nil {
			return err
		}
		defer func() {
			if e := r.Close(); err == nil {
				err = e
			}
		}()
		all, err := decode.Exam(c.Context, drawsBy(r), decode.ExamOptions{N: n, Scene: decode.Scene{Seed: c.Uint64("seed")}, Looks: looks})
		if err != nil {
			return err
		}
		return p.printDrawn(looks, all)
	})
}

// drawsBy draws as mm run does.
func drawsBy(r *runner.Runner) decode.Draw {
	return func(ctx context.Context, prompt string, seed uint64) ([]byte, int, int, error) {
		req := runner.Request{Inputs: []talk.Part{{Type: abi.Text, Text: prompt}}, Outputs: []string{string(abi.Image)}}
		req.Preferences.Seed = seed
		a, err := r.Answer(ctx, req, nil)
		if err != nil {
			return nil, 0, 0, err
		}
		m, err := png.Decode(bytes.NewReader(a.Made[0].Data))
		if err != nil {
			return nil, 0, 0, err
		}
		rgb, b := []byte{}, m.Bounds()
		for y := b.Min.Y; y < b.Max.Y; y++ {
			for x := b.Min.X; x < b.Max.X; x++ {
				r, g, b, _ := m.At(x, y).RGBA()
				rgb = append(rgb, byte(r>>8), byte(g>>8), byte(b>>8))
			}
		}
		return rgb, b.Dx(), b.Dy(), nil
	}
}

// judged is what mm eval draw prints of one way to judge.
type judged struct {
	Look decode.Look `json:"look,omitempty"`
	train.Evaluation
}

func (p *program) printDrawn(looks []decode.Look, all []train.Evaluation) error {
	var out []judged
	var rows [][]string
	for i, e := range all {
		out = append(out, judged{looks[i], e})
		for _, s := range e.Scores {
			low, high := s.Interval()
			rows = append(rows, []string{looks[i].Name(), s.Kind, fmt.Sprintf("%.1f%%", 100*s.Accuracy()), fmt.Sprintf("%.1f–%.1f%%", 100*low, 100*high),
				fmt.Sprint(s.N), fmt.Sprintf("%.1f%%", 100*s.Chance)})
		}
	}
	if p.json {
		return p.printJSON(out)
	}
	return p.printTable([]string{"PROMPT", "ASKED FOR", "RIGHT", "95 % INTERVAL", "N", "CHANCE"}, rows)
}
