package corpus

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Limits of Parquet: the footer, a page header, a page, its values and the pages
// of a column in a row group.
const (
	maxFooter     = 16 << 20
	maxPageHeader = 1 << 20
	maxPage       = 32 << 20
	maxPageValues = 1 << 22
	maxPages      = 1 << 20
)

// pageHeader has the numbers that the reader of a page trusts.
type pageHeader struct {
	kind, size, stored       int64
	values, encoding         int64
	defEncoding, repEncoding int64
	defLength, repLength     int64
	plain                    bool // a page of version 2 that is not compressed
}

// set takes a number of the header: of the header itself, or of the header of a
// data page (5), a dictionary (7) or a data page of version 2 (8).
func (h *pageHeader) set(outer, field int, v int64) {
	switch outer<<8 | field {
	case 1:
		h.kind = v
	case 2:
		h.size = v
	case 3:
		h.stored = v
	case 5<<8 | 1, 7<<8 | 1, 8<<8 | 1:
		h.values = v
	case 5<<8 | 2, 7<<8 | 2, 8<<8 | 4:
		h.encoding = v
	case 5<<8 | 3:
		h.defEncoding = v
	case 5<<8 | 4:
		h.repEncoding = v
	case 8<<8 | 5:
		h.defLength = v
	case 8<<8 | 6:
		h.repLength = v
	case 8<<8 | 7:
		h.plain = v == 0
	}
}

// column is a column chunk whose pages are checked before the library reads
// them: it allocates as much as a page claims.
type column struct {
	name     string
	r        *io.SectionReader
	codec    format.CompressionCodec
	rep, def int // maximum levels
	boolean  bool
}

// check walks the pages.
func (c *column) check() error {
	buf := make([]byte, 0, 64<<10)
	for at, n := int64(0), 0; at < c.r.Size(); n++ {
		if n == maxPages {
			return fmt.Errorf("more than %d pages", maxPages)
		}
		h, length, err := c.header(at, &buf)
		if err != nil {
			return err
		}
		if err := c.page(h, at+length); err != nil {
			return err
		}
		at += length + h.stored
	}
	return nil
}

// header reads the page header at an offset. It returns its length.
func (c *column) header(at int64, buf *[]byte) (pageHeader, int64, error) {
	for size := 4 << 10; ; size *= 8 {
		if cap(*buf) < size {
			*buf = make([]byte, size)
		}
		n, err := c.r.ReadAt((*buf)[:size], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return pageHeader{}, 0, err
		}
		var h pageHeader
		t := &thrift{b: (*buf)[:n], number: h.set}
		if err := t.structure(1, 0); err == nil {
			return h, int64(t.at), nil
		} else if n < size || size >= maxPageHeader {
			return h, 0, fmt.Errorf("page header: %w", err)
		}
	}
}

// The kinds of pages.
const (
	dataPage   = 0
	indexPage  = 1
	dictPage   = 2
	dataPageV2 = 3
)

// page checks the page with a header.
func (c *column) page(h pageHeader, at int64) error {
	switch {
	case h.stored < 0 || at+h.stored > c.r.Size():
		return fmt.Errorf("page of %d bytes exceeds the column", h.stored)
	case h.size < 0 || h.size > maxPage || h.stored > maxPage:
		return fmt.Errorf("page of %d bytes, limit %d", max(h.size, h.stored), maxPage)
	case h.values < 0 || h.values > maxPageValues:
		return fmt.Errorf("page of %d values, limit %d", h.values, maxPageValues)
	case h.kind == indexPage:
		return errors.New("index page")
	}
	data := make([]byte, h.stored)
	if n, err := c.r.ReadAt(data, at); n < len(data) {
		return err
	}
	var levels []byte
	if h.kind == dataPageV2 {
		if h.defLength < 0 || h.repLength < 0 || h.defLength+h.repLength > h.stored || h.defLength+h.repLength > h.size {
			return errors.New("levels exceed the page")
		}
		cut := h.defLength + h.repLength
		levels, data = data[:cut], data[cut:]
		h.size -= cut
	}
	if !(h.kind == dataPageV2 && h.plain) {
		var err error
		if data, err = c.decompress(data, h.size); err != nil {
			return err
		}
	}
	if int64(len(data)) != h.size {
		return fmt.Errorf("page has %d bytes, its header %d", len(data), h.size)
	}
	return c.runs(h, levels, data)
}

// decompress returns the content of a page, of at most size bytes.
func (c *column) decompress(data []byte, size int64) ([]byte, error) {
	switch c.codec {
	case format.Uncompressed:
		return data, nil
	case format.Snappy:
		n, err := s2.DecodedLen(data)
		if err != nil || int64(n) != size {
			return nil, fmt.Errorf("snappy: %d bytes, the header %d", n, size)
		}
		return s2.Decode(nil, data)
	case format.Gzip:
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(io.LimitReader(z, size+1))
	case format.Zstd:
		z, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*maxPage), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		return io.ReadAll(io.LimitReader(z, size+1))
	}
	return nil, fmt.Errorf("compression %v is not supported, want SNAPPY, GZIP, ZSTD or none", c.codec)
}

// bitsFor returns the width of levels up to a maximum.
func bitsFor(most int) int {
	n := 0
	for ; most > 0; most >>= 1 {
		n++
	}
	return n
}

// plainDictionary is the encoding of dictionaries and their pages in files of older
// writers.
const plainDictionary = 2

// runs checks that the runs of levels and indices do not exceed the values of the
// page.
func (c *column) runs(h pageHeader, levels, data []byte) error {
	if h.kind == dictPage {
		if h.encoding != int64(format.Plain) && h.encoding != plainDictionary {
			return fmt.Errorf("encoding %v of a dictionary", format.Encoding(h.encoding))
		}
		return nil
	}
	if h.kind == dataPageV2 {
		if err := errors.Join(countRuns(levels[:h.repLength], bitsFor(c.rep), h.values), countRuns(levels[h.repLength:], bitsFor(c.def), h.values)); err != nil {
			return err
		}
	} else {
		for _, l := range []struct {
			most     int
			encoding int64
		}{{c.rep, h.repEncoding}, {c.def, h.defEncoding}} {
			if l.most == 0 {
				continue
			}
			if l.encoding != int64(format.RLE) {
				return fmt.Errorf("encoding %v of levels", format.Encoding(l.encoding))
			}
			block, rest, err := prefixed(data)
			if err != nil {
				return err
			}
			if err := countRuns(block, bitsFor(l.most), h.values); err != nil {
				return err
			}
			data = rest
		}
	}
	switch format.Encoding(h.encoding) {
	case format.Plain:
		return nil
	case format.RLEDictionary, plainDictionary:
		if len(data) == 0 {
			return nil
		}
		return countRuns(data[1:], int(data[0]), h.values)
	case format.RLE:
		if c.boolean {
			block, _, err := prefixed(data)
			if err != nil {
				return err
			}
			return countRuns(block, 1, h.values)
		}
	}
	return fmt.Errorf("encoding %v is not supported, want PLAIN or dictionaries", format.Encoding(h.encoding))
}

// prefixed cuts a block with its length before it.
func prefixed(data []byte) (block, rest []byte, err error) {
	if len(data) < 4 {
		return nil, nil, io.ErrUnexpectedEOF
	}
	n := int64(binary.LittleEndian.Uint32(data))
	if n > int64(len(data)-4) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	return data[4 : 4+n], data[4+n:], nil
}

// countRuns checks the runs of the hybrid of run lengths and packed bits.
func countRuns(data []byte, width int, values int64) error {
	if width > 32 {
		return fmt.Errorf("indices of %d bits", width)
	}
	total := int64(0)
	for len(data) > 0 {
		head, n := binary.Uvarint(data)
		if n <= 0 {
			return errors.New("malformed run")
		}
		data = data[n:]
		count, size := int64(head>>1), (width+7)/8
		if head&1 == 1 {
			if count > maxPageValues {
				return fmt.Errorf("run of %d groups", count)
			}
			size, count = int(count)*width, 8*count
		}
		if total += count; count < 0 || count > maxPageValues || total > values+7 {
			return fmt.Errorf("runs of %d values in a page of %d", total, values)
		}
		if size > len(data) {
			size = len(data) // the last group may be short
		}
		data = data[size:]
	}
	return nil
}

// columnsOf returns the column chunks of a file below the named columns.
func columnsOf(f *parquet.File, r io.ReaderAt, names map[string]bool) (all []*column, err error) {
	leaves := map[int]*column{}
	var walk func(c *parquet.Column)
	walk = func(c *parquet.Column) {
		if c.Leaf() {
			leaves[c.Index()] = &column{name: c.Path()[0], rep: c.MaxRepetitionLevel(), def: c.MaxDefinitionLevel(), boolean: c.Type().Kind() == parquet.Boolean}
		}
		for _, d := range c.Columns() {
			walk(d)
		}
	}
	for _, c := range f.Root().Columns() {
		if names[c.Name()] {
			walk(c)
		}
	}
	for i, g := range f.Metadata().RowGroups {
		for k, leaf := range leaves {
			if k >= len(g.Columns) {
				return nil, fmt.Errorf("row group %d lacks column %q", i, leaf.name)
			}
			m := &g.Columns[k].MetaData
			from := m.DataPageOffset
			if m.DictionaryPageOffset != 0 {
				from = m.DictionaryPageOffset
			}
			if from < 4 || m.TotalCompressedSize < 0 || from > f.Size() || m.TotalCompressedSize > f.Size()-from || g.Columns[k].FilePath != "" {
				return nil, fmt.Errorf("column %q of row group %d is outside of the file", leaf.name, i)
			}
			c := *leaf
			c.r, c.codec = io.NewSectionReader(r, from, m.TotalCompressedSize), m.Codec
			all = append(all, &c)
		}
	}
	return all, nil
}
