// Package qnnfile reads files for QNN, Qualcomm's NPUs: context binaries, LiteRT
// models compiled ahead of time, ONNX models around contexts, and containers of
// Qualcomm's converter. No SDK is needed and nothing is executed.
//
// [Open] detects the format of a file and reads its description; [Inspect]
// describes it; [Check] checks it for a target, with diagnostics; [Extract] writes
// its contexts; [Wrap] creates an ONNX model around one. The parsers are in
// onnx/htp. Weights are read only to copy them.
package qnnfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp"
)

// Format is the format of a file.
type Format string

// The formats.
const (
	Context   Format = "context"
	LiteRT    Format = "litert"
	EPContext Format = "epcontext"
	DLC       Format = "dlc"
)

// File is an open file with its description.
type File struct {
	Path   string
	Bytes  int64
	Format Format
	// Parts are the contexts in the file, or those it names.
	Parts []Part

	contexts onnx.Opener
	litert   *htp.LiteRT
	onnx     *htp.EPContext
	dlc      *htp.DLC
	// faults are parts that could not be read.
	faults diag.List
	close  []io.Closer
}

// Part is a context.
type Part struct {
	Name   string // of the graph, the node or the entry
	File   string // path of the file that contains it
	Offset int64  // in the file
	Size   int64
	// Embedded is set if the context is a part of the opened file.
	Embedded bool
	Location string   // of File, relative to the ONNX model; may be empty
	Graphs   []string // used by the file; empty for all
	Context  *htp.Context

	data io.ReaderAt // from Offset on
	node *htp.Node
	// shares is set if the part is the same as the previous one.
	shares bool
}

// Reader returns a reader of the context. It is valid while the file is open.
func (p Part) Reader() *io.SectionReader { return io.NewSectionReader(p.data, 0, p.Size) }

// Close implements io.Closer.
func (f *File) Close() error {
	var errs []error
	for _, c := range f.close {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Compiled reports whether head begins a context binary, or a LiteRT model, which
// may contain contexts.
func Compiled(head []byte) bool { return htp.IsContext(head) || htp.IsLiteRT(head) }

// Open opens the file at path and reads its description. If it is malformed or has
// an unknown format, the error is a diag.List. The files that it names must be
// regular and below its folder.
func Open(path string) (*File, error) {
	return OpenWith(path, onnx.FolderOpener(filepath.Dir(path), nil))
}

// OpenWith is like Open, but opens the contexts that the file names with contexts.
// Their reported path is below its folder.
func OpenWith(path string, contexts onnx.Opener) (*File, error) {
	r, err := fsx.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	info, err := r.Stat()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	f := &File{Path: path, Bytes: info.Size(), contexts: contexts, close: []io.Closer{r}}
	if err := f.read(r); err != nil {
		f.fault(err)
	}
	if f.faults.Failed() {
		return nil, errors.Join(f.faults.Err(), f.Close())
	}
	return f, nil
}

// fault adds an error about the file's contents.
func (f *File) fault(err error) {
	f.faults.Add(diag.QNNUnread, diag.Pos{File: f.Path}, err.Error(), diag.QNNUnread.Fix())
}

func (f *File) read(r *os.File) error {
	head := make([]byte, min(fsx.SniffLen, f.Bytes))
	if n, err := r.ReadAt(head, 0); n < len(head) {
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	switch {
	case len(head) == 0:
		return errors.New("the file is empty: a failed compiler leaves empty output")
	case htp.IsContext(head):
		f.Format = Context
		c, err := htp.ReadContext(r, f.Bytes)
		if err != nil {
			return err
		}
		f.Parts = []Part{{Name: stem(f.Path), File: f.Path, Size: f.Bytes, Context: c, data: r}}
		return nil
	case htp.IsLiteRT(head):
		f.Format = LiteRT
		return f.readLiteRT(r)
	case fsx.Sniff(head) == fsx.ONNX, strings.EqualFold(filepath.Ext(f.Path), ".onnx"):
		f.Format = EPContext
		return f.readONNX()
	case htp.IsDLC(head):
		f.Format = DLC
		return f.readDLC(r)
	}
	return fmt.Errorf("not a QNN file: detected %s", fsx.Sniff(head))
}

func stem(path string) string {
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}

func (f *File) readLiteRT(r io.ReaderAt) (err error) {
	if f.litert, err = htp.ReadLiteRT(r, f.Bytes); err != nil {
		return err
	}
	if len(f.litert.Dispatches) == 0 {
		return errors.New("LiteRT model without compiled parts: missing operator DISPATCH_OP")
	}
	for i, b := range f.litert.Bytecodes() {
		body := io.NewSectionReader(r, b.Offset, b.Size)
		p := Part{Name: fmt.Sprintf("%s_%d", stem(f.Path), i), File: f.Path, Offset: b.Offset, Size: b.Size, Embedded: true, Graphs: b.Graphs, data: body}
		if p.Context, err = htp.ReadContext(body, b.Size); err != nil {
			f.fault(fmt.Errorf("bytecode %d at %d: %w", i, b.Offset, err))
			continue
		}
		for _, name := range b.Graphs {
			if p.Context.Unread == "" && !hasGraph(p.Context, name) {
				f.fault(fmt.Errorf("bytecode %d at %d: missing graph %q", i, b.Offset, name))
			}
		}
		f.Parts = append(f.Parts, p)
	}
	return nil
}

func hasGraph(c *htp.Context, name string) bool {
	for _, g := range c.Graphs {
		if g.Name == name {
			return true
		}
	}
	return false
}

func (f *File) readDLC(r io.ReaderAt) (err error) {
	if f.dlc, err = htp.ReadDLC(r, f.Bytes); err != nil {
		return err
	}
	for _, c := range f.dlc.Contexts {
		f.Parts = append(f.Parts, Part{Name: c.Entry, File: f.Path, Offset: c.Offset, Size: c.Size, Embedded: true, Context: c.Context, data: io.NewSectionReader(r, c.Offset, c.Size)})
	}
	return nil
}

func (f *File) readONNX() error {
	m, err := onnx.Open(f.Path)
	if err != nil {
		return err
	}
	f.close = append(f.close, m)
	if f.onnx, err = htp.ReadEPContext(m); err != nil {
		return err
	}
	main := -1 // part of the last node with a context
	for i := range f.onnx.Nodes {
		n := &f.onnx.Nodes[i]
		if err := f.node(n, &main); err != nil {
			f.fault(fmt.Errorf("node %q: %w", n.Name, err))
		}
	}
	return nil
}

// node finds the context of a node. A node that is not main shares the context of
// the previous main node.
func (f *File) node(n *htp.Node, main *int) error {
	if !n.QNN() {
		return fmt.Errorf("unsupported source %q, want QNN", n.Source)
	}
	p := Part{Name: n.Name, File: f.Path, Graphs: []string{n.Graph}, node: n}
	switch {
	case !n.Main:
		if *main < 0 {
			return errors.New("shared context without a previous node that has one")
		}
		p = f.Parts[*main]
		p.Name, p.Graphs, p.node, p.shares = n.Name, []string{n.Graph}, n, true
		f.Parts = append(f.Parts, p)
		return nil
	case n.Embed:
		p.Size, p.Embedded, p.data = int64(len(n.Bytes)), true, bytes.NewReader(n.Bytes)
	default:
		file, err := f.contexts(n.File)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("missing context %q next to the model", n.File)
		}
		if err != nil {
			return err
		}
		f.close = append(f.close, file)
		info, err := file.Stat()
		if err != nil {
			return err
		}
		p.Location = n.File
		p.File, p.Size, p.data = filepath.Join(filepath.Dir(f.Path), filepath.FromSlash(n.File)), info.Size(), file
	}
	c, err := htp.ReadContext(p.data, p.Size)
	if err != nil {
		return err
	}
	p.Context = c
	*main = len(f.Parts)
	f.Parts = append(f.Parts, p)
	return nil
}
