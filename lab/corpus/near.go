package corpus

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// Limits of the search for similar documents: the documents with an equal key
// that are all compared with each other, and the documents with candidates.
const (
	maxBucket     = 64
	maxCandidates = 1 << 24
)

// near finds similar documents and drops all but the first of each cluster.
func (c *collector) near(ctx context.Context) error {
	numbers, err := c.candidates(ctx)
	if err != nil || len(numbers) == 0 {
		return err
	}
	if c.list = append(c.list, checkCandidates(len(numbers), c.m.pos("/dedup/near"))...); c.list.Failed() {
		return c.list.Err()
	}
	sets, err := c.shingles(ctx, numbers)
	if err != nil {
		return err
	}
	clusters, err := c.compare(ctx, sets)
	if err = errors.Join(err, sets.file.Close()); err != nil {
		return err
	}
	for _, n := range clusters.Dropped() {
		if err := c.drop(n, dropSimilar); err != nil {
			return err
		}
	}
	return nil
}

// checkCandidates refuses more documents than memory is planned for.
func checkCandidates(n int, pos diag.Pos) (list diag.List) {
	if n > maxCandidates {
		list.Add(diag.NearMany, pos, fmt.Sprintf("got more than %d documents", maxCandidates), "")
	}
	return list
}

// pairsName is the file of the pairs of documents with an equal key.
const pairsName = "candidates"

// candidates writes the pairs and returns the sorted numbers of their
// documents, at most one more than maxCandidates.
func (c *collector) candidates(ctx context.Context) ([]uint64, error) {
	pairs := NewSorter(c.dir, "pairs", 16)
	if err := c.pair(ctx, pairs); err != nil {
		return nil, err
	}
	f, err := c.dir.Create(pairsName, 0o600)
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(f, blockSize)
	numbers := NewSorter(c.dir, "numbers", 8)
	last := ""
	for r, err := range pairs.Sorted(ctx) {
		if err == nil && string(r) != last {
			c.pairs++
			last = string(r)
			_, err = w.Write(r)
			err = errors.Join(err, numbers.Add(r[:8]), numbers.Add(r[8:]))
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return nil, err
	}
	var out []uint64
	for r, err := range numbers.Sorted(ctx) {
		if err != nil {
			return nil, err
		}
		if n := binary.BigEndian.Uint64(r); len(out) == 0 || out[len(out)-1] != n {
			if out = append(out, n); len(out) > maxCandidates {
				break
			}
		}
	}
	return out, nil
}

// pair adds the pairs of documents with an equal key. In a large group, a
// document is compared with the first and with those before it.
func (c *collector) pair(ctx context.Context, pairs *Sorter) error {
	var key, first uint64
	var group []uint64
	var record [16]byte
	add := func(a, b uint64) error {
		binary.BigEndian.PutUint64(record[:], a)
		binary.BigEndian.PutUint64(record[8:], b)
		return pairs.Add(record[:])
	}
	for r, err := range c.bands.Sorted(ctx) {
		if err != nil {
			return err
		}
		k, n := binary.BigEndian.Uint64(r), binary.BigEndian.Uint64(r[8:])
		if len(group) == 0 || k != key {
			key, first, group = k, n, append(group[:0], n)
			continue
		}
		for _, m := range group {
			if err := add(m, n); err != nil {
				return err
			}
		}
		if group[0] != first {
			if err := add(first, n); err != nil {
				return err
			}
		}
		if group = append(group, n); len(group) > maxBucket {
			group = slices.Delete(group, 0, 1)
		}
	}
	return nil
}

// sets holds the shingles of documents in a file.
type sets struct {
	numbers []uint64
	ends    []int64 // of the sets, in bytes
	file    *os.File
}

const shinglesName = "shingles"

// shingles writes the shingles of the documents with the numbers.
func (c *collector) shingles(ctx context.Context, numbers []uint64) (*sets, error) {
	f, err := c.dir.Create(shinglesName, 0o600)
	if err != nil {
		return nil, err
	}
	s := &sets{numbers: numbers}
	err = c.writeShingles(ctx, s, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	s.file, err = c.dir.Root().Open(shinglesName)
	return s, err
}

func (c *collector) writeShingles(ctx context.Context, s *sets, f *fsx.File) error {
	w := bufio.NewWriterSize(f, blockSize)
	h := NewMinHasher(c.m.Dedup.Near.Shingle)
	var words, set []byte
	var end int64
	for e, err := range c.spool.entries(ctx) {
		if err != nil {
			return err
		}
		if len(s.ends) == len(s.numbers) {
			break
		}
		if e.number != s.numbers[len(s.ends)] {
			continue
		}
		doc, err := c.readers[e.source].reread(e.line)
		if err != nil {
			return err
		}
		words, set = normalize(words[:0], doc), set[:0]
		for _, x := range h.Shingles(words) {
			set = binary.LittleEndian.AppendUint64(set, x)
		}
		if _, err := w.Write(set); err != nil {
			return err
		}
		end += int64(len(set))
		s.ends = append(s.ends, end)
	}
	return w.Flush()
}

// reread returns the document of a line of the result.
func (r *reader) reread(line []byte) (map[string]any, error) {
	doc := map[string]any{}
	err := members(line, func(key, value []byte) error {
		name := string(key[1 : len(key)-1])
		if !slices.Contains(r.keys, name) {
			return nil
		}
		v, err := decodeValue(value)
		doc[name] = v
		return err
	})
	return doc, err
}

// read returns the shingles of a document.
func (s *sets) read(number uint64, into []uint64) ([]uint64, error) {
	i, ok := slices.BinarySearch(s.numbers, number)
	if !ok || i >= len(s.ends) {
		return nil, fmt.Errorf("document %d has no shingles", number)
	}
	from := int64(0)
	if i > 0 {
		from = s.ends[i-1]
	}
	raw := make([]byte, s.ends[i]-from)
	if _, err := s.file.ReadAt(raw, from); err != nil {
		return nil, err
	}
	into = into[:0]
	for at := 0; at < len(raw); at += 8 {
		into = append(into, binary.LittleEndian.Uint64(raw[at:]))
	}
	return into, nil
}

// compare joins the documents of pairs above the threshold.
func (c *collector) compare(ctx context.Context, s *sets) (*Clusters, error) {
	f, err := c.dir.Root().Open(pairsName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(fsx.Reader{Context: ctx, R: f}, blockSize)
	clusters := &Clusters{}
	var record [16]byte
	var one, other []uint64
	last := ^uint64(0)
	for {
		if _, err := io.ReadFull(r, record[:]); errors.Is(err, io.EOF) {
			return clusters, nil
		} else if err != nil {
			return nil, err
		}
		a, b := binary.BigEndian.Uint64(record[:]), binary.BigEndian.Uint64(record[8:])
		if a != last {
			if one, err = s.read(a, one); err != nil {
				return nil, err
			}
			last = a
		}
		if other, err = s.read(b, other); err != nil {
			return nil, err
		}
		if Jaccard(one, other) >= c.m.Dedup.Near.Threshold {
			c.similar++
			clusters.Join(a, b)
		}
	}
}
