package corpus

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/corpus/pii"
)

// job is a block and, when a worker is done, its outcome.
type job struct {
	block block
	out   *outcome
	done  chan struct{}
}

// sink takes the outcomes of the sources, in order.
type sink interface {
	add(source int, o *outcome) error
	fault(source int, f fault)
	end(source int) error // of a source without a fault of its file
}

// newWorker returns a worker for the sources of a manifest.
func newWorker(m *Manifest) (*worker, error) {
	w := &worker{m: m}
	if m.PII != nil {
		w.pii = pii.New(m.PII.Kinds, m.PII.Score)
	}
	if n := m.Dedup.Near; n != nil {
		w.hasher = NewMinHasher(n.Shingle)
	}
	for i := range m.Sources {
		r, err := newReader(m, &m.Sources[i])
		if err != nil {
			return nil, err
		}
		w.readers = append(w.readers, r)
	}
	return w, nil
}

// scan reads the sources of a part and adds their documents to a sink in order.
func scan(ctx context.Context, w *worker, p Part, opt Options, to sink) error {
	from, end := p.sources(len(w.m.Sources))
	for i := from; i < end; i++ {
		if err := scanSource(ctx, w, i, opt, to); err != nil {
			return err
		}
	}
	return nil
}

// scanSource runs the reader and the workers of one source; this goroutine
// collects.
func scanSource(ctx context.Context, w *worker, i int, opt Options, c sink) error {
	ctx, cancel := context.WithCancelCause(ctx)
	work, order := make(chan *job, opt.Threads), make(chan *job, 2*opt.Threads)
	var all sync.WaitGroup
	for range opt.Threads {
		all.Go(func() {
			for j := range work {
				j.out = w.process(j.block)
				j.block.data, j.block.rows = nil, nil
				close(j.done)
			}
		})
	}
	all.Go(func() {
		defer close(order)
		defer close(work)
		err := blocks(ctx, opt, w.m, i, w.readers[i], func(b block, read int64) error {
			j := &job{block: b, done: make(chan struct{})}
			select {
			case order <- j:
			case <-ctx.Done():
				return ctx.Err()
			}
			work <- j // workers take every job
			if opt.Progress != nil {
				opt.Progress(read, b.first)
			}
			return nil
		})
		if err != nil {
			cancel(err)
		}
	})
	var failed error
	for j := range order {
		<-j.done
		if failed == nil {
			if failed = c.add(i, j.out); failed != nil {
				cancel(failed)
			}
		}
	}
	all.Wait()
	err := context.Cause(ctx)
	cancel(nil)
	var f *fault
	if errors.As(err, &f) {
		c.fault(i, *f)
		return nil
	}
	if err == nil {
		err = c.end(i)
	}
	return err
}

// blocks calls emit for the blocks of a source, with the bytes of the file read
// so far, and checks its digest.
func blocks(ctx context.Context, opt Options, m *Manifest, i int, r *reader, emit func(block, int64) error) error {
	s := &m.Sources[i]
	f, err := openSource(ctx, opt, s)
	if err != nil {
		return err
	}
	defer f.Close()
	if s.Format == Parquet {
		return parquetBlocks(ctx, f, s, i, r, emit)
	}
	counted := &counter{r: f.raw}
	text, err := content(counted, s.Compression)
	if err != nil {
		return errors.Join(f.check(s.SHA256), err)
	}
	defer text.Close()
	separator := "\n"
	if s.Format == Text {
		separator = s.Separator
	}
	split := &splitter{r: text, separator: []byte(separator)}
	for {
		b, err := split.next()
		if errors.Is(err, io.EOF) {
			return f.check(s.SHA256)
		}
		if err != nil && ctx.Err() == nil && s.Compression != None {
			// A wrong digest explains a damaged stream.
			if wrong := f.check(s.SHA256); wrong != nil {
				return wrong
			}
			return faultf(diag.SourceFile, "%s: after row %d: %s", s.Compression, split.row, strings.TrimPrefix(err.Error(), "gzip: "))
		}
		if err != nil {
			return err
		}
		b.source = i
		if err := emit(b, counted.n); err != nil {
			return err
		}
	}
}

// counter counts the bytes read.
type counter struct {
	r io.Reader
	n int64
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
