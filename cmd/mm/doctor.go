package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/workspace"
)

func (p *program) doctor(c *cli.Context, w *workspace.Workspace) error {
	found := w.Examine(c.Context, workspace.ExamineOptions{Version: version, Engines: p.engines})
	if p.json {
		return p.printJSON(found)
	}
	rows := rowsOf(found, func(f workspace.Finding) []string {
		return []string{f.What, f.State, f.Detail}
	})
	if err := p.printTable([]string{"WHAT", "STATE", "DETAIL"}, rows); err != nil {
		return err
	}
	for _, f := range found {
		if f.Hint != "" {
			fmt.Fprintf(p.stdout, "%s: %s\n", f.What, f.Hint)
		}
	}
	return nil
}
