package corpus

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/klauspost/compress/zstd"

	"mm-abi.org/mm/internal/fsx"
)

// spool is a compressed file of documents in the order of their numbers.
type spool struct {
	dir  *fsx.Dir
	file *fsx.File
	z    *zstd.Encoder
	w    *bufio.Writer
	n    uint64
}

// spoolName is the file of a spool.
const spoolName = "spool"

func newSpool(dir *fsx.Dir) (*spool, error) {
	f, err := dir.Create(spoolName, 0o600)
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &spool{dir: dir, file: f, z: z, w: bufio.NewWriterSize(z, blockSize)}, nil
}

// entry is a document of a spool.
type entry struct {
	number uint64
	source int
	hash   [sha256.Size]byte
	line   []byte // valid until the next
}

// add appends a document and returns its number.
func (s *spool) add(source int, d *document) (uint64, error) {
	var head [8]byte
	binary.LittleEndian.PutUint32(head[:], uint32(source))
	binary.LittleEndian.PutUint32(head[4:], uint32(len(d.line)))
	_, err := s.w.Write(head[:])
	if err == nil {
		_, err = s.w.Write(d.hash[:])
	}
	if err == nil {
		_, err = s.w.Write(d.line)
	}
	s.n++
	return s.n - 1, err
}

func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return errors.Join(s.w.Flush(), s.z.Close(), f.Close())
}

// entries yields the documents.
func (s *spool) entries(ctx context.Context) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		f, err := s.dir.Root().Open(spoolName)
		if err != nil {
			yield(entry{}, err)
			return
		}
		defer f.Close()
		z, err := zstd.NewReader(fsx.Reader{Context: ctx, R: f}, zstd.WithDecoderConcurrency(1))
		if err != nil {
			yield(entry{}, err)
			return
		}
		defer z.Close()
		r := bufio.NewReaderSize(z, blockSize)
		var e entry
		for e.number = 0; e.number < s.n; e.number++ {
			if err := e.read(r); err != nil {
				yield(entry{}, fmt.Errorf("temporary file of documents: %w", err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (e *entry) read(r io.Reader) error {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	e.source = int(binary.LittleEndian.Uint32(head[:]))
	if _, err := io.ReadFull(r, e.hash[:]); err != nil {
		return err
	}
	n := int(binary.LittleEndian.Uint32(head[4:]))
	if cap(e.line) < n {
		e.line = make([]byte, n)
	}
	e.line = e.line[:n]
	_, err := io.ReadFull(r, e.line)
	return err
}
