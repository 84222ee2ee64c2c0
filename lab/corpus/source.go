package corpus

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train"
)

// Limits of sources: a row in bytes, the window of a zstd frame, and a block,
// the rows that a worker gets at a time.
const (
	maxRow    = 16 << 20
	maxWindow = 128 << 20
	blockSize = 1 << 20
)

// fault is a fault of a row or of a source.
type fault struct {
	code   diag.Code
	row    int64 // from 1; 0: the whole file
	detail string
	hint   string
}

// Error returns the detail.
func (f *fault) Error() string { return f.detail }

func faultf(code diag.Code, format string, args ...any) *fault {
	return &fault{code: code, detail: fmt.Sprintf(format, args...)}
}

// Objects opens the objects of buckets that sources name by address.
type Objects interface {
	// Open reads an object from its beginning to its end.
	Open(ctx context.Context, address string) (io.ReadCloser, error)
}

// file is an open source. Its digest is computed while it is read.
type file struct {
	io.Closer
	at   *os.File // nil: an object, which is read once in order
	size int64    // of at
	hash hash.Hash
	raw  io.Reader // of the file, hashed
}

// newFile returns a source that r reads.
func newFile(ctx context.Context, r io.Reader, c io.Closer) *file {
	h := sha256.New()
	return &file{Closer: c, hash: h, raw: io.TeeReader(fsx.Reader{Context: ctx, R: r}, h)}
}

// openSource opens a source of a manifest.
func openSource(ctx context.Context, opt Options, s *Source) (*file, error) {
	if train.IsAddress(s.Path) {
		return openObject(ctx, opt, s)
	}
	f, err := fsx.OpenPlain(opt.Dir, s.Path)
	if err != nil {
		var at *os.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return nil, faultf(diag.SourceFile, "%s: %v", s.Path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fsx.ErrIrregular
	}
	if err != nil {
		return nil, errors.Join(faultf(diag.SourceFile, "%s: %v", s.Path, err), f.Close())
	}
	out := newFile(ctx, f, f)
	out.at, out.size = f, info.Size()
	return out, nil
}

// openObject opens an object. One of Parquet, which is not read in order, is first
// copied to a temporary file.
func openObject(ctx context.Context, opt Options, s *Source) (*file, error) {
	if opt.Objects == nil {
		return nil, faultf(diag.SourceFile, "%s: got the address of a bucket, want a path", s.Path)
	}
	r, err := opt.Objects.Open(ctx, s.Path)
	if err != nil {
		return nil, err
	}
	if s.Format != Parquet || opt.work == nil {
		return newFile(ctx, r, r), nil
	}
	defer r.Close()
	to, err := opt.work.CreateTemp(".", "object-", 0o600)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(to, fsx.Reader{Context: ctx, R: r})
	if err = errors.Join(err, to.Close()); err != nil {
		return nil, errors.Join(err, opt.work.Remove(to.Name()))
	}
	f, err := opt.work.Root().Open(to.Name())
	if err != nil {
		return nil, errors.Join(err, opt.work.Remove(to.Name()))
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close(), opt.work.Remove(to.Name()))
	}
	out := newFile(ctx, f, closer(func() error { return errors.Join(f.Close(), opt.work.Remove(to.Name())) }))
	out.at, out.size = f, info.Size()
	return out, nil
}

// closer is a function as an io.Closer.
type closer func() error

// Close implements io.Closer.
func (c closer) Close() error { return c() }

// check reads the rest of the file and compares its digest.
func (f *file) check(want string) error {
	if _, err := io.Copy(io.Discard, f.raw); err != nil {
		return err
	}
	if got := hex.EncodeToString(f.hash.Sum(nil)); got != want {
		return &fault{code: diag.SourceDigest, detail: "got " + got + ", want " + want}
	}
	return nil
}

// content returns the decompressed content of a source.
func content(r io.Reader, compression string) (io.ReadCloser, error) {
	switch compression {
	case Gzip:
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, faultf(diag.SourceFile, "gzip: %v", err)
		}
		return z, nil
	case Zstd:
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, faultf(diag.SourceFile, "zstd: %v", err)
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(r), nil
}

// block is rows of a source that follow each other.
type block struct {
	source int
	first  int64            // number of the first row, from 1
	data   []byte           // rows, separated, if rows is nil
	rows   []map[string]any // rows of Parquet
	long   bool             // the row is too long; it is not in data
}

// splitter reads rows that end with a separator, in blocks.
type splitter struct {
	r         io.Reader
	separator []byte
	row       int64
	rest      []byte // begins a row
	end       bool
}

// next returns the next block, or io.EOF.
func (s *splitter) next() (block, error) {
	buf := make([]byte, 0, blockSize+len(s.rest))
	buf = append(buf, s.rest...)
	s.rest = nil
	from := 0 // where the separator may begin
	for {
		if !s.end {
			n, err := s.fill(buf[len(buf):cap(buf)])
			buf = buf[:len(buf)+n]
			if err != nil {
				return block{}, err
			}
		}
		if s.end {
			return s.last(buf)
		}
		if at := bytes.LastIndex(buf[from:], s.separator); at >= 0 {
			cut := from + at + len(s.separator)
			s.rest = bytes.Clone(buf[cut:])
			return s.cut(buf[:cut]), nil
		}
		if len(buf) > maxRow+len(s.separator) {
			return s.long(buf)
		}
		from = max(len(buf)-len(s.separator)+1, 0)
		larger := make([]byte, len(buf), min(2*cap(buf), maxRow+2*len(s.separator)+1))
		copy(larger, buf)
		buf = larger
	}
}

// fill reads until p is full or the input ends. A decompressor's
// io.ErrUnexpectedEOF is an error, not the end.
func (s *splitter) fill(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, err = s.r.Read(p[n:])
		n += k
	}
	if err == io.EOF {
		s.end, err = true, nil
	}
	return n, err
}

// cut returns a block of whole rows.
func (s *splitter) cut(rows []byte) block {
	b := block{first: s.row + 1, data: rows}
	s.row += int64(bytes.Count(rows, s.separator))
	return b
}

// last returns the block at the end of the input.
func (s *splitter) last(buf []byte) (block, error) {
	if len(buf) == 0 {
		return block{}, io.EOF
	}
	b := s.cut(buf)
	if !bytes.HasSuffix(buf, s.separator) {
		s.row++
	}
	return b, nil
}

// long skips a row that is too long.
func (s *splitter) long(buf []byte) (block, error) {
	s.row++
	b := block{first: s.row, long: true}
	for {
		if at := bytes.Index(buf, s.separator); at >= 0 {
			s.rest = bytes.Clone(buf[at+len(s.separator):])
			return b, nil
		}
		if s.end {
			return b, nil
		}
		kept := copy(buf, buf[max(len(buf)-len(s.separator)+1, 0):])
		n, err := s.fill(buf[kept : kept+blockSize])
		buf = buf[:kept+n]
		if err != nil {
			return block{}, err
		}
	}
}

// CheckSources compares the digests of the files of all sources, which are read as
// by [Build].
func (m *Manifest) CheckSources(ctx context.Context, opt Options) (list diag.List, err error) {
	c := &collector{m: m}
	for i := range m.Sources {
		s := &m.Sources[i]
		f, err := openSource(ctx, opt, s)
		if err == nil {
			err = errors.Join(f.check(s.SHA256), f.Close())
		}
		var wrong *fault
		if errors.As(err, &wrong) {
			c.fault(i, *wrong)
		} else if err != nil {
			return nil, err
		}
	}
	return c.list, nil
}
