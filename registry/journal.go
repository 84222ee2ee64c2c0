package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// The names of a store are index.json and one journal on top of it: a file to
// which changes are appended, so that a change costs the same however large
// the store is. index.json names its journal in an annotation. Without one (in
// a new store, one of an older mm, or if another tool wrote index.json) it is
// the journal with the highest number. A store opened without Options.Journal
// folds the journal into index.json with every change, so that index.json is
// always complete.
//
// - Readers read index.json, then its journal, and start over if index.json
// has changed by then. They take no lock.
//
// - Writers hold index.lock. A record counts once it is complete and synced;
// the next writer truncates what a crash left after the last complete one.
//
// - Folding writes index.json with all entries and the next journal's name, in
// one step; the old journal, now unused, is removed after that.

// record is one atomic change. Drops come first.
type record struct {
	Drop []entryName          `json:"drop,omitempty"`
	Set  []ocispec.Descriptor `json:"set,omitempty"` // each replaces the entries under its reference name
}

// entryName identifies an entry: by reference name, or by digest if it has
// none.
type entryName struct {
	Ref    string        `json:"ref,omitempty"`
	Digest digest.Digest `json:"digest,omitempty"`
}

func (r *record) empty() bool { return len(r.Drop) == 0 && len(r.Set) == 0 }

// apply changes idx, and returns the added and removed entries.
func (r *record) apply(idx *nameIndex) (added, gone []ocispec.Descriptor) {
	for _, e := range r.Drop {
		gone = append(gone, idx.drop(e.Ref, e.Digest)...)
	}
	for _, e := range r.Set {
		gone = append(gone, idx.drop(refName(e), e.Digest)...)
		idx.add(e)
		added = append(added, e)
	}
	return added, gone
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// line is the record as a line of the journal: checksum, JSON.
func (r *record) line() ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(data, castagnoli), data), nil
}

// parseRecord reads a line without its end.
func parseRecord(line []byte) (*record, error) {
	sum, data, ok := bytes.Cut(line, []byte(" "))
	if want, err := strconv.ParseUint(string(sum), 16, 32); !ok || len(sum) != 8 || err != nil || uint32(want) != crc32.Checksum(data, castagnoli) {
		return nil, errors.New("wrong checksum")
	}
	var r record
	if err := artifact.DecodeStrict(data, &r); err != nil {
		return nil, err
	}
	for _, e := range r.Set {
		if err := artifact.CheckDescriptor(e); err != nil {
			return nil, err
		}
	}
	return &r, nil
}

// parseJournal parses the complete records at the start of data and returns
// their size in bytes. A bad record before a good one is damage; one at the
// end was cut off.
func parseJournal(data []byte) (records []*record, used int64, err error) {
	var bad error
	at := int64(0)
	for len(data) > 0 {
		line, rest, ended := bytes.Cut(data, []byte("\n"))
		if !ended {
			break
		}
		r, err := parseRecord(line)
		switch {
		case err != nil && bad == nil:
			bad = fmt.Errorf("record at %d: %w", at, err)
		case err == nil && bad != nil:
			return nil, 0, bad
		case err == nil:
			records = append(records, r)
			used = at + int64(len(line)) + 1
		}
		at += int64(len(line)) + 1
		data = rest
	}
	return records, used, nil
}

// defaultFoldAt is the default of [nameTable.FoldAt].
const defaultFoldAt = 256 << 10

// maxIndexBytes bounds index.json, some 200,000 entries, and a journal.
const maxIndexBytes = 64 << 20

// nameOptions for [newNames].
type nameOptions struct {
	ReadOnly bool // refuse every write
	Journal  bool // append changes to a journal. Zero: rewrite index.json with every change
}

// nameTable holds the names of a store. It is safe for concurrent use by goroutines
// and processes.
type nameTable struct {
	// FoldAt is the smallest journal that a change folds into index.json. Above
	// it, half the size of index.json is awaited, so that folding stays the same
	// share of the cost of a change however many entries there are.
	FoldAt int64

	dir        *fsx.Dir
	readOnly   bool
	journalled bool

	mu       sync.Mutex    // held while the files are read
	idx      *nameIndex    // nil: not read yet, or unreadable
	key      cas.Key       // of index.json
	trusted  bool          // the key alone shows whether index.json changed
	sum      digest.Digest // of its bytes
	journal  string        // its name in cas.JournalDir
	off      int64         // bytes of it that were read
	followed bool          // changes are recorded
	changes  nameChanges   // since the last Follow
}

// newNames returns the names of the store in dir.
func newNames(dir *fsx.Dir, opt nameOptions) *nameTable {
	return &nameTable{FoldAt: defaultFoldAt, dir: dir, readOnly: opt.ReadOnly, journalled: opt.Journal}
}

// Create writes an index.json with the entries, unless there is one. The caller
// holds disk.IndexLock.
func (n *nameTable) Create(entries []ocispec.Descriptor) error {
	if _, err := n.dir.Root().Stat(ocispec.ImageIndexFile); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	data, err := marshalIndex(ocispec.Index{Manifests: entries}, "")
	if err != nil {
		return err
	}
	return n.dir.WriteFile(ocispec.ImageIndexFile, data, 0o644)
}

func (n *nameTable) writable() error {
	if n.readOnly {
		return cas.ErrReadOnly
	}
	return nil
}

// maxRereads bounds how often a reader starts over because writers fold in.
const maxRereads = 100

// readIndex brings n.idx up to date with the files. The caller holds n.mu.
func (n *nameTable) readIndex() (*nameIndex, error) {
	missing := false
	err := reread(func() (done bool, err error) {
		fresh, err := n.readBase()
		if err != nil || missing && !fresh {
			return true, err
		}
		there, err := n.readJournal()
		if err != nil {
			n.idx = nil
			return true, fmt.Errorf("%s/%s: %w", cas.JournalDir, n.journal, err)
		}
		// A missing journal may have been folded in since index.json was read;
		// index.json has changed then.
		missing = !there
		return there && !fresh, nil
	})
	if err != nil {
		return nil, err
	}
	return n.idx, nil
}

// reread calls read until it is done, at most maxRereads times.
func reread(read func() (done bool, err error)) error {
	for range maxRereads {
		if done, err := read(); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s keeps changing", ocispec.ImageIndexFile)
}

// readBase reads index.json unless it has not changed. A file whose times were
// not settled when it was read is compared by its bytes.
func (n *nameTable) readBase() (fresh bool, err error) {
	if n.idx != nil && n.trusted {
		if fi, err := n.dir.Root().Stat(ocispec.ImageIndexFile); err == nil {
			if key, ok := cas.KeyOfInfo(fi); ok && key == n.key {
				return false, nil
			}
		}
	}
	var key cas.Key
	var keyed bool
	if fi, err := n.dir.Root().Stat(ocispec.ImageIndexFile); err == nil {
		if key, keyed = cas.KeyOfInfo(fi); keyed {
			keyed = key.Settled()
		}
	}
	raw, err := cas.ReadFile(n.dir, ocispec.ImageIndexFile, maxIndexBytes)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s is missing: %w", ocispec.ImageIndexFile, artifact.ErrCorrupt)
	} else if errors.Is(err, cas.ErrNotRegular) {
		err = fmt.Errorf("%w: %w", artifact.ErrCorrupt, err)
	}
	if err != nil {
		return false, err
	}
	sum := digest.FromBytes(raw)
	if n.idx != nil && sum == n.sum {
		n.key, n.trusted = key, keyed
		return false, nil
	}
	idx, err := parseIndex(raw)
	if err != nil {
		return false, fmt.Errorf("%s: %w: %w", ocispec.ImageIndexFile, artifact.ErrCorrupt, err)
	}
	journal, err := n.journalOf(idx)
	if err != nil {
		return false, err
	}
	if n.idx == nil {
		n.followed = false
	} else {
		n.note(idx.all(), n.idx.all())
	}
	n.idx, n.key, n.trusted, n.sum, n.journal, n.off = idx, key, keyed, sum, journal, 0
	return true, nil
}

// note records changes for the next [nameTable.Follow], if there was a first.
func (n *nameTable) note(added, gone []ocispec.Descriptor) {
	if n.followed {
		n.changes.Added, n.changes.Removed = append(n.changes.Added, added...), append(n.changes.Removed, gone...)
	}
}

// journalOf returns the name of the journal that continues idx.
func (n *nameTable) journalOf(idx *nameIndex) (string, error) {
	name, ok := idx.doc.Annotations[journalAnnotation]
	if _, err := strconv.ParseUint(name, 10, 63); ok && err == nil {
		return name, nil
	}
	highest := uint64(1)
	entries, err := cas.ReadDir(n.dir, cas.JournalDir)
	for _, e := range entries {
		if number, err := strconv.ParseUint(e.Name(), 10, 63); err == nil {
			highest = max(highest, number)
		}
	}
	return strconv.FormatUint(highest, 10), err
}

// readJournal applies the records appended since the last call.
func (n *nameTable) readJournal() (there bool, err error) {
	name := cas.JournalDir + "/" + n.journal
	fi, err := n.dir.Root().Stat(filepath.FromSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || fi.Size() == n.off {
		return err == nil, err
	}
	data, err := cas.ReadFrom(n.dir, name, n.off, maxIndexBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	records, used, err := parseJournal(data)
	if err != nil {
		return false, fmt.Errorf("%w: %w", artifact.ErrCorrupt, err)
	}
	for _, r := range records {
		n.note(r.apply(n.idx))
	}
	n.off += used
	return true, nil
}

// View calls fn with the current index, which fn must not keep.
func (n *nameTable) View(fn func(idx *nameIndex) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	idx, err := n.readIndex()
	if err != nil {
		return err
	}
	return fn(idx)
}

// nameChanges are the differences between two states of an index.
type nameChanges struct {
	All            bool // every entry is in Added: this is the first state, or the last one is lost
	Added, Removed []ocispec.Descriptor
}

// Follow calls apply with the changes since the last successful apply, if
// there are any, and then view with the current index.
func (n *nameTable) Follow(apply func(nameChanges) error, view func(*nameIndex) error) error {
	return n.View(func(idx *nameIndex) error {
		if !n.followed {
			n.changes = nameChanges{All: true, Added: idx.all()}
		}
		if c := n.changes; c.All || len(c.Added) > 0 || len(c.Removed) > 0 {
			n.changes, n.followed = nameChanges{}, false
			if err := apply(c); err != nil {
				return err
			}
			n.followed = true
		}
		return view(idx)
	})
}

// Unfollow makes the next Follow start from all entries.
func (n *nameTable) Unfollow() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.followed, n.changes = false, nameChanges{}
}

// Entries returns all entries of the current index, sorted.
func (n *nameTable) Entries() (all []ocispec.Descriptor, err error) {
	err = n.View(func(idx *nameIndex) error { all = idx.all(); return nil })
	return all, err
}

// Update calls change under the lock of index.json and makes the edit durable.
func (n *nameTable) Update(ctx context.Context, change func(e *nameEdit) error) error {
	lock, err := n.dir.Lock(ctx, cas.IndexLock)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	var e nameEdit
	var fold bool
	err = n.View(func(idx *nameIndex) error {
		e.Index = idx
		if err := change(&e); err != nil {
			return err
		}
		fold = !n.journalled || n.off >= max(n.FoldAt, n.key.Size/2)
		return nil
	})
	if err != nil || e.rec.empty() {
		return err
	}
	if fold {
		return n.fold(&e.rec)
	}
	return n.append(&e.rec)
}

// append writes the record to the journal. The caller holds index.lock.
func (n *nameTable) append(r *record) error {
	line, err := r.line()
	if err != nil {
		return err
	}
	if err := n.dir.MkdirAll(cas.JournalDir, 0o755); err != nil {
		return err
	}
	n.mu.Lock()
	name, off := cas.JournalDir+"/"+n.journal, n.off
	n.mu.Unlock()
	f, err := n.dir.Append(name, 0o644)
	if err != nil {
		return err
	}
	if err := appendTo(f, off, line); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	if off == 0 {
		return n.dir.SyncDir(cas.JournalDir)
	}
	return nil
}

// appendTo writes line at off, the end of the last complete record.
func appendTo(f *fsx.File, off int64, line []byte) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if fi.Size() > off {
		if err := f.Truncate(off); err != nil {
			return err
		}
	}
	if _, err := f.Write(line); err != nil {
		return err
	}
	return f.Sync()
}

// fold writes index.json with all entries, changed by r, and retires the
// journal. The caller holds index.lock.
func (n *nameTable) fold(r *record) error {
	n.mu.Lock()
	doc, journal := n.idx.doc, n.journal
	doc.Manifests = slices.DeleteFunc(n.idx.all(), r.replaces())
	doc.Manifests = append(doc.Manifests, r.Set...)
	n.mu.Unlock()
	next, err := n.nextJournal(doc, journal)
	if err != nil {
		return err
	}
	data, err := marshalIndex(doc, next)
	if err != nil {
		return err
	}
	if err := n.dir.WriteFile(ocispec.ImageIndexFile, data, 0o644); err != nil {
		return err
	}
	return n.dropJournals(next)
}

// replaces returns a function that reports whether r removes or replaces an
// entry.
func (r *record) replaces() func(e ocispec.Descriptor) bool {
	refs, loose := map[string]bool{}, map[digest.Digest]bool{}
	note := func(ref string, d digest.Digest) {
		if ref != "" {
			refs[ref] = true
		} else {
			loose[d] = true
		}
	}
	for _, e := range r.Drop {
		note(e.Ref, e.Digest)
	}
	for _, e := range r.Set {
		note(refName(e), e.Digest)
	}
	return func(e ocispec.Descriptor) bool {
		if ref := refName(e); ref != "" {
			return refs[ref]
		}
		return loose[e.Digest]
	}
}

// nextJournal returns an unused name for the journal of the next index.json. A
// layout that never had a journal gets none.
func (n *nameTable) nextJournal(doc ocispec.Index, journal string) (string, error) {
	_, err := n.dir.Root().Stat(filepath.FromSlash(cas.JournalDir + "/" + journal))
	if errors.Is(err, fs.ErrNotExist) {
		return doc.Annotations[journalAnnotation], nil
	}
	if err != nil {
		return "", err
	}
	number, err := strconv.ParseUint(journal, 10, 63)
	if err != nil {
		return "", err
	}
	return strconv.FormatUint(number+1, 10), nil
}

// dropJournals removes unused journals.
func (n *nameTable) dropJournals(but string) error {
	entries, err := cas.ReadDir(n.dir, cas.JournalDir)
	for _, e := range entries {
		if err == nil && e.Name() != but {
			err = cas.IgnoreMissing(n.dir.Remove(cas.JournalDir + "/" + e.Name()))
		}
	}
	return err
}

// Compact folds the journal into index.json, for other readers of the layout.
func (n *nameTable) Compact(ctx context.Context) error {
	if err := n.writable(); err != nil {
		return err
	}
	if entries, err := cas.ReadDir(n.dir, cas.JournalDir); err != nil || len(entries) == 0 {
		return err
	}
	lock, err := n.dir.Lock(ctx, cas.IndexLock)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	var off int64
	if err := n.View(func(*nameIndex) error { off = n.off; return nil }); err != nil {
		return err
	}
	if off == 0 {
		return n.dropJournals("") // no complete record in them
	}
	return n.fold(&record{})
}

// nameNote is a finding of [nameTable.Check].
type nameNote struct{ Path, Detail string }

// Check compares index.json and its journal with their checksums, and counts
// the leftovers of interrupted writes.
func (n *nameTable) Check() (notes []nameNote, leftovers int, err error) {
	raw, err := cas.ReadFile(n.dir, ocispec.ImageIndexFile, maxIndexBytes)
	if err != nil {
		return nil, 0, err
	}
	var doc ocispec.Index
	if err := artifact.DecodeStrict(raw, &doc); err != nil {
		return nil, 0, err
	}
	sum, err := sumEntries(&doc)
	if err != nil {
		return nil, 0, err
	}
	if want, ok := doc.Annotations[sumAnnotation]; ok && want != sum.String() {
		notes = append(notes, nameNote{ocispec.ImageIndexFile, "entries differ from those last written by mm: another tool changed them, or they are damaged"})
	}
	var live string
	var off int64
	if err := n.View(func(*nameIndex) error { live, off = n.journal, n.off; return nil }); err != nil {
		return nil, 0, err
	}
	entries, err := cas.ReadDir(n.dir, cas.JournalDir)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range entries {
		if e.Name() != live {
			leftovers++
			continue
		}
		rest, err := cas.ReadFrom(n.dir, cas.JournalDir+"/"+live, off, maxIndexBytes)
		if err != nil {
			return notes, leftovers, cas.IgnoreMissing(err)
		}
		if bytes.ContainsRune(rest, '\n') {
			notes = append(notes, nameNote{cas.JournalDir + "/" + live, "the last record does not match its checksum: it is damaged, and its change is lost"})
		} else if off == 0 || len(rest) > 0 {
			leftovers++ // an incomplete record
		}
	}
	return notes, leftovers, nil
}
