package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/urfave/cli/v2"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/hub"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/workspace"
)

func (p *program) pull(c *cli.Context) error {
	ref := c.Args().First()
	if hub.IsRef(ref) {
		return p.fetchHub(c.Context, ref, workspace.FetchOptions{Out: c.String("out"), Include: c.StringSlice("include")})
	}
	opt := workspace.PullOptions{
		Claim: claimOptions(c), As: c.String("as"), Target: c.String("target"), Only: c.StringSlice("only"), Out: c.String("out"),
	}
	if len(opt.Only) > 0 && opt.Out == "" {
		return diag.Usagef("--only requires --out DIR: a partial artifact is not added to the store")
	}
	return p.transfer(remoteOptions(c, "."), "pulling", func(w *workspace.Workspace) (moved, error) {
		got, err := w.Pull(c.Context, ref, opt)
		if err != nil {
			return moved{}, err
		}
		r := got.Report
		done := moved{cmp.Or(got.Name, ref), got.Digest, r, fmt.Sprintf("%d of %d blobs received (%s), %d already present", r.Moved, r.Blobs, size(r.Bytes), r.Present), map[string]any{"permissions": listed(got.Permissions)}}
		for _, ask := range got.Permissions {
			done.summary = diag.Printable(ask.String()) + "\n" + done.summary
		}
		if got.Next != "" {
			done.summary += "\nnext: " + diag.Printable(got.Next)
			done.more["next"] = got.Next
		}
		return done, nil
	})
}

func (p *program) fetchHub(ctx context.Context, ref string, opt workspace.FetchOptions) error {
	return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
		got, err := w.FetchHub(ctx, ref, opt)
		if err != nil {
			return err
		}
		r := got.Report
		p.Note("%d of %d files received (%s) from commit %.12s; they are not signed", r.Fetched, len(r.Files), size(r.Bytes), r.Tree.Commit)
		if got.Next != "" {
			p.Note("next: %s", diag.Printable(got.Next))
		}
		out := map[string]any{"ref": ref, "digest": "sha1:" + r.Tree.Commit, "permissions": []string{}, "next": got.Next,
			"hub":    map[string]any{"folder": got.Dir, "license": r.Tree.License, "gated": r.Tree.Gated},
			"report": remote.Report{Blobs: len(r.Files), Moved: r.Fetched, Present: len(r.Files) - r.Fetched, Bytes: r.Bytes, Tags: []string{}}}
		return p.PrintLine(out, "%s", diag.Printable(got.Dir))
	})
}

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
