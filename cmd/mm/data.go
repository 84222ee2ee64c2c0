package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/dataset/fonts"
	"mm-abi.org/mm/train/dataset/scene"
	"mm-abi.org/mm/train/dataset/synth"
)

// toolCallTemplate asks the sum of two numbers of a skill and goes on with its
// answer, as MM-ABI 1.0 §2.3 writes it; the question and the answer are given.
const toolCallTemplate = dataset.GivenOpen + "What is {a} plus {b}?" + dataset.GivenClose + " " +
	abi.ToolCallOpen + `{"tool":"sympy-lite","args":{"expr":"{a}+{b}","op":"simplify"}}` + abi.ToolCallClose +
	dataset.GivenOpen + `{"result":{sum}}` + dataset.GivenClose + " The answer is {sum}."

func (p *program) dataCommand() *cli.Command {
	return &cli.Command{
		Name: "data", Usage: "make training text, pictures and speech",
		Subcommands: []*cli.Command{p.scenesCommand(), p.fontsCommand(), p.speechCommand(), {
			Name: "generate", Usage: "write stories, sums and tool calls from templates", ArgsUsage: "FILE",
			Description: "Questions to a tool and its answers stand between " + dataset.GivenOpen + " and " + dataset.GivenClose + ": mm train takes the\n" +
				"marks out, tells the model what is between them and does not have it learn to say it.",
			Flags: []cli.Flag{
				p.jsonFlag(),
				&cli.IntFlag{Name: "documents", Value: 4000, Usage: "how many"},
				&cli.Uint64Flag{Name: "seed", Usage: "seed of the text"},
				&cli.BoolFlag{Name: "plain", Usage: "without special tokens"},
			},
			Action: func(c *cli.Context) error {
				if err := wantArgs(c, 1, 1); err != nil {
					return err
				}
				file := c.Args().First()
				opt := synth.Options{Documents: c.Int("documents"), Seed: c.Uint64("seed"), Calls: []string{toolCallTemplate}}
				if c.Bool("plain") {
					opt.Calls = nil
				}
				if err := fsx.Replace(file, 0o644, func(w io.Writer) error { return synth.Write(w, opt) }); err != nil {
					return err
				}
				if p.json {
					return p.printJSON(map[string]any{"file": file, "documents": opt.Documents})
				}
				_, err := fmt.Fprintf(p.stdout, "%d documents in %s\n", c.Int("documents"), file)
				return err
			},
		}},
	}
}

func (p *program) scenesCommand() *cli.Command {
	var opt scene.Options
	return &cli.Command{
		Name: "scenes", Usage: "draw pictures whose truth is known",
		Description: "Shapes, bar charts, words, numbers and clips as PNG files, and in " + scene.List + " a line of JSON for each: its\n" +
			"caption, questions with their answers, and what is there. The same options give the same bytes everywhere.",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.StringFlag{Name: "out", Required: true, Usage: "`FOLDER` for them"},
			&cli.StringSliceFlag{Name: "kinds", Usage: "`KIND` or KIND:WEIGHT, of " + strings.Join(scene.AllKinds(), ", ") + "; may be repeated (default: all)"},
			&cli.IntFlag{Name: "n", Value: 9, Usage: "how many"},
			&cli.StringFlag{Name: "split", Value: scene.Train, Usage: scene.Train + " or " + scene.Held + ": other fonts, shades, grounds and words", Destination: &opt.Split},
			&cli.Uint64Flag{Name: "seed", Usage: "seed of the pictures", Destination: &opt.Seed},
			&cli.IntFlag{Name: "size", Value: 128, Usage: "width and height in pixels", Destination: &opt.Size},
			&cli.IntFlag{Name: "frames", Value: 8, Usage: "of a clip", Destination: &opt.Frames},
			&cli.BoolFlag{Name: "plain", Usage: "on white, without noise: what a decoder can be asked for", Destination: &opt.Plain},
		},
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 0, 0); err != nil {
				return err
			}
			opt.Kinds = c.StringSlice("kinds")
			s, err := scene.New(opt)
			if err != nil {
				return usageError{err}
			}
			dir, n := c.String("out"), c.Int("n")
			if err := scene.Save(c.Context, dir, s, n); err != nil {
				return err
			}
			if p.json {
				return p.printJSON(map[string]any{"folder": dir, "scenes": n})
			}
			_, err = fmt.Fprintf(p.stdout, "%d scenes in %s\n", n, dir)
			return err
		},
	}
}

func (p *program) fontsCommand() *cli.Command {
	return &cli.Command{
		Name: "fonts", Usage: "print the licences of the fonts that scenes are lettered with",
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 0, 0); err != nil {
				return err
			}
			_, err := io.WriteString(p.stdout, fonts.Notices())
			return err
		},
	}
}
