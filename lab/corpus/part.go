package corpus

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/corpus/pii"
	"mm-abi.org/mm/train"
)

// Part is a part of the sources of a manifest: of N sources, those from
// Index*N/Count until (Index+1)*N/Count.
type Part struct{ Index, Count int }

// AllSources is the part of all sources.
var AllSources = Part{0, 1}

// The limits of parts.
const (
	maxParts    = 4096
	maxPartLine = 256 << 20 // bytes of a block: a row of 16 MiB, escaped
	maxPartHead = 64 << 20  // bytes that a decoder takes for its window
)

// ParsePart parses I/N, with I from 1.
func ParsePart(s string) (Part, error) {
	a, b, ok := strings.Cut(s, "/")
	i, err := strconv.Atoi(a)
	n, err2 := strconv.Atoi(b)
	if !ok || err != nil || err2 != nil || i < 1 || i > n || n > maxParts {
		return Part{}, fmt.Errorf("part %q: want I/N with I from 1 to N, at most %d", s, maxParts)
	}
	return Part{i - 1, n}, nil
}

// sources returns the sources of the part: from the first until end.
func (p Part) sources(n int) (from, end int) {
	return p.Index * n / p.Count, (p.Index + 1) * n / p.Count
}

// Sources returns the sources of the part.
func (p Part) Sources(m *Manifest) []Source {
	from, end := p.sources(len(m.Sources))
	return m.Sources[from:end]
}

// partHead is the first line of a part.
type partHead struct {
	Version  int    `json:"version"`
	Manifest string `json:"manifest"` // LineageDigest
	From     int    `json:"from"`
	End      int    `json:"end"`
}

const partVersion = 1

// partBlock is a further line of a part: the outcome of a block, or the end of a
// source.
type partBlock struct {
	Source int                `json:"source"`
	End    bool               `json:"end,omitempty"`
	Counts Counts             `json:"counts"`
	Seen   []bool             `json:"seen,omitempty"`
	Found  map[pii.Kind]int64 `json:"found,omitempty"`
	Faults []partFault        `json:"faults,omitempty"`
	Docs   []partDocument     `json:"docs,omitempty"`
}

type partFault struct {
	Code   diag.Code `json:"code"`
	Row    int64     `json:"row"`
	Detail string    `json:"detail"`
	Hint   string    `json:"hint,omitempty"`
}

type partDocument struct {
	Hash string          `json:"hash"`
	Keys []uint64        `json:"keys,omitempty"`
	Line json.RawMessage `json:"line"`
}

// WritePart reads, filters and scrubs the sources of a part and writes their
// documents to the file opt.Out. Faults of the sources are in the part.
func WritePart(ctx context.Context, m *Manifest, p Part, opt Options) error {
	if opt.Threads <= 0 {
		opt.Threads = runtime.GOMAXPROCS(0)
	}
	w, err := newWorker(m)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(p.Sources(m), func(s Source) bool { return s.Format == Parquet && train.IsAddress(s.Path) }) {
		return writePart(ctx, w, p, opt)
	}
	above, err := fsx.Create(filepath.Dir(filepath.Clean(opt.Out)), 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer above.Close()
	_, err = inFolder(ctx, above, func(work *fsx.Dir) (*Lineage, error) {
		opt.work = work
		return nil, writePart(ctx, w, p, opt)
	})
	return err
}

func writePart(ctx context.Context, w *worker, p Part, opt Options) error {
	m := w.m
	return fsx.Replace(opt.Out, 0o644, func(out io.Writer) error {
		z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
		if err != nil {
			return err
		}
		to := &partWriter{e: json.NewEncoder(z)}
		to.e.SetEscapeHTML(false)
		from, end := p.sources(len(m.Sources))
		err = to.e.Encode(partHead{partVersion, m.LineageDigest(), from, end})
		if err == nil {
			err = scan(ctx, w, p, opt, to)
		}
		return errors.Join(err, to.err, z.Close())
	})
}

// partWriter writes outcomes to a part.
type partWriter struct {
	e   *json.Encoder
	err error // of fault
}

func (p *partWriter) add(source int, o *outcome) error {
	b := partBlock{Source: source, Counts: o.counts, Seen: o.seen, Found: o.found}
	for _, f := range o.faults {
		b.Faults = append(b.Faults, partFault{f.code, f.row, f.detail, f.hint})
	}
	for _, d := range o.docs {
		b.Docs = append(b.Docs, partDocument{hex.EncodeToString(d.hash[:]), d.keys, d.line})
	}
	return p.e.Encode(b)
}

// fault writes a fault of a whole file, which ends its source.
func (p *partWriter) fault(source int, f fault) {
	p.err = errors.Join(p.err, p.e.Encode(partBlock{Source: source, End: true, Faults: []partFault{{f.code, f.row, f.detail, f.hint}}}))
}

func (p *partWriter) end(source int) error { return p.e.Encode(partBlock{Source: source, End: true}) }

// joinParts adds the outcomes of parts to a sink, as scan adds those of the
// sources.
func joinParts(ctx context.Context, w *worker, files []string, to sink) error {
	next := 0
	for _, file := range files {
		f, err := fsx.OpenRegular(file)
		if err != nil {
			return err
		}
		next, err = joinPart(fsx.Reader{Context: ctx, R: f}, w, next, to)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("part %s: %w", file, err)
		}
	}
	if n := len(w.m.Sources); next != n {
		return fmt.Errorf("parts: got %d sources, want the %d of the manifest", next, n)
	}
	return nil
}

// joinPart adds the outcomes of an untrusted part that begins with source first.
// It returns the source after its last.
func joinPart(r io.Reader, w *worker, first int, to sink) (int, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxPartHead))
	if err != nil {
		return 0, err
	}
	defer z.Close()
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, maxPartLine)
	if !lines.Scan() {
		return 0, errors.Join(errors.New("no first line"), lines.Err())
	}
	var head partHead
	if err := strictly(lines.Bytes(), &head); err != nil {
		return 0, err
	}
	switch {
	case head.Version != partVersion:
		return 0, fmt.Errorf("version %d, want %d", head.Version, partVersion)
	case head.Manifest != w.m.LineageDigest():
		return 0, fmt.Errorf("of the manifest %.19s…, want %.19s…", head.Manifest, w.m.LineageDigest())
	case head.From != first || head.End < first || head.End > len(w.m.Sources):
		return 0, fmt.Errorf("sources %d to %d, want those from %d of %d", head.From, head.End, first, len(w.m.Sources))
	}
	at := head.From
	for lines.Scan() {
		var b partBlock
		if err := strictly(lines.Bytes(), &b); err != nil {
			return 0, err
		}
		if b.Source != at || at >= head.End {
			return 0, fmt.Errorf("block of source %d, want %d", b.Source, at)
		}
		if err := b.join(w, to); err != nil {
			return 0, err
		}
		if b.End {
			at++
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	if at != head.End {
		return 0, fmt.Errorf("ends in source %d, want %d", at, head.End)
	}
	return at, nil
}

// join adds a block to a sink.
func (b *partBlock) join(w *worker, to sink) error {
	o := &outcome{counts: b.Counts, seen: b.Seen, found: b.Found}
	for _, f := range b.Faults {
		one := fault{f.Code, f.Row, f.Detail, f.Hint}
		if f.Code.Summary() == string(f.Code) || f.Row < 0 {
			return fmt.Errorf("source %d: unknown fault %q", b.Source, f.Code)
		}
		if b.End {
			to.fault(b.Source, one)
			return nil
		}
		o.faults = append(o.faults, one)
	}
	if b.End {
		return to.end(b.Source)
	}
	if want := len(w.readers[b.Source].columns); len(b.Seen) != want {
		return fmt.Errorf("source %d: got %d columns, want %d", b.Source, len(b.Seen), want)
	}
	for i, d := range b.Docs {
		one := document{keys: d.Keys, line: d.Line}
		n, err := hex.Decode(one.hash[:], []byte(d.Hash[:min(len(d.Hash), 2*sha256.Size)]))
		if err != nil || n != sha256.Size || len(d.Hash) != 2*sha256.Size {
			return fmt.Errorf("source %d, document %d: invalid hash %.80q", b.Source, i, d.Hash)
		}
		keys := 0
		if w.hasher != nil {
			keys = MinHashKeys
		}
		if len(d.Keys) != keys || len(d.Line) == 0 || bytes.ContainsAny(d.Line, "\n\r") || len(d.Line) > maxPartLine {
			return fmt.Errorf("source %d, document %d: got %d keys and %d bytes, want %d keys", b.Source, i, len(d.Keys), len(d.Line), keys)
		}
		o.docs = append(o.docs, one)
	}
	return to.add(b.Source, o)
}

// strictly decodes one JSON value without unknown keys.
func strictly(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("trailing data")
	}
	return nil
}
