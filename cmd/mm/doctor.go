package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/skills/sandbox/process"
	"mm-abi.org/mm/workspace"
)

func (p *program) doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "show what this machine can run and what is missing",
		Flags: []cli.Flag{p.jsonFlag()},
		Action: func(c *cli.Context) error {
			return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error { return p.doctor(c.Context, w) })
		},
	}
}

func (p *program) doctor(ctx context.Context, w *workspace.Workspace) error {
	found := append(p.examine(ctx), w.Examine(ctx)...)
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

// examine checks the program, the CPU and the engines.
func (p *program) examine(ctx context.Context) []workspace.Finding {
	checks := []workspace.Finding{
		{What: "program", State: "ok", Detail: fmt.Sprintf("mm %s, %s, %s/%s", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)},
		{What: "processor", State: "ok", Detail: fmt.Sprintf("%d threads to use of %d; %s", pool.Default(), runtime.NumCPU(), kernels())},
	}
	for _, b := range p.engines {
		ch := workspace.Finding{What: "backend " + b.Name(), State: "ok"}
		var missing *runtimes.Unavailable
		info, err := b.Probe(ctx)
		ch.Detail = fmt.Sprintf("version %s, reads %s, computes on %s", info.Version, strings.Join(info.Formats, " and "), strings.Join(info.Devices, " and "))
		if errors.As(err, &missing) {
			ch.State, ch.Detail, ch.Hint = "missing", missing.Why, missing.Hint
		} else if err != nil {
			ch.State, ch.Detail = "fault", err.Error()
		}
		checks = append(checks, ch)
	}
	skills := workspace.Finding{What: "native skills", State: "ok", Detail: "namespaces, landlock and seccomp: process, mcp and container skills run"}
	if err := process.New().Probe(ctx); err != nil {
		skills.State, skills.Detail = "missing", err.Error()
		skills.Hint = "process, mcp and container skills are refused here; the others run"
	}
	checks = append(checks, skills)
	return append(checks, examineEngines(ctx)...)
}

// examineEngines checks the installed engines, including those that no backend
// uses.
func examineEngines(ctx context.Context) []workspace.Finding {
	var list []workspace.Finding
	home, err := workspace.DefaultHome()
	if err != nil {
		return []workspace.Finding{{What: "engines", State: "fault", Detail: err.Error()}}
	}
	all, err := native.List(home)
	if err != nil {
		return []workspace.Finding{{What: "engines", State: "fault", Detail: err.Error()}}
	}
	for _, s := range engineStates(ctx, all) {
		licenses := "licenses in " + strings.Join(s.Notices, " and ")
		if len(s.Notices) == 0 { // installed by an older mm
			licenses = "license file missing (mm runtime install " + s.Name + " adds it)"
		}
		f := workspace.Finding{What: "engine " + s.Name + " " + s.Version, State: "ok", Detail: fmt.Sprintf("%s, %s; from %s", s.License, licenses, s.Record.Origin())}
		if s.State != "loads" {
			f.State, f.Detail, f.Hint = "fault", s.State, "mm runtime rm "+s.Name+"@"+s.Version+", or mm runtime install "+s.Name
		}
		list = append(list, f)
	}
	return list
}

// kernels names the instruction set of the kernels, and those that MM_CPU accepts.
func kernels() string {
	var all []string
	for _, l := range cpu.Machine() {
		all = append(all, string(l))
	}
	return fmt.Sprintf("%s kernels (MM_CPU: %s)", cpu.Use(), strings.Join(all, ", "))
}
