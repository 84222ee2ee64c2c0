package corpus

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"mm-abi.org/mm/internal/fsx"
)

// Limits of a [Sorter]: bytes of records in memory, runs that are merged at a
// time, and the buffer of each.
const (
	maxRun    = 16 << 20
	maxMerged = 64
	runBuffer = 64 << 10
)

// Sorter sorts records of equal size in bytes, in files, so that its memory
// does not depend on their number: 16 MiB of records, or 4 MiB of buffers when
// it merges.
type Sorter struct {
	dir   *fsx.Dir
	name  string
	width int
	limit int

	buf   []byte
	runs  []string
	files int
	n     int64
}

// NewSorter returns an empty sorter with files in dir whose names begin with
// name.
func NewSorter(dir *fsx.Dir, name string, width int) *Sorter {
	return &Sorter{dir: dir, name: name, width: width, limit: maxRun / width * width}
}

// Len returns the number of records.
func (s *Sorter) Len() int64 { return s.n }

// Add adds a record.
func (s *Sorter) Add(record []byte) error {
	if len(record) != s.width {
		panic(fmt.Sprintf("minhash: record of %d bytes, want %d", len(record), s.width))
	}
	s.buf = append(s.buf, record...)
	s.n++
	if len(s.buf) >= s.limit {
		return s.spill()
	}
	return nil
}

// spill sorts the records in memory into a new run.
func (s *Sorter) spill() error {
	sorted := s.sortBuffer()
	return s.write(func(w io.Writer) error {
		for r := range sorted {
			if _, err := w.Write(r); err != nil {
				return err
			}
		}
		s.buf = s.buf[:0]
		return nil
	})
}

// sortBuffer yields the records in memory in order. It compares their first eight bytes as
// numbers, and the rest of equal ones.
func (s *Sorter) sortBuffer() iter.Seq[[]byte] {
	type place struct {
		key uint64
		at  int
	}
	places := make([]place, 0, len(s.buf)/s.width)
	for at := 0; at < len(s.buf); at += s.width {
		var head [8]byte
		copy(head[:], s.buf[at:at+s.width])
		places = append(places, place{binary.BigEndian.Uint64(head[:]), at})
	}
	record := func(p place) []byte { return s.buf[p.at : p.at+s.width] }
	slices.SortFunc(places, func(a, b place) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		return bytes.Compare(record(a), record(b))
	})
	return func(yield func([]byte) bool) {
		for _, p := range places {
			if !yield(record(p)) {
				return
			}
		}
	}
}

// write writes a new run.
func (s *Sorter) write(fill func(io.Writer) error) error {
	name := fmt.Sprintf("%s-%d", s.name, s.files)
	s.files++
	f, err := s.dir.Create(name, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, runBuffer)
	err = fill(w)
	if err == nil {
		err = w.Flush()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	s.runs = append(s.runs, name)
	return nil
}

// Sorted yields the records in order and then removes the files. A record is
// valid until the next one. The sorter is empty afterwards.
func (s *Sorter) Sorted(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		defer func() { s.buf, s.n = nil, 0 }()
		if len(s.runs) == 0 {
			for r := range s.sortBuffer() {
				if !yield(r, nil) {
					return
				}
			}
			return
		}
		if err := s.reduce(ctx); err != nil {
			yield(nil, err)
			return
		}
		runs := s.runs
		s.runs = nil
		for r, err := range s.merge(ctx, runs) {
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// reduce spills the rest and merges runs until one merge is left.
func (s *Sorter) reduce(ctx context.Context) error {
	if len(s.buf) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.buf = nil
	for len(s.runs) > maxMerged {
		some := slices.Clone(s.runs[:maxMerged])
		s.runs = slices.Clone(s.runs[maxMerged:])
		err := s.write(func(w io.Writer) error {
			for r, err := range s.merge(ctx, some) {
				if err != nil {
					return err
				}
				if _, err := w.Write(r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// run is an open run with its least record.
type run struct {
	name   string
	file   io.Closer
	r      *bufio.Reader
	record []byte
}

func (r *run) next() error {
	_, err := io.ReadFull(r.r, r.record)
	return err
}

// merge yields the records of runs in order and removes their files.
func (s *Sorter) merge(ctx context.Context, names []string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var heap []*run
		defer func() {
			for _, r := range heap {
				r.file.Close()
			}
			for _, name := range names {
				s.dir.Remove(name) // the folder goes later if this fails
			}
		}()
		for _, name := range names {
			f, err := s.dir.Root().Open(name)
			if err != nil {
				yield(nil, err)
				return
			}
			r := &run{name, f, bufio.NewReaderSize(f, runBuffer), make([]byte, s.width)}
			heap = append(heap, r)
			if err := r.next(); err != nil {
				yield(nil, err)
				return
			}
		}
		for i := len(heap)/2 - 1; i >= 0; i-- {
			minhashSink(heap, i)
		}
		for n := 0; len(heap) > 0; n++ {
			if n%4096 == 0 && ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			if !yield(heap[0].record, nil) {
				return
			}
			switch err := heap[0].next(); {
			case errors.Is(err, io.EOF):
				heap[0].file.Close()
				heap[0] = heap[len(heap)-1]
				heap = heap[:len(heap)-1]
			case err != nil:
				yield(nil, err)
				return
			}
			minhashSink(heap, 0)
		}
	}
}

// minhashSink restores the order of the heap below i.
func minhashSink(heap []*run, i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(heap); c++ {
			if bytes.Compare(heap[c].record, heap[least].record) < 0 {
				least = c
			}
		}
		if least == i {
			return
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}
