package corpus

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/corpus/pii"
)

// collector takes the documents in order, in one goroutine.
type collector struct {
	m       *Manifest
	dir     *fsx.Dir
	readers []*reader
	spool   *spool
	recent  recent
	exact   *Sorter // hash, number
	bands   *Sorter // key, number
	drops   *Sorter // number, reason
	pairs   int64   // candidates
	similar int64   // of these

	counts []Counts
	seen   [][]bool
	found  []map[pii.Kind]int64
	list   diag.List
}

// Reasons to drop a document, in a record of drops.
const (
	dropEqual = iota
	dropSimilar
)

func newCollector(m *Manifest, dir *fsx.Dir) (*collector, error) {
	s, err := newSpool(dir)
	if err != nil {
		return nil, err
	}
	n := len(m.Sources)
	return &collector{
		m: m, dir: dir, spool: s,
		exact: NewSorter(dir, "exact", idBytes+8), bands: NewSorter(dir, "bands", 16), drops: NewSorter(dir, "drops", 9),
		counts: make([]Counts, n), seen: make([][]bool, n), found: make([]map[pii.Kind]int64, n),
	}, nil
}

// recent is a table of fixed size of the hashes of documents, which finds most
// duplicates before they reach the disk.
type recent [][idBytes]byte

const recentSize = 1 << 22

// has reports whether the hash is in the table, and adds it.
func (t *recent) has(hash []byte) bool {
	if *t == nil {
		*t = make(recent, recentSize)
	}
	at := &(*t)[binary.LittleEndian.Uint64(hash[8:])%recentSize]
	id := [idBytes]byte(hash[:idBytes])
	if *at == id {
		return true
	}
	*at = id
	return false
}

// add adds the outcome of a block.
func (c *collector) add(source int, o *outcome) error {
	for _, f := range o.faults {
		c.fault(source, f)
	}
	c.counts[source].add(o.counts)
	if c.seen[source] == nil {
		c.seen[source], c.found[source] = make([]bool, len(o.seen)), map[pii.Kind]int64{}
	}
	for i, ok := range o.seen {
		c.seen[source][i] = c.seen[source][i] || ok
	}
	for k, n := range o.found {
		c.found[source][k] += n
	}
	for i := range o.docs {
		if err := c.document(source, &o.docs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) document(source int, d *document) error {
	exact := *c.m.Dedup.Exact
	if exact && c.recent.has(d.hash[:]) {
		c.counts[source].Duplicate++
		return nil
	}
	n, err := c.spool.add(source, d)
	if err != nil {
		return err
	}
	if exact {
		if err := c.exact.Add(binary.BigEndian.AppendUint64(append([]byte(nil), d.hash[:idBytes]...), n)); err != nil {
			return err
		}
	}
	var record [16]byte
	for _, k := range d.keys {
		binary.BigEndian.PutUint64(record[:], k)
		binary.BigEndian.PutUint64(record[8:], n)
		if err := c.bands.Add(record[:]); err != nil {
			return err
		}
	}
	return nil
}

// fault reports a fault unless faulty rows are skipped or there are enough.
func (c *collector) fault(source int, f fault) {
	s := c.m.Sources[source]
	if f.row == 0 {
		key := "path"
		if f.code == diag.SourceDigest {
			key = "sha256"
		}
		c.list.Add(f.code, c.m.pos("/sources/%d/%s", source, key), fmt.Sprintf("source %q: %s", s.ID, f.detail), f.hint)
		return
	}
	if c.m.Faults == Skip || len(c.list) >= maxFaults {
		return
	}
	pos := diag.Pos{File: s.Path, Line: int(f.row)}
	detail := f.detail
	if s.Format != JSONL {
		pos, detail = diag.Pos{File: s.Path}, fmt.Sprintf("row %d: %s", f.row, detail)
	}
	c.list.Add(f.code, pos, detail, f.hint)
}

// end reports columns that no row of a source has.
func (c *collector) end(source int) error {
	for i, name := range c.readers[source].columns {
		if c.counts[source].Rows > c.counts[source].Faulty && !c.seen[source][i] {
			c.list.Add(diag.SourceColumn, c.m.pos("/sources/%d", source), fmt.Sprintf("source %q: no row has a value of %q", c.m.Sources[source].ID, name), "")
		}
	}
	return nil
}

// duplicates finds the documents to drop.
func (c *collector) duplicates(ctx context.Context) error {
	last := ""
	for r, err := range c.exact.Sorted(ctx) {
		if err != nil {
			return err
		}
		hash := string(r[:idBytes])
		if hash == last {
			if err := c.drop(binary.BigEndian.Uint64(r[idBytes:]), dropEqual); err != nil {
				return err
			}
		}
		last = hash
	}
	if c.m.Dedup.Near != nil {
		return c.near(ctx)
	}
	return nil
}

func (c *collector) drop(number uint64, reason byte) error {
	return c.drops.Add(append(binary.BigEndian.AppendUint64(nil, number), reason))
}

// kept yields the documents that remain.
func (c *collector) kept(ctx context.Context) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		next, stop := iter.Pull2(c.drops.Sorted(ctx))
		defer stop()
		record, err, more := next()
		for e, failed := range c.spool.entries(ctx) {
			if failed == nil && err != nil {
				failed = err
			}
			if failed != nil {
				yield(entry{}, failed)
				return
			}
			if !more || binary.BigEndian.Uint64(record) != e.number {
				if !yield(e, nil) {
					return
				}
				continue
			}
			if record[8] == dropEqual {
				c.counts[e.source].Duplicate++
			} else {
				c.counts[e.source].Near++
			}
			for more && err == nil && binary.BigEndian.Uint64(record) == e.number {
				record, err, more = next()
			}
		}
	}
}

// summary returns the counts of all sources in words.
func (c *collector) summary() string {
	var t Counts
	for _, n := range c.counts {
		t.add(n)
	}
	return strings.TrimSpace(fmt.Sprintf("%d rows: %d filtered, %d too short or long, %d with personal data, %d equal, %d similar, %d skipped", t.Rows, t.Filtered, t.Length, t.PII, t.Duplicate, t.Near, t.Faulty))
}
