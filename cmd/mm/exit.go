package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/workspace"
)

// The exit codes beyond those of diag.
const (
	exitOK          = 0
	exitInterrupted = 130 // Ctrl-C
)

// refuseOptions returns a usage error in a format with the name of the first flag of names
// that is set.
func refuseOptions(c *cli.Context, format string, names ...string) error {
	for _, name := range names {
		if c.IsSet(name) {
			return diag.Usagef(format, name)
		}
	}
	return nil
}

// exit prints err, as text or with --json as JSON, and returns the exit code.
func (p *program) exit(err error) int {
	if err == nil {
		return exitOK
	}
	var shown reported
	if list, ok := workspace.Diagnostics(err); ok {
		if !errors.As(err, &shown) {
			p.PrintDiagnostics(list)
		}
		return list.Exit()
	}
	var ref *remote.ReferenceError
	var coded diag.Exited
	code := diag.ExitFailure
	switch {
	case errors.As(err, &coded):
		code = coded.Code
	case errors.As(err, &ref):
		code = diag.ExitUsage
	case errors.Is(err, context.Canceled):
		err, code = errors.New("interrupted"), exitInterrupted
	}
	p.PrintError(err)
	return code
}

// reported marks diagnostics that a command has already printed.
type reported struct{ err error }

func (r reported) Error() string { return r.err.Error() }
func (r reported) Unwrap() error { return r.err }
