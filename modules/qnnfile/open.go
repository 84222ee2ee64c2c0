// Package qnnfile looks at files for QNN, Qualcomm's NPUs, on their own: context
// binaries, LiteRT models compiled ahead of time, ONNX models around contexts,
// containers of Qualcomm's converter. No SDK is needed and nothing is run.
//
// [Open] tells which of the four a file is and reads its description;
// [Inspect] makes a view of it for people and programs, [Check] judges it for a
// target as diagnostics, [Extract] writes the contexts that are in it, [Wrap]
// makes an ONNX model around one. The readers are in core/htp; weights are
// never read but to be copied.
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

	"mm-abi.org/mm/core/htp/blob"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/sniff"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/admit"
)

// Format is what a file is.
type Format string

// The formats.
const (
	Context   Format = "context"
	LiteRT    Format = "litert"
	EPContext Format = "epcontext"
	DLC       Format = "dlc"
)

// File is an open file whose description was read. Close gives it back.
type File struct {
	Path   string
	Bytes  int64
	Format Format
	// Parts are the contexts in the file or named by it.
	Parts []Part

	beside admit.Opener
	litert *blob.LiteRT
	onnx   *blob.EPContext
	dlc    *blob.DLC
	// faults are parts that could not be read.
	faults diag.List
	close  []io.Closer
}

// Part is a context.
type Part struct {
	Name   string // for people: of the graph, the node or the entry
	File   string // where it lies
	Offset int64  // in the file
	Size   int64
	// Embedded is set where it lies in the file that was opened and is not all
	// of it.
	Embedded bool
	Location string   // of File, as an ONNX model names it; "": it names none
	Graphs   []string // that the file uses of it; empty for all
	Context  *blob.Context

	data io.ReaderAt // from Offset on
	node *blob.Node
	// shares is set where the part before holds the same bytes.
	shares bool
}

// Reader reads the context's bytes, as long as the file is open.
func (p Part) Reader() *io.SectionReader { return io.NewSectionReader(p.data, 0, p.Size) }

// Close implements io.Closer.
func (f *File) Close() error {
	var errs []error
	for _, c := range f.close {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Compiled reports whether head is the beginning of a context binary, or of a
// LiteRT model, which may hold some.
func Compiled(head []byte) bool { return blob.IsContext(head) || blob.IsLiteRT(head) }

// Open opens the file at path and reads what describes it. A file that is none
// of the formats, or broken, is a diag.List in the error. Files that it names are
// plain ones below its folder.
func Open(path string) (*File, error) {
	return OpenBeside(path, admit.Folder(filepath.Dir(path), nil))
}

// OpenBeside is Open for a file whose contexts, where it names any, are opened by
// beside. They are said to lie below its folder.
func OpenBeside(path string, beside admit.Opener) (*File, error) {
	r, err := fsx.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	info, err := r.Stat()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	f := &File{Path: path, Bytes: info.Size(), beside: beside, close: []io.Closer{r}}
	if err := f.read(r); err != nil {
		f.fault(err)
	}
	if f.faults.Failed() {
		return nil, errors.Join(f.faults.Err(), f.Close())
	}
	return f, nil
}

// fault adds an error about the file's bytes.
func (f *File) fault(err error) {
	f.faults.Add(diag.QNNUnread, diag.Pos{File: f.Path}, err.Error(), diag.QNNUnread.Fix())
}

func (f *File) read(r *os.File) error {
	head := make([]byte, min(sniff.Head, f.Bytes))
	if n, err := r.ReadAt(head, 0); n < len(head) {
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	switch {
	case len(head) == 0:
		return errors.New("it is empty, as a compiler that failed leaves its output")
	case blob.IsContext(head):
		f.Format = Context
		c, err := blob.ReadContext(r, f.Bytes)
		if err != nil {
			return err
		}
		f.Parts = []Part{{Name: stem(f.Path), File: f.Path, Size: f.Bytes, Context: c, data: r}}
		return nil
	case blob.IsLiteRT(head):
		f.Format = LiteRT
		return f.readLiteRT(r)
	case sniff.Bytes(head) == sniff.ONNX, strings.EqualFold(filepath.Ext(f.Path), ".onnx"):
		f.Format = EPContext
		return f.readONNX()
	case blob.IsDLC(head):
		f.Format = DLC
		return f.readDLC(r)
	}
	return fmt.Errorf("no file of QNN's: it seems to be %s", sniff.Bytes(head))
}

func stem(path string) string {
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}

func (f *File) readLiteRT(r io.ReaderAt) (err error) {
	if f.litert, err = blob.ReadLiteRT(r, f.Bytes); err != nil {
		return err
	}
	if len(f.litert.Dispatches) == 0 {
		return errors.New("a LiteRT model without compiled parts: it has no operator DISPATCH_OP")
	}
	for i, b := range f.litert.Bytecodes() {
		body := io.NewSectionReader(r, b.Offset, b.Size)
		p := Part{Name: fmt.Sprintf("%s_%d", stem(f.Path), i), File: f.Path, Offset: b.Offset, Size: b.Size, Embedded: true, Graphs: b.Graphs, data: body}
		if p.Context, err = blob.ReadContext(body, b.Size); err != nil {
			f.fault(fmt.Errorf("bytecode %d at %d: %w", i, b.Offset, err))
			continue
		}
		for _, name := range b.Graphs {
			if p.Context.Unread == "" && !hasGraph(p.Context, name) {
				f.fault(fmt.Errorf("bytecode %d at %d has no graph %q, which an operator runs", i, b.Offset, name))
			}
		}
		f.Parts = append(f.Parts, p)
	}
	return nil
}

func hasGraph(c *blob.Context, name string) bool {
	for _, g := range c.Graphs {
		if g.Name == name {
			return true
		}
	}
	return false
}

func (f *File) readDLC(r io.ReaderAt) (err error) {
	if f.dlc, err = blob.ReadDLC(r, f.Bytes); err != nil {
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
	if f.onnx, err = blob.ReadEPContext(m); err != nil {
		return err
	}
	main := -1 // the part of the last node that names a context
	for i := range f.onnx.Nodes {
		n := &f.onnx.Nodes[i]
		if err := f.node(n, &main); err != nil {
			f.fault(fmt.Errorf("node %q: %w", n.Name, err))
		}
	}
	return nil
}

// node finds the context of a node. A node that is not the main one shares that
// of the last one that was.
func (f *File) node(n *blob.Node, main *int) error {
	if !n.QNN() {
		return fmt.Errorf("it is for %q, not for QNN", n.Source)
	}
	p := Part{Name: n.Name, File: f.Path, Graphs: []string{n.Graph}, node: n}
	switch {
	case !n.Main:
		if *main < 0 {
			return errors.New("it shares a context, and no node before it has one")
		}
		p = f.Parts[*main]
		p.Name, p.Graphs, p.node, p.shares = n.Name, []string{n.Graph}, n, true
		f.Parts = append(f.Parts, p)
		return nil
	case n.Embed:
		p.Size, p.Embedded, p.data = int64(len(n.Bytes)), true, bytes.NewReader(n.Bytes)
	default:
		file, err := f.beside(n.File)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("its context %q is not beside the model", n.File)
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
	c, err := blob.ReadContext(p.data, p.Size)
	if err != nil {
		return err
	}
	p.Context = c
	*main = len(f.Parts)
	f.Parts = append(f.Parts, p)
	return nil
}
