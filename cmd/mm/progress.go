package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"

	"github.com/mattn/go-isatty"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/workspace"
)

// transfer shows the progress of blobs: bars on a terminal, plain lines otherwise.
type transfer struct {
	p    *program
	verb string // pushing, pulling

	mu   sync.Mutex
	bars *mpb.Progress // nil: plain lines
	each map[digest.Digest]*mpb.Bar
}

// smallest is the size of the smallest blob that is shown.
const smallest = 64 << 10

func (p *program) newTransfer(verb string) *transfer {
	t := &transfer{p: p, verb: verb, each: map[digest.Digest]*mpb.Bar{}}
	if f, ok := p.stderr.(*os.File); ok && isatty.IsTerminal(f.Fd()) && !p.quiet && !p.json {
		t.bars = mpb.New(mpb.WithOutput(f), mpb.WithWidth(48))
	}
	return t
}

// pulling reports the pulls before the work of a command, in plain lines.
func (p *program) pulling(opt workspace.Options) workspace.Options {
	opt.Progress = (&transfer{p: p, verb: "pulling"}).event
	return opt
}

// event handles the progress of the remote client.
func (t *transfer) event(e remote.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.Kind {
	case remote.Retried:
		t.line("retrying: %s", diag.Printable(e.Err.Error()))
	case remote.Waiting:
		t.line("%v", e.Err)
	case remote.Warned:
		t.line("warning: %v", e.Err)
	}
	if e.Descriptor.Size < smallest {
		return
	}
	if t.bars == nil {
		t.plain(e)
		return
	}
	t.bar(e)
}

func (t *transfer) plain(e remote.Event) {
	name := title(e.Descriptor)
	switch e.Kind {
	case remote.Started:
		if e.Offset > 0 {
			t.line("%s %s (%s), resuming at %s", t.verb, name, size(e.Descriptor.Size), size(e.Offset))
		} else {
			t.line("%s %s (%s)", t.verb, name, size(e.Descriptor.Size))
		}
	case remote.Present:
		t.line("%s exists", name)
	case remote.Mounted:
		t.line("%s mounted from another repository", name)
	}
}

func (t *transfer) line(format string, args ...any) {
	if t.bars != nil {
		fmt.Fprintf(t.bars, format+"\n", args...)
		return
	}
	t.p.say(format, args...)
}

func (t *transfer) bar(e remote.Event) {
	bar := t.each[e.Descriptor.Digest]
	if bar == nil {
		bar = t.bars.AddBar(e.Descriptor.Size,
			mpb.PrependDecorators(decor.Name(title(e.Descriptor), decor.WC{C: decor.DindentRight, W: 28})),
			mpb.AppendDecorators(decor.CountersKibiByte("% .1f / % .1f"), decor.Name("  "), decor.AverageSpeed(decor.SizeB1024(0), "% .1f")))
		t.each[e.Descriptor.Digest] = bar
	}
	switch e.Kind {
	case remote.Started, remote.Moved:
		bar.SetCurrent(e.Offset)
	case remote.Failed:
		bar.Abort(false)
	case remote.Done, remote.Present, remote.Mounted:
		bar.SetCurrent(e.Descriptor.Size)
	}
}

// wait completes the bars.
func (t *transfer) wait() {
	if t.bars == nil {
		return
	}
	t.mu.Lock()
	for _, b := range t.each {
		if !b.Completed() {
			b.Abort(false)
		}
	}
	t.mu.Unlock()
	t.bars.Wait()
}

// moved is the result of a push or a pull.
type moved struct {
	ref, digest string
	report      remote.Report
	summary     string         // of the report; if empty, it is not printed
	more        map[string]any // further keys of the JSON output
}

// transfer opens a workspace that shows the progress of do, and prints the blobs it
// moved.
func (p *program) transfer(open workspace.Options, verb string, do func(*workspace.Workspace) (moved, error)) error {
	t := p.newTransfer(verb)
	open.Progress = t.event
	return p.inWorkspace(open, func(w *workspace.Workspace) error {
		m, err := do(w)
		t.wait()
		if err != nil {
			return invalidReference(err)
		}
		m.report.Tags = listed(m.report.Tags)
		for line := range strings.Lines(m.summary) {
			if !p.json {
				p.say("%s", strings.TrimSuffix(line, "\n"))
			}
		}
		out := map[string]any{"ref": m.ref, "digest": m.digest, "report": m.report}
		maps.Copy(out, m.more)
		return p.printLine(out, "%s@%s", m.ref, m.digest)
	})
}

// invalidReference turns the error of an invalid argument into a usage error.
func invalidReference(err error) error {
	if errors.Is(err, errdef.ErrInvalidReference) || errors.Is(err, workspace.ErrSystem) {
		return usageError{err}
	}
	return err
}

// title names a blob by its file, or by its abbreviated digest.
func title(d ocispec.Descriptor) string {
	if s := d.Annotations[ocispec.AnnotationTitle]; s != "" {
		return s
	}
	return short(d.Digest.String())
}
