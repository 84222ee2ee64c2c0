package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/train/preference"
)

func (p *program) evalPreferenceAction(c *cli.Context) error {
	if n := c.Int("n"); n < 1 {
		return usageError{fmt.Errorf("--n %d: must be at least 1", n)}
	}
	return p.evalPreference(c.Context, c.Args().First(), preference.MeasureOptions{N: c.Int("n"), Dir: c.String("data"), Threads: c.Int("threads")})
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
