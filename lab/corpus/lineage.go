package corpus

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"slices"
	"strconv"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/corpus/pii"
	"mm-abi.org/mm/lab/judge"
)

// LineageFile is the name of the lineage in the folder of a data set.
const LineageFile = "lineage.json"

// maxLineage bounds the size of a lineage in bytes.
const maxLineage = 16 << 20

// pipeline changes if the same manifest and sources yield other bytes.
const pipeline = "mm data 1"

// Lineage records where a data set is from.
type Lineage struct {
	Pipeline string `json:"pipeline"`
	// Digest is the SHA-256 of the pipeline and the manifest, which has the
	// digests of the sources.
	Digest      string   `json:"digest"`
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Cite        string   `json:"cite,omitempty"`
	License     string   `json:"license"` // of all sources
	Manifest    string   `json:"manifest_sha256"`
	Format      string   `json:"format"` // jsonl, or chat for messages
	Keys        []string `json:"keys"`
	Sources     []Origin `json:"sources"`
	Dedup       *Dupes   `json:"dedup,omitempty"`
	PII         string   `json:"pii,omitempty"` // the action
	Splits      Splits   `json:"splits"`
	Files       []Split  `json:"files"`

	// Unchanged reports that the data set existed.
	Unchanged bool `json:"-"`
}

// Origin is a source with the counts of its rows.
type Origin struct {
	ID       string             `json:"id"`
	Path     string             `json:"path"`
	Origin   string             `json:"origin,omitempty"`
	SHA256   string             `json:"sha256"`
	License  string             `json:"license"`
	Class    judge.Class        `json:"class"`
	Decision string             `json:"decision,omitempty"`
	Where    string             `json:"where,omitempty"`
	Weight   float64            `json:"weight"`
	Counts   Counts             `json:"counts"`
	PII      map[pii.Kind]int64 `json:"pii,omitempty"` // findings
}

// Dupes reports the search for similar documents.
type Dupes struct {
	Threshold  float64 `json:"threshold"`
	Shingle    int     `json:"shingle"`
	Candidates int64   `json:"candidates"` // pairs with an equal key
	Similar    int64   `json:"similar"`    // pairs of these above the threshold
}

// Split is a file of the data set.
type Split struct {
	Split     string `json:"split"`
	File      string `json:"file"`
	SHA256    string `json:"sha256"`
	Bytes     int64  `json:"bytes"`
	Documents int64  `json:"documents"`
}

// LineageDigest returns the digest of the data set that the manifest describes.
func (m *Manifest) LineageDigest() string {
	sum := sha256.Sum256([]byte(pipeline + "\n" + m.Digest()))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// output is an open file of a split.
type output struct {
	Split
	file *fsx.File
	hash hash.Hash
	w    *bufio.Writer
}

func (o *output) write(line []byte) error {
	_, err := o.w.Write(line)
	if err == nil {
		err = o.w.WriteByte('\n')
	}
	o.Bytes += int64(len(line)) + 1
	o.Documents++
	return err
}

func (o *output) close() error {
	err := errors.Join(o.w.Flush(), o.file.Sync(), o.file.Close())
	o.SHA256 = hex.EncodeToString(o.hash.Sum(nil))
	return err
}

// write writes the files of the splits.
func (c *collector) write(ctx context.Context) (*Lineage, error) {
	var outs []*output
	for _, name := range []string{Train, HeldOut, Test} {
		f, err := c.dir.Create("out/"+name+".jsonl", 0o644)
		if err != nil {
			return nil, errors.Join(err, closeAll(outs))
		}
		h := sha256.New()
		outs = append(outs, &output{Split: Split{Split: name, File: name + ".jsonl"}, file: f, hash: h, w: bufio.NewWriterSize(io.MultiWriter(f, h), blockSize)})
	}
	err := c.writeDocuments(ctx, outs)
	if err = errors.Join(err, closeAll(outs)); err != nil {
		return nil, err
	}
	if outs[0].Documents == 0 {
		var list diag.List
		list.Add(diag.DataEmpty, c.m.pos(""), c.summary(), "")
		return nil, list.Err()
	}
	return c.lineage(outs), nil
}

func closeAll(outs []*output) (err error) {
	for _, o := range outs {
		err = errors.Join(err, o.close())
	}
	return err
}

func (c *collector) writeDocuments(ctx context.Context, outs []*output) error {
	for e, err := range c.kept(ctx) {
		if err != nil {
			return err
		}
		split, n := c.m.Splits.split(e.hash[:]), 1
		if split == Train {
			n = copies(c.m.Sources[e.source].Weight, e.hash[:], c.m.Splits.Seed)
		}
		c.counts[e.source].Kept++
		at := slices.IndexFunc(outs, func(o *output) bool { return o.Split.Split == split })
		for range n {
			if err := outs[at].write(e.line); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *collector) lineage(outs []*output) *Lineage {
	m := c.m
	l := &Lineage{
		Pipeline: pipeline, Digest: m.LineageDigest(), Name: m.Name, Description: m.Description, Cite: m.Cite,
		License: m.License(), Manifest: m.Digest(), Format: JSONL, Splits: m.Splits,
	}
	for _, s := range m.Sources {
		l.Keys = append(l.Keys, s.keys()...)
	}
	slices.Sort(l.Keys)
	l.Keys = slices.Compact(l.Keys)
	if slices.Contains(l.Keys, messagesKey) {
		l.Format = "chat"
	}
	if m.PII != nil {
		l.PII = m.PII.Action
	}
	for i, s := range m.Sources {
		o := Origin{
			ID: s.ID, Path: s.Path, Origin: s.Origin, SHA256: s.SHA256, License: s.License, Class: judge.Classify(s.License).Class,
			Decision: s.Decision, Where: s.Where, Weight: s.Weight, Counts: c.counts[i], PII: c.found[i],
		}
		l.Sources = append(l.Sources, o)
	}
	if n := m.Dedup.Near; n != nil {
		l.Dedup = &Dupes{n.Threshold, n.Shingle, c.pairs, c.similar}
	}
	for _, o := range outs {
		if o.Documents > 0 {
			l.Files = append(l.Files, o.Split)
		} else {
			c.dir.Remove("out/" + o.File) // an empty file would be a data set without documents
		}
	}
	return l
}

// License returns the conjunction of the licenses of all sources.
func (m *Manifest) License() string {
	var all []string
	for _, s := range m.Sources {
		if !slices.Contains(all, s.License) {
			all = append(all, s.License)
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	slices.Sort(all)
	for i, text := range all {
		if len(judge.Classify(text).Licence) > 1 {
			all[i] = "(" + text + ")"
		}
	}
	out := all[0]
	for _, text := range all[1:] {
		out += " AND " + text
	}
	return out
}

// OpenLineage reads the lineage in the folder of a data set.
func OpenLineage(dir string) (*Lineage, error) {
	file := filepath.Join(dir, LineageFile)
	data, err := fsx.ReadFile(file, maxLineage)
	if err != nil {
		return nil, err
	}
	var l Lineage
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, oneFault(diag.DataChanged, file, err.Error())
	}
	if l.Digest == "" || len(l.Files) == 0 {
		return nil, oneFault(diag.DataChanged, file, "missing digest or files")
	}
	return &l, nil
}

// Verify compares the files of the data set in dir with the lineage.
func (l *Lineage) Verify(dir string) error {
	var list diag.List
	for _, s := range l.Files {
		at := diag.Pos{File: filepath.Join(dir, filepath.Base(s.File))}
		size, digest, err := fsx.Digest(at.File)
		switch {
		case err != nil:
			list.Add(diag.DataChanged, at, err.Error(), "")
		case size != s.Bytes || digest != "sha256:"+s.SHA256:
			list.Add(diag.DataChanged, at, fmt.Sprintf("got %d bytes, %s, want %d, sha256:%s", size, digest, s.Bytes, s.SHA256), "")
		}
	}
	return list.Err()
}

// Outcome is a data set in a folder as mm data build prints it.
type Outcome struct {
	*Lineage
	Dir string
}

// MarshalJSON adds whether the data set existed to the lineage.
func (o Outcome) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		*Lineage
		Unchanged bool `json:"unchanged"`
	}{o.Lineage, o.Unchanged})
}

// Write writes the counts of each source, and the files.
func (o Outcome) Write(to io.Writer) error {
	var rows [][]string
	for _, s := range o.Sources {
		row := []string{s.ID}
		n := s.Counts
		for _, v := range []int64{n.Rows, n.Faulty, n.Filtered, n.Length, n.PII, n.Duplicate, n.Near, n.Kept} {
			row = append(row, strconv.FormatInt(v, 10))
		}
		rows = append(rows, row)
	}
	if err := diag.Table(to, []string{"SOURCE", "ROWS", "FAULTY", "FILTERED", "LENGTH", "PII", "EQUAL", "SIMILAR", "KEPT"}, rows); err != nil {
		return err
	}
	for _, f := range o.Files {
		if err := diag.Line(to, "%s: %s, %s", filepath.Join(o.Dir, f.File), diag.Count(int(f.Documents), "document"), fsx.FormatSize(f.Bytes)); err != nil {
			return err
		}
	}
	note := ""
	if o.Unchanged {
		note = " (unchanged)"
	}
	return diag.Line(to, "license %s, lineage %s%s", o.License, o.Digest, note)
}
