package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"mm/core/dataset/synth"
	"mm/internal/fsx"
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
				d, err := fsx.Create(filepath.Dir(file), 0o755, fsx.Options{})
				if err != nil {
					return err
				}
				defer d.Close()
				tmp, err := d.CreateTemp(".", ".mm-data-", 0o644)
				if err != nil {
					return err
				}
				err = synth.Write(tmp, synth.Options{Documents: c.Int("documents"), Seed: c.Uint64("seed"), Plain: c.Bool("plain")})
				if err == nil {
					err = tmp.Sync()
				}
				if err = errors.Join(err, tmp.Close()); err == nil {
					err = d.Rename(tmp.Name(), filepath.Base(file))
				}
				if err == nil {
					err = d.SyncDir(".")
				}
				if err != nil {
					return errors.Join(err, d.Remove(tmp.Name()))
				}
				_, err = fmt.Fprintf(p.stdout, "%d documents in %s\n", c.Int("documents"), file)
				return err
			},
		}},
	}
}
