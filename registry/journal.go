package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/artifact"
)

// The names of a store are index.json and, on top of it, one journal: a file to
// which changes are appended, so that a change costs the same whatever the
// store holds. index.json names its journal by an annotation; without one (in a
// new store, one of an older mm, one whose index.json another tool wrote) it is
// the journal with the highest number. A store opened without Options.Journal
// folds the journal in with every change, so that index.json is always complete.
//
//   - Readers read index.json, then its journal, and start over if index.json is
//     another file by then. They take no lock.
//   - Writers hold index.lock. A record counts once it is whole and synced; what
//     a crash left after the last whole one is cut off by the next writer.
//   - Folding in writes index.json with all entries and the next journal's name,
//     in one step; the old journal, which counts no longer, is removed after.

// record is one change, which happens whole or not at all. Drops come first.
type record struct {
	Drop []entryName          `json:"drop,omitempty"`
	Set  []ocispec.Descriptor `json:"set,omitempty"` // each in place of what is under its reference name
}

// entryName tells an entry: by reference name, or by digest where it has none.
type entryName struct {
	Ref    string        `json:"ref,omitempty"`
	Digest digest.Digest `json:"digest,omitempty"`
}

func (r *record) empty() bool { return len(r.Drop) == 0 && len(r.Set) == 0 }

// apply changes idx, and returns what came and what went.
func (r *record) apply(idx *index) (added, gone []ocispec.Descriptor) {
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

// parseJournal reads the whole records at the start of data and returns how
// many bytes they take. A bad record with a good one after it is damage; one at
// the end was cut off.
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

// names is what the store has read of index.json and its journal.
type names struct {
	idx     *index
	key     fileKey              // of index.json
	trusted bool                 // the key alone tells whether it changed
	sum     digest.Digest        // of its bytes
	journal string               // its name in journalDir
	off     int64                // bytes of it that were read
	added   []ocispec.Descriptor // entries that the graph does not know yet
	gone    []ocispec.Descriptor // entries that the graph still knows
}

// maxRereads bounds how often a reader starts over because writers fold in.
const maxRereads = 100

// readIndex brings s.names up to what is on disk now. The caller holds indexMu.
func (s *Store) readIndex() (*index, error) {
	missing := false
	for range maxRereads {
		fresh, err := s.readBase()
		if err != nil {
			return nil, err
		}
		if missing && !fresh {
			return s.names.idx, nil
		}
		there, err := s.readJournal()
		if err != nil {
			s.names.idx = nil
			return nil, fmt.Errorf("%s/%s: %w", journalDir, s.names.journal, err)
		}
		if there && !fresh {
			return s.names.idx, nil
		}
		// A journal that is not there may have been folded in since index.json
		// was read; then index.json is another now.
		missing = !there
	}
	return nil, fmt.Errorf("%s does not come to rest", ocispec.ImageIndexFile)
}

// readBase reads index.json unless it is what was read last. A file whose times
// were still moving when it was read is compared by its bytes.
func (s *Store) readBase() (fresh bool, err error) {
	if s.names.idx != nil && s.names.trusted {
		if fi, err := s.dir.Root().Stat(ocispec.ImageIndexFile); err == nil {
			if key, ok := keyOfInfo(fi); ok && key == s.names.key {
				return false, nil
			}
		}
	}
	var key fileKey
	var keyed bool
	if fi, err := s.dir.Root().Stat(ocispec.ImageIndexFile); err == nil {
		if key, keyed = keyOfInfo(fi); keyed {
			keyed = key.settled()
		}
	}
	raw, err := s.readSmall(ocispec.ImageIndexFile, maxIndexBytes)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s is missing: %w", ocispec.ImageIndexFile, artifact.ErrCorrupt)
	}
	if err != nil {
		return false, err
	}
	sum := digest.FromBytes(raw)
	if s.names.idx != nil && sum == s.names.sum {
		s.names.key, s.names.trusted = key, keyed
		return false, nil
	}
	idx, err := parseIndex(raw)
	if err != nil {
		return false, fmt.Errorf("%s: %w: %w", ocispec.ImageIndexFile, artifact.ErrCorrupt, err)
	}
	journal, err := s.journalOf(idx)
	if err != nil {
		return false, err
	}
	if s.names.idx == nil {
		s.graph = nil
	} else {
		s.tell(idx.all(), s.names.idx.all())
	}
	s.names = names{idx: idx, key: key, trusted: keyed, sum: sum, journal: journal, added: s.names.added, gone: s.names.gone}
	return true, nil
}

// tell notes what the graph has to follow, if there is one.
func (s *Store) tell(added, gone []ocispec.Descriptor) {
	if s.graph != nil {
		s.names.added, s.names.gone = append(s.names.added, added...), append(s.names.gone, gone...)
	}
}

// journalOf is the name of the journal that goes on where idx ends.
func (s *Store) journalOf(idx *index) (string, error) {
	name, ok := idx.doc.Annotations[journalAnnotation]
	if _, err := strconv.ParseUint(name, 10, 63); ok && err == nil {
		return name, nil
	}
	highest := uint64(1)
	entries, err := s.readDir(journalDir)
	for _, e := range entries {
		if n, err := strconv.ParseUint(e.Name(), 10, 63); err == nil {
			highest = max(highest, n)
		}
	}
	return strconv.FormatUint(highest, 10), err
}

// readJournal applies what was appended since the last time.
func (s *Store) readJournal() (there bool, err error) {
	name := journalDir + "/" + s.names.journal
	fi, err := s.dir.Root().Stat(filepath.FromSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || fi.Size() == s.names.off {
		return err == nil, err
	}
	data, err := s.readFrom(name, s.names.off, maxIndexBytes)
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
		s.tell(r.apply(s.names.idx))
	}
	s.names.off += used
	return true, nil
}

// readFrom reads the file name from off on, at most limit bytes.
func (s *Store) readFrom(name string, off, limit int64) ([]byte, error) {
	f, err := s.openRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, off, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("more than %d bytes: %w", limit, artifact.ErrCorrupt)
	}
	return data, err
}

// view lets fn look at the index as it is now.
func (s *Store) view(fn func(idx *index) error) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	idx, err := s.readIndex()
	if err != nil {
		return err
	}
	return fn(idx)
}

// entries returns all entries of the index as it is now, sorted.
func (s *Store) entries() (all []ocispec.Descriptor, err error) {
	err = s.view(func(idx *index) error { all = idx.all(); return nil })
	return all, err
}

// updateIndex lets change edit the index under the lock, and makes the edit
// durable.
func (s *Store) updateIndex(ctx context.Context, change func(e *edit) error) error {
	lock, err := s.dir.Lock(ctx, indexLock)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	var e edit
	var fold bool
	err = s.view(func(idx *index) error {
		e.idx = idx
		if err := change(&e); err != nil {
			return err
		}
		fold = !s.journalled || s.names.off >= max(s.journalMax, s.names.key.size/2)
		return nil
	})
	if err != nil || e.rec.empty() {
		return err
	}
	if fold {
		return s.fold(&e.rec)
	}
	return s.append(&e.rec)
}

// append writes the record to the journal. The caller holds index.lock.
func (s *Store) append(r *record) error {
	line, err := r.line()
	if err != nil {
		return err
	}
	if err := s.dir.MkdirAll(journalDir, 0o755); err != nil {
		return err
	}
	s.indexMu.Lock()
	name, off := journalDir+"/"+s.names.journal, s.names.off
	s.indexMu.Unlock()
	f, err := s.dir.Append(name, 0o644)
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
		return s.dir.SyncDir(journalDir)
	}
	return nil
}

// appendTo writes line at off, where the last whole record ends.
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
func (s *Store) fold(r *record) error {
	s.indexMu.Lock()
	doc, journal := s.names.idx.doc, s.names.journal
	doc.Manifests = slices.DeleteFunc(s.names.idx.all(), r.replaces())
	doc.Manifests = append(doc.Manifests, r.Set...)
	s.indexMu.Unlock()
	next, err := s.nextJournal(doc, journal)
	if err != nil {
		return err
	}
	data, err := marshalIndex(doc, next)
	if err != nil {
		return err
	}
	if err := s.dir.WriteFile(ocispec.ImageIndexFile, data, 0o644); err != nil {
		return err
	}
	return s.dropJournals(next)
}

// replaces tells the entries that r takes away.
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

// nextJournal names the journal of the index.json about to be written: one that
// is not there. A layout that never had a journal names none.
func (s *Store) nextJournal(doc ocispec.Index, journal string) (string, error) {
	_, err := s.dir.Root().Stat(filepath.FromSlash(journalDir + "/" + journal))
	if errors.Is(err, fs.ErrNotExist) {
		return doc.Annotations[journalAnnotation], nil
	}
	if err != nil {
		return "", err
	}
	n, err := strconv.ParseUint(journal, 10, 63)
	if err != nil {
		return "", err
	}
	return strconv.FormatUint(n+1, 10), nil
}

// dropJournals removes the journals that count no longer.
func (s *Store) dropJournals(but string) error {
	entries, err := s.readDir(journalDir)
	for _, e := range entries {
		if err == nil && e.Name() != but {
			err = ignoreMissing(s.dir.Remove(journalDir + "/" + e.Name()))
		}
	}
	return err
}

// Compact makes index.json complete, for other readers of the layout, where
// changes still lie in the journal.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.compact(ctx); err != nil {
		return fmt.Errorf("write %s: %w", ocispec.ImageIndexFile, err)
	}
	return nil
}

func (s *Store) compact(ctx context.Context) error {
	if err := s.writable(); err != nil {
		return err
	}
	if entries, err := s.readDir(journalDir); err != nil || len(entries) == 0 {
		return err
	}
	lock, err := s.dir.Lock(ctx, indexLock)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	var off int64
	if err := s.view(func(*index) error { off = s.names.off; return nil }); err != nil {
		return err
	}
	if off == 0 {
		return s.dropJournals("") // nothing whole is in them
	}
	return s.fold(&record{})
}
