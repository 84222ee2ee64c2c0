package main

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/workspace"
)

func (p *program) newTransfer(verb string) *console.Transfer {
	return console.NewTransfer(console.ScreenOf(p.Stderr, p.Quiet || p.JSON), p.Note, verb)
}

// pulling reports the pulls before the work of a command, in plain lines.
func (p *program) pulling(opt workspace.Options) workspace.Options {
	opt.Progress = console.NewTransfer(console.Screen{}, p.Note, "pulling").Event
	return opt
}

// moved is the result of a push or a pull.
type moved struct {
	ref, digest string
	report      remote.Report
	summary     string         // of the report; if empty, it is not printed
	more        map[string]any // further keys of the JSON output
}

// sent describes the blobs of a push.
func sent(r remote.Report) string {
	return fmt.Sprintf("%d of %d blobs sent (%s), %d already present, %d mounted", r.Moved, r.Blobs, size(r.Bytes), r.Present, r.Mounted)
}

// transfer opens a workspace that shows the progress of do, and prints the blobs it
// moved.
func (p *program) transfer(open workspace.Options, verb string, do func(*workspace.Workspace) (moved, error)) error {
	t := p.newTransfer(verb)
	open.Progress = t.Event
	return p.inWorkspace(open, func(w *workspace.Workspace) error {
		m, err := do(w)
		t.Wait()
		if err != nil {
			return invalidReference(err)
		}
		m.report.Tags = listed(m.report.Tags)
		for line := range strings.Lines(m.summary) {
			if !p.JSON {
				p.Note("%s", strings.TrimSuffix(line, "\n"))
			}
		}
		out := map[string]any{"ref": m.ref, "digest": m.digest, "report": m.report}
		maps.Copy(out, m.more)
		return p.PrintLine(out, "%s@%s", m.ref, m.digest)
	})
}

// invalidReference turns the error of an invalid argument into a usage error.
func invalidReference(err error) error {
	if errors.Is(err, errdef.ErrInvalidReference) || errors.Is(err, workspace.ErrSystem) {
		return diag.Usage(err)
	}
	return err
}
