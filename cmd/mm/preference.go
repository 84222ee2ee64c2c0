package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/train/preference"
)

func (p *program) evalPreferenceCommand() *cli.Command {
	return &cli.Command{
		Name: "preference", Usage: "compare the preferences and calls of a checkpoint with those before its training", ArgsUsage: "CHECKPOINT",
		Description: "Evaluates the core before the first step and the checkpoint on the same held-out pairs. Of N questions\n" +
			"for tools, in wordings and with numbers that no pair has, tool counts the greedy answers that name\n" +
			"the right tool, call those that are the right call. The interval of the change is that of paired answers.",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.IntFlag{Name: "n", Value: 600, Usage: "number of questions"},
			&cli.StringFlag{Name: "data", Usage: "folder that the paths of the recipe are relative to (default: the original one)"},
			&cli.IntFlag{Name: "threads", Usage: "number of threads (default: all CPUs)"},
		},
		Action: func(c *cli.Context) error {
			if n := c.Int("n"); n < 1 {
				return usageError{fmt.Errorf("--n %d: must be at least 1", n)}
			}
			return p.evalPreference(c.Context, c.Args().First(), preference.MeasureOptions{N: c.Int("n"), Dir: c.String("data"), Threads: c.Int("threads")})
		},
	}
}

func (p *program) evalPreference(ctx context.Context, file string, opt preference.MeasureOptions) error {
	m, err := preference.Measure(ctx, file, opt)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(m)
	}
	var rows [][]string
	for _, c := range m.Changes {
		low, high := c.Interval()
		share := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(c.N)) }
		rows = append(rows, []string{c.Kind, share(c.Before), share(c.After), fmt.Sprintf("%+.1f points", 100*c.Difference()), fmt.Sprintf("%+.1f to %+.1f", 100*low, 100*high), fmt.Sprint(c.N)})
	}
	return p.printTable([]string{"ASKED FOR", "BEFORE", "AFTER", "CHANGE", "95 % INTERVAL", "N"}, rows)
}
