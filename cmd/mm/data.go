package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/dataset"
	"mm-abi.org/mm/core/dataset/synth"
	"mm-abi.org/mm/internal/fsx"
)

// toolCallTemplate asks the sum of two numbers of a skill and goes on with its
// answer, as MM-ABI 1.0 §2.3 writes it; the question and the answer are given.
const toolCallTemplate = dataset.GivenOpen + "What is {a} plus {b}?" + dataset.GivenClose + " " +
	abi.ToolCallOpen + `{"tool":"sympy-lite","args":{"expr":"{a}+{b}","op":"simplify"}}` + abi.ToolCallClose +
	dataset.GivenOpen + `{"result":{sum}}` + dataset.GivenClose + " The answer is {sum}."

func (p *program) dataCommand() *cli.Command {
	return &cli.Command{
		Name: "data", Usage: "make training text and speech",
		Subcommands: []*cli.Command{p.speechCommand(), {
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
