// Package dlc reads the outside of .dlc files, containers that Qualcomm's
// converter writes: ZIP archives of a model for any chip, its weights, and
// notes in JSON about what wrote it. Some carry context binaries as well, which
// were compiled for one chip.
//
// [ReadDLC] lists the entries, reads the notes and the name of the graph and finds
// contexts; weights stay where they are. Entries are stored, not compressed,
// and have no checksum.
package blob

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"mm-abi.org/mm/core/htp"
)

// The limits of what is read.
const (
	maxDirectory = 1 << 20 // bytes of the archive's directory
	maxNotes     = 1 << 20 // bytes of one note
	maxEntries   = 1024
)

// DLCHead is how many bytes of a file [IsDLC] needs.
const DLCHead = 4

// IsDLC reports whether a file that begins with head is a ZIP archive, as every
// .dlc is.
func IsDLC(head []byte) bool { return len(head) >= DLCHead && string(head[:4]) == "PK\x03\x04" }

// Container is what a file is made of.
type DLC struct {
	Size      int64
	Version   htp.Version // of the notes
	Converter string      // the version of what wrote it, such as 2.51.0.260929181845
	Tool      string      // which wrote it
	Graphs    []string
	Entries   []Entry
	Contexts  []DLCContext
}

// Entry is a file in the container.
type Entry struct {
	Name string
	Size int64
}

// Context is a context binary in the container.
type DLCContext struct {
	Entry        string
	Offset, Size int64 // in the file
	Context      *Context
}

// ReadDLC reads the container that r holds, size bytes from its start. What is no
// ZIP archive, or one without a model, is [qnn.ErrOther].
func ReadDLC(r io.ReaderAt, size int64) (*DLC, error) {
	c, err := readDLC(r, size)
	if err != nil {
		return nil, fmt.Errorf("dlc: %w", err)
	}
	return c, nil
}

// bounded refuses to read more than is left. The directory of a hostile archive
// could fill the memory before its first entry is seen.
type bounded struct {
	io.ReaderAt
	left int64
}

var errDirectory = fmt.Errorf("the archive's directory has more than %d bytes", maxDirectory)

// ReadAt implements io.ReaderAt.
func (b *bounded) ReadAt(p []byte, at int64) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errDirectory
	}
	return b.ReaderAt.ReadAt(p, at)
}

func readDLC(r io.ReaderAt, size int64) (*DLC, error) {
	head := make([]byte, min(DLCHead, max(size, 0)))
	if n, err := r.ReadAt(head, 0); n < len(head) {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	if !IsDLC(head) {
		return nil, fmt.Errorf("%w: it is no ZIP archive", htp.ErrOther)
	}
	z, err := zip.NewReader(&bounded{r, maxDirectory + 128<<10}, size)
	if err != nil {
		return nil, err
	}
	if len(z.File) > maxEntries {
		return nil, fmt.Errorf("%d entries, at most %d are read", len(z.File), maxEntries)
	}
	c := &DLC{Size: size}
	model := false
	names := map[string]bool{}
	for _, f := range z.File {
		if names[f.Name] {
			return nil, fmt.Errorf("two entries are called %q", f.Name)
		}
		names[f.Name] = true
		model = model || f.Name == "model"
	}
	if !model {
		return nil, fmt.Errorf("%w: a ZIP archive without an entry called model", htp.ErrOther)
	}
	// Each is read through a view of its own: the directory alone is bounded.
	for _, f := range z.File {
		if err := c.entry(r, size, f); err != nil {
			return nil, fmt.Errorf("entry %q: %w", f.Name, err)
		}
	}
	return c, nil
}

// entry reads what is worth reading of an entry. An entry that lies beyond the
// file or is compressed is an error.
func (c *DLC) entry(r io.ReaderAt, size int64, f *zip.File) error {
	at, err := dataOffset(r, size, f)
	if err != nil {
		return err
	}
	n := int64(f.UncompressedSize64)
	if f.Method != zip.Store || f.CompressedSize64 != f.UncompressedSize64 {
		return fmt.Errorf("it is compressed by method %d, entries are stored", f.Method)
	}
	if n < 0 || n > size-at {
		return fmt.Errorf("%d bytes at %d, the file has %d", f.UncompressedSize64, at, size)
	}
	c.Entries = append(c.Entries, Entry{f.Name, n})
	body := io.NewSectionReader(r, at, n)
	head := make([]byte, min(ContextHead, n))
	if _, err := body.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case IsContext(head):
		inner, err := ReadContext(body, n)
		if err != nil {
			return err
		}
		c.Contexts = append(c.Contexts, DLCContext{f.Name, at, n, inner})
	case f.Name == "model":
		return c.model(body, n)
	case strings.HasPrefix(f.Name, "dlc.metadata"):
		if n > maxNotes {
			return fmt.Errorf("notes of %d bytes, at most %d are read", n, maxNotes)
		}
		data, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		return c.notes(data)
	}
	return nil
}

// dataOffset is where an entry's bytes begin, by its own header.
func dataOffset(r io.ReaderAt, size int64, f *zip.File) (int64, error) {
	at, err := f.DataOffset()
	if err == nil && (at < 0 || at > size) {
		err = fmt.Errorf("it begins at byte %d, the file has %d", at, size)
	}
	return at, err
}

// notes reads what the converter wrote about itself.
func (c *DLC) notes(data []byte) error {
	var n struct {
		Header struct {
			Version struct{ Major, Minor, Patch uint32 }
		}
		DLCGenerationInfo []struct {
			ConverterCommand struct{ Tool, ConverterVersion string }
		}
	}
	if err := json.Unmarshal(data, &n); err != nil {
		return fmt.Errorf("the notes are no JSON: %w", err)
	}
	c.Version = htp.Version(n.Header.Version)
	for _, g := range n.DLCGenerationInfo {
		c.Tool, c.Converter = g.ConverterCommand.Tool, g.ConverterCommand.ConverterVersion
	}
	return nil
}

// prefix is what stands before the FlatBuffer of a model.
const prefix = 8

// model reads the names of the graphs. A model of another form is no fault:
// the notes say what it is.
func (c *DLC) model(body *io.SectionReader, n int64) error {
	if n < prefix+8 {
		return fmt.Errorf("a model of %d bytes", n)
	}
	b := newBuffer(body, prefix, n-prefix)
	if b.Identifier() != "NETD" {
		return b.Err()
	}
	for _, t := range b.Root().Tables(0) {
		c.Graphs = append(c.Graphs, t.Text(4))
	}
	return b.Err()
}
