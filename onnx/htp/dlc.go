// DLC files are containers that Qualcomm's converter writes: ZIP archives of a
// model for any chip, its weights, and JSON notes about the converter. Some
// also carry context binaries, compiled for one chip. Weights are not read.
// Entries are stored, not compressed, and have no checksum.

package htp

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits of a container.
const (
	maxDirectory = 1 << 20 // bytes of the archive's directory
	maxNotes     = 1 << 20 // bytes of one note
	maxEntries   = 1024
)

// DLCHead is the number of bytes that [IsDLC] needs.
const DLCHead = 4

// IsDLC reports whether head begins a ZIP archive, as every .dlc file does.
func IsDLC(head []byte) bool { return len(head) >= DLCHead && string(head[:4]) == "PK\x03\x04" }

// DLC describes a container.
type DLC struct {
	Size      int64
	Version   Version // of the notes
	Converter string  // version of the converter, such as 2.51.0.260929181845
	Tool      string  // name of the converter
	Graphs    []string
	Entries   []Entry
	Contexts  []DLCContext
}

// Entry is a file in the container.
type Entry struct {
	Name string
	Size int64
}

// DLCContext is a context binary in the container.
type DLCContext struct {
	Entry        string
	Offset, Size int64 // in the file
	Context      *Context
}

// ReadDLC reads the container of size bytes in r. If it is not a ZIP archive or
// has no model, the error is [htp.ErrOther].
func ReadDLC(r io.ReaderAt, size int64) (*DLC, error) {
	c, err := readDLC(r, size)
	if err != nil {
		return nil, fmt.Errorf("dlc: %w", err)
	}
	return c, nil
}

// bounded limits how much is read: the directory of a hostile archive could
// fill the memory before its first entry is seen.
type bounded struct {
	io.ReaderAt
	left int64
}

var errDirectory = fmt.Errorf("archive directory exceeds %d bytes", maxDirectory)

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
		return nil, fmt.Errorf("%w: not a ZIP archive", ErrOther)
	}
	z, err := zip.NewReader(&bounded{r, maxDirectory + 128<<10}, size)
	if err != nil {
		return nil, err
	}
	if len(z.File) > maxEntries {
		return nil, fmt.Errorf("too many entries: got %d, limit %d", len(z.File), maxEntries)
	}
	c := &DLC{Size: size}
	model := false
	names := map[string]bool{}
	for _, f := range z.File {
		if names[f.Name] {
			return nil, fmt.Errorf("duplicate entry %q", f.Name)
		}
		names[f.Name] = true
		model = model || f.Name == "model"
	}
	if !model {
		return nil, fmt.Errorf("%w: ZIP archive has no entry \"model\"", ErrOther)
	}
	// Entries are read unbounded: only the directory needs the bound.
	for _, f := range z.File {
		if err := c.entry(r, size, f); err != nil {
			return nil, fmt.Errorf("entry %q: %w", f.Name, err)
		}
	}
	return c, nil
}

// entry reads the notes, the model's names or a context. An entry beyond the
// end of the file or a compressed one is an error.
func (c *DLC) entry(r io.ReaderAt, size int64, f *zip.File) error {
	at, err := dataOffset(r, size, f)
	if err != nil {
		return err
	}
	n := int64(f.UncompressedSize64)
	if f.Method != zip.Store || f.CompressedSize64 != f.UncompressedSize64 {
		return fmt.Errorf("compression method %d, want stored", f.Method)
	}
	if n < 0 || n > size-at {
		return fmt.Errorf("%d bytes at %d exceed the file size %d", f.UncompressedSize64, at, size)
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
			return fmt.Errorf("notes too large: got %d bytes, limit %d", n, maxNotes)
		}
		data, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		return c.notes(data)
	}
	return nil
}

// dataOffset returns the offset of an entry's data, from its local header.
func dataOffset(r io.ReaderAt, size int64, f *zip.File) (int64, error) {
	at, err := f.DataOffset()
	if err == nil && (at < 0 || at > size) {
		err = fmt.Errorf("data offset %d exceeds the file size %d", at, size)
	}
	return at, err
}

// notes parses the converter's notes.
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
		return fmt.Errorf("invalid JSON in the notes: %w", err)
	}
	c.Version = Version(n.Header.Version)
	for _, g := range n.DLCGenerationInfo {
		c.Tool, c.Converter = g.ConverterCommand.Tool, g.ConverterCommand.ConverterVersion
	}
	return nil
}

// prefix is the number of bytes before the FlatBuffer of a model.
const prefix = 8

// model reads the names of the graphs. A model in another format is not an
// error: the notes describe it.
func (c *DLC) model(body *io.SectionReader, n int64) error {
	if n < prefix+8 {
		return fmt.Errorf("bad model size: %d bytes", n)
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
