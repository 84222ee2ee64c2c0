package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/core/dataset/synth"
	"mm-abi.org/mm/internal/fsx"
)

func (p *program) dataCommand() *cli.Command {
	return &cli.Command{
		Name: "data", Usage: "make training text",
		Subcommands: []*cli.Command{{
			Name: "generate", Usage: "write stories, sums and tool calls from templates", ArgsUsage: "FILE",
			Flags: []cli.Flag{
				&cli.IntFlag{Name: "documents", Value: 4000, Usage: "how many"},
				&cli.Uint64Flag{Name: "seed", Usage: "seed of the text"},
				&cli.BoolFlag{Name: "plain", Usage: "without special tokens"},
			},
			Action: func(c *cli.Context) error {
				if err := wantArgs(c, 1, 1); err != nil {
					return err
				}
				file := c.Args().First()
				opt := synth.Options{Documents: c.Int("documents"), Seed: c.Uint64("seed"), Plain: c.Bool("plain")}
				if err := fsx.Replace(file, 0o644, func(w io.Writer) error { return synth.Write(w, opt) }); err != nil {
					return err
				}
				_, err := fmt.Fprintf(p.stdout, "%d documents in %s\n", c.Int("documents"), file)
				return err
			},
		}},
	}
}
