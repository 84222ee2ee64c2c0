package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mm-abi.org/mm/internal/diag"
)

// The exit codes, which scripts may rely on.
const (
	exitOK          = 0
	exitFailure     = 1   // something went wrong that no other code names
	exitUsage       = 2   // the command line is not understood
	exitInvalid     = 3   // a user's file has faults; they were printed
	exitRefused     = 4   // verification refused the artifact
	exitMissed      = 5   // a golden output or a budget was missed, a drift is too large
	exitUnavailable = 6   // a backend that is needed is not there
	exitInterrupted = 130 // Ctrl-C
)

// usageError is a fault of the command line itself.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// hinted is an error with a way out.
type hinted struct {
	err  error
	hint string
}

func (e hinted) Error() string { return e.err.Error() }
func (e hinted) Unwrap() error { return e.err }
func (e hinted) Hint() string  { return e.hint }

// coded is an error with an exit code of its own.
type coded struct {
	err  error
	code int
}

func (e coded) Error() string { return e.err.Error() }
func (e coded) Unwrap() error { return e.err }

// exit prints err as a person or, under --json, a program wants it and returns
// the code to end with.
func (p *program) exit(err error) int {
	if err == nil {
		return exitOK
	}
	var shown reported
	if list, ok := asDiagnostics(err); ok {
		if !errors.As(err, &shown) {
			p.printDiagnostics(list)
		}
		return codeOf(list)
	}
	var usage usageError
	var own coded
	code := exitFailure
	switch {
	case errors.As(err, &own):
		code = own.code
	case errors.As(err, &usage):
		code = exitUsage
	case errors.Is(err, context.Canceled):
		err, code = errors.New("interrupted"), exitInterrupted
	}
	p.printError(err)
	return code
}

// reported marks faults that a command has printed itself.
type reported struct{ err error }

func (r reported) Error() string { return r.err.Error() }
func (r reported) Unwrap() error { return r.err }

// codeOf is the exit code of a list of faults: that of its gravest kind.
func codeOf(list diag.List) int {
	code := exitInvalid
	for _, d := range list {
		if d.Severity != diag.Error {
			continue
		}
		switch {
		case strings.HasPrefix(string(d.Code), "MM06"), d.Code == diag.HostileInput, d.Code == diag.ForeignArtifact, d.Code == diag.UnknownABI,
			d.Code == diag.DeviceUntrusted, d.Code == diag.PushDiffers, d.Code == diag.EvidenceChanged,
			d.Code == diag.EvidenceUnsigned, d.Code == diag.EvidenceStranger, d.Code == diag.EvidenceForged:
			return exitRefused
		case d.Code == diag.NoBackend, d.Code == diag.NoExporter:
			code = exitUnavailable
		case strings.HasPrefix(string(d.Code), "MM12"):
			code = codeOfDevice(d.Code)
		case d.Code == diag.GoldenMissed, d.Code == diag.BudgetMissed, d.Code == diag.DriftMissed, d.Code == diag.QNNDrift:
			code = exitMissed
		}
	}
	return code
}

// codeOfDevice is the exit code of what goes wrong with devices: they are not to
// be had, the command line leaves open which or names a folder that is none of
// mm's, the run failed, or what came of it is wrong.
func codeOfDevice(code diag.Code) int {
	switch code {
	case diag.DeviceMany, diag.DeviceFolder:
		return exitUsage
	case diag.ContextRefused:
		return exitInvalid
	case diag.DeviceRefuses, diag.RunFailed, diag.RunCrashed, diag.RunnerBabbled:
		return exitFailure
	}
	if code == diag.RunDeadline || code >= diag.OutputCount {
		return exitMissed
	}
	return exitUnavailable
}

// printDiagnostics prints faults: as JSON on stdout under --json, as text on
// stderr otherwise.
func (p *program) printDiagnostics(list diag.List) {
	if p.json {
		list.JSON(p.stdout)
		return
	}
	p.tell(p.stderr, list)
}

func (p *program) printError(err error) {
	hint := ""
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		hint = h.Hint()
	}
	if p.json {
		json.NewEncoder(p.stderr).Encode(struct {
			Error string `json:"error"`
			Hint  string `json:"hint,omitempty"`
		}{err.Error(), hint})
		return
	}
	fmt.Fprintf(p.stderr, "mm: error: %s\n", lines(err.Error()))
	if hint != "" {
		fmt.Fprintf(p.stderr, "mm: hint: %s\n", lines(hint))
	}
}
