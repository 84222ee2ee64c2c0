package main

import (
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

// toolCallTemplate is a document with a tool call (MM-ABI 1.0 §2.3): the sum of two
// numbers and the answer of the skill. The question and the answer are marked as
// given.
const toolCallTemplate = dataset.ContextOpen + "What is {a} plus {b}?" + dataset.ContextClose + " " +
	abi.ToolCallOpen + `{"tool":"sympy-lite","args":{"expr":"{a}+{b}","op":"simplify"}}` + abi.ToolCallClose +
	dataset.ContextOpen + `{"result":{sum}}` + dataset.ContextClose + " The answer is {sum}."

func (p *program) dataCommand() *cli.Command {
	return &cli.Command{
		Name: "data", Usage: "build data sets from manifests, generate text, images and speech",
		Subcommands: []*cli.Command{p.dataBuildCommand(), p.dataCheckCommand(), p.scrubCommand(), p.croissantCommand(), p.scenesCommand(), p.fontsCommand(), p.speechCommand(), {
			Name: "generate", Usage: "generate stories, sums and tool calls from templates", ArgsUsage: "FILE",
			Description: "Questions to a tool and its answers are enclosed in " + dataset.ContextOpen + " and " + dataset.ContextClose + ". mm train removes\n" +
				"the marks and feeds the text between them to the model without training on it.",
			Flags: []cli.Flag{
				p.jsonFlag(),
				&cli.IntFlag{Name: "documents", Value: 4000, Usage: "number of documents"},
				&cli.Uint64Flag{Name: "seed", Usage: "seed of the text"},
				&cli.BoolFlag{Name: "plain", Usage: "omit special tokens"},
			},
			Action: func(c *cli.Context) error {
				file := c.Args().First()
				opt := synth.Options{Documents: c.Int("documents"), Seed: c.Uint64("seed"), Calls: []string{toolCallTemplate}}
				if c.Bool("plain") {
					opt.Calls = nil
				}
				if err := fsx.Replace(file, 0o644, func(w io.Writer) error { return synth.Write(w, opt) }); err != nil {
					return err
				}
				return p.printLine(map[string]any{"file": file, "documents": opt.Documents}, "%d documents in %s", c.Int("documents"), file)
			},
		}},
	}
}

func (p *program) scenesCommand() *cli.Command {
	var opt scene.Options
	return &cli.Command{
		Name: "scenes", Usage: "draw images with known contents",
		Description: "Writes shapes, bar charts, words, numbers and clips as PNG files, and to " + scene.List + " a line of JSON for each:\n" +
			"caption, questions with answers, and objects. Equal options give equal bytes on every machine.",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.StringFlag{Name: "out", Required: true, Usage: "write to `FOLDER`"},
			&cli.StringSliceFlag{Name: "kinds", Usage: "`KIND` or KIND:WEIGHT, of " + strings.Join(scene.AllKinds(), ", ") + " (repeatable; default: all)"},
			&cli.IntFlag{Name: "n", Value: 9, Usage: "number of images"},
			&cli.StringFlag{Name: "split", Value: scene.Train, Usage: scene.Train + " or " + scene.Held + ": the held-out fonts, shades, backgrounds and words differ", Destination: &opt.Split},
			&cli.Uint64Flag{Name: "seed", Usage: "seed of the images", Destination: &opt.Seed},
			&cli.IntFlag{Name: "size", Value: 128, Usage: "width and height in pixels", Destination: &opt.Size},
			&cli.IntFlag{Name: "frames", Value: 8, Usage: "frames of a clip", Destination: &opt.Frames},
			&cli.BoolFlag{Name: "plain", Usage: "white background without noise, for training decoders", Destination: &opt.Plain},
		},
		Action: func(c *cli.Context) error {
			opt.Kinds = c.StringSlice("kinds")
			s, err := scene.New(opt)
			if err != nil {
				return usageError{err}
			}
			dir, n := c.String("out"), c.Int("n")
			if err := scene.Save(c.Context, dir, s, n); err != nil {
				return err
			}
			return p.printLine(map[string]any{"folder": dir, "scenes": n}, "%d scenes in %s", n, dir)
		},
	}
}

func (p *program) fontsCommand() *cli.Command {
	return &cli.Command{
		Name: "fonts", Usage: "print the licenses of the fonts used in scenes",
		Action: func(c *cli.Context) error {
			_, err := io.WriteString(p.stdout, fonts.Notices())
			return err
		},
	}
}
