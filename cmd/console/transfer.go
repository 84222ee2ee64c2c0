package console

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/mattn/go-isatty"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/remote"
)

// Screen is where bars are drawn.
type Screen struct {
	File *os.File // nil: not a terminal
}

// ScreenOf returns the screen of w; off disables it.
func ScreenOf(w io.Writer, off bool) Screen {
	if f, ok := w.(*os.File); ok && !off && isatty.IsTerminal(f.Fd()) {
		return Screen{f}
	}
	return Screen{}
}

// Transfer shows the progress of blobs: bars on a terminal, plain lines otherwise.
type Transfer struct {
	say  func(format string, args ...any)
	verb string // pushing, pulling

	mu   sync.Mutex
	bars *mpb.Progress // nil: plain lines
	each map[digest.Digest]*mpb.Bar
}

// smallest is the size of the smallest blob that is shown.
const smallest = 64 << 10

// NewTransfer returns a view of the transfers of a verb, such as pulling: bars at screen, or
// lines through say.
func NewTransfer(screen Screen, say func(format string, args ...any), verb string) *Transfer {
	t := &Transfer{say: say, verb: verb, each: map[digest.Digest]*mpb.Bar{}}
	if screen.File != nil {
		t.bars = mpb.New(mpb.WithOutput(screen.File), mpb.WithWidth(48))
	}
	return t
}

// Event handles the progress of the remote client.
func (t *Transfer) Event(e remote.Event) {
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

func (t *Transfer) plain(e remote.Event) {
	name := title(e.Descriptor)
	switch e.Kind {
	case remote.Started:
		if e.Offset > 0 {
			t.line("%s %s (%s), resuming at %s", t.verb, name, fsx.FormatSize(e.Descriptor.Size), fsx.FormatSize(e.Offset))
		} else {
			t.line("%s %s (%s)", t.verb, name, fsx.FormatSize(e.Descriptor.Size))
		}
	case remote.Present:
		t.line("%s exists", name)
	case remote.Mounted:
		t.line("%s mounted from another repository", name)
	}
}

func (t *Transfer) line(format string, args ...any) {
	if t.bars != nil {
		fmt.Fprintf(t.bars, format+"\n", args...)
		return
	}
	t.say(format, args...)
}

func (t *Transfer) bar(e remote.Event) {
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

// Wait completes the bars.
func (t *Transfer) Wait() {
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

// title names a blob by its file, or by its abbreviated digest.
func title(d ocispec.Descriptor) string {
	if s := d.Annotations[ocispec.AnnotationTitle]; s != "" {
		return s
	}
	return diag.Short(d.Digest.String())
}
