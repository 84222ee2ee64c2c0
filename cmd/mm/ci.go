package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/builds/pipeline"
	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/internal/diag"
)

func pipelineOptions(c *cli.Context) pipeline.Options {
	o := pipeline.Options{Kind: c.Args().Get(0), Path: filepath.ToSlash(c.Args().Get(1)), Registry: c.String("registry"), Public: c.String("public-key"), Trust: c.String("trust"), Services: c.String("signing-config"), Root: c.String("trusted-root")}
	if os.Getenv("GITHUB_ACTIONS") == "true" {
		o.Format = "github"
	}
	return o
}

// ciInit writes workflow files, all or none.
func (p *program) ciInit(c *cli.Context) error {
	root := c.String("root")
	opt := pipeline.WorkflowOptions{Provider: c.String("provider"), Version: c.String("mm-version"), Image: c.String("image"), Options: pipelineOptions(c)}
	if _, err := signerOptions(c); err != nil {
		return err
	}
	if v := built().Version; opt.Version == "" && v != console.Unreleased {
		opt.Version = "v" + v
	} else if opt.Version == "" {
		return diag.Usagef("--mm-version is required: this program is not a release")
	}
	files, err := pipeline.Workflows(root, opt)
	if err != nil {
		return diag.Usage(err)
	}
	if err := pipeline.Write(root, files, c.Bool("force")); err != nil {
		return err
	}
	for _, f := range files {
		p.Line("%s", f.Path)
	}
	return nil
}

func (p *program) ciRun(c *cli.Context) error {
	root, opt := c.String("root"), pipelineOptions(c)
	opt.Key, opt.Out = c.String("key"), c.String("out")
	if _, err := signerOptions(c); err != nil {
		return err
	}
	all, err := pipeline.Steps(root, opt)
	if err != nil {
		return diag.Usage(err)
	}
	steps, err := pipeline.Select(all, c.StringSlice("only"))
	if err != nil {
		return diag.Usage(err)
	}
	if c.Bool("dry-run") {
		return p.printCommands(steps)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	run := pipeline.RunOptions{Program: program, Root: root, Output: p.Stderr, Tell: func(s pipeline.Step, r *pipeline.Result) {
		if r == nil {
			p.Note("%s: %s", s.Name, s.Title)
		}
	}}
	if opt.Format == "github" {
		run.Output = p.Stdout // annotations are commands on the standard output
	}
	results := pipeline.Run(c.Context, steps, run)
	if err := pipeline.Report(opt.Kind, steps, results, c.String("junit"), c.String("summary")); err != nil {
		return err
	}
	return p.printResults(steps, results)
}

// printCommands prints the commands of steps.
func (p *program) printCommands(steps []pipeline.Step) error {
	var rows [][]string
	for _, s := range steps {
		for _, c := range s.Commands {
			rows = append(rows, []string{s.Name, c.String()})
		}
	}
	return p.PrintOr(rows, func() error { return p.PrintTable([]string{"STEP", "COMMAND"}, rows) })
}

// printResults prints the results and returns the failure.
func (p *program) printResults(steps []pipeline.Step, results []pipeline.Result) error {
	list, failed := pipeline.Rows(steps, results)
	return errors.Join(printRows(p, list, []string{"STEP", "RESULT", "SECONDS"}, pipeline.Row.Cells), failed)
}
