// Package registry holds mm's local store: a content-addressed OCI image
// layout (oci-layout, index.json, blobs/sha256/…) that any number of processes
// can use concurrently and that a crash, a full disk or a power cut cannot
// leave half-written.
//
// # The path of an artifact
//
// Store.AddFile and Store.Push store blobs, [artifact.Pack] writes the
// config and manifest over them, [Store.Tag] names the manifest. Back out:
// [Store.Resolve], [artifact.Read], [Store.Checkout]. Store.Partial receives
// a blob over the lives of several processes. [Store.Remove] removes names,
// [Store.GC] unnamed bytes, and [Store.Fsck] checks the store.
//
// # Invariants
//
//  1. A blob appears under its digest in one step, complete, synced, read-only.
//  2. Names change by one writer at a time (index.lock), after they were read
//     again under the lock, so that no tag is lost. index.json is replaced in one
//     step; with [Options].Journal changes are appended to a separate file.
//  3. Names never refer to blobs that are not durable: [Store.Tag] checks that
//     every blob the manifest reaches exists before it writes.
//  4. Readers take no lock and never wait.
//  5. Garbage collection, see [Store.GC].
//
// index.json lists tagged manifests and the manifests with a subject
// (signatures, SBOMs), so that oras finds predecessors after reopening; each
// entry carries the `kind` annotation that cosign looks for in a local layout.
// mm's other files are in the store's folder .mm.
package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// Options for [Open].
type Options struct {
	ReadOnly  bool     // refuse every write and take no lock; the layout must exist. Zero: read and write
	MustExist bool     // if there is no layout, fail with errdef.ErrNotFound. Zero: create one
	Journal   bool     // write changes of names to a journal, at a cost that does not grow with the store, and index.json by [Store.Compact], [Store.Close] and now and then. Zero: index.json with every change
	Hook      fsx.Hook // seam for fault tests. Zero: none
	Digests   *Store   // share this store's digest cache: stores that link to each other share files, and so records. Nil: a separate one
	Below     *Store   // of a new store: start with the names of this one, and read its blobs without changing it. Nil: none

	rebuild func(*Store) error // mends a damaged index. Nil: an error
}

// Store is an OCI image layout on disk. It is safe for concurrent use by
// goroutines and processes, and is an oras.GraphTarget.
type Store struct {
	*cas.Blobs
	dir      *fsx.Dir
	path     string // absolute
	readOnly bool
	hook     fsx.Hook
	same     func(a, b fs.FileInfo) bool // os.SameFile; tests replace it

	journalled bool

	mu    sync.Mutex
	nodes manifestPool // parsed manifests

	names *nameTable
	graph *graph // of names, and used under their lock
}

// Open opens the layout at dir, creating it if it is missing.
func Open(dir string, opt Options) (*Store, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	s := &Store{path: path, readOnly: opt.ReadOnly, hook: opt.Hook, same: os.SameFile, journalled: opt.Journal}
	if err := s.open(opt); err != nil {
		if s.dir != nil {
			s.dir.Close()
		}
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	return s, nil
}

func (s *Store) open(opt Options) (err error) {
	if opt.ReadOnly || opt.MustExist {
		s.dir, err = fsx.Open(s.path, fsx.Options{Hook: opt.Hook})
	} else {
		s.dir, err = fsx.Create(s.path, 0o755, fsx.Options{Hook: opt.Hook})
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: no such folder", errdef.ErrNotFound)
	}
	if err != nil {
		return err
	}
	blobs := cas.Options{ReadOnly: opt.ReadOnly}
	if opt.Digests != nil {
		blobs.Digests = opt.Digests.Blobs
	}
	var entries []ocispec.Descriptor
	if opt.Below != nil {
		blobs.Below = opt.Below.Blobs
		if entries, err = opt.Below.names.Entries(); err != nil {
			return err
		}
	}
	s.Blobs = cas.New(s.dir, s.path, blobs)
	s.names = newNames(s.dir, nameOptions{ReadOnly: opt.ReadOnly, Journal: opt.Journal})
	err = s.checkLayout()
	if errors.Is(err, fs.ErrNotExist) && s.hasBlobs() {
		err = fmt.Errorf("%s is missing: %w", ocispec.ImageLayoutFile, artifact.ErrCorrupt)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if opt.ReadOnly || opt.MustExist {
			return fmt.Errorf("%w: no OCI image layout there", errdef.ErrNotFound)
		}
		err = s.create(entries)
	}
	if err == nil && !s.readOnly {
		err = s.MakeDirs()
	}
	if err == nil {
		err = s.names.View(func(*nameIndex) error { return nil })
	}
	if !errors.Is(err, artifact.ErrCorrupt) {
		return err
	}
	if opt.rebuild == nil {
		return &DamagedError{s.path, err}
	}
	return opt.rebuild(s)
}

// create writes a layout without blobs, oci-layout last: with it the layout exists.
func (s *Store) create(entries []ocispec.Descriptor) error {
	if err := s.MakeDirs(); err != nil {
		return err
	}
	lock, err := s.dir.Lock(context.Background(), cas.IndexLock)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := s.checkLayout(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.names.Create(entries); err != nil {
		return err
	}
	return s.writeLayout()
}

func (s *Store) writeLayout() error {
	layout := []byte(`{"imageLayoutVersion":"` + ocispec.ImageLayoutVersion + `"}`)
	return s.dir.WriteFile(ocispec.ImageLayoutFile, layout, 0o644)
}

// checkLayout reads oci-layout.
func (s *Store) checkLayout() error {
	data, err := cas.ReadFile(s.dir, ocispec.ImageLayoutFile, 64<<10)
	if err != nil {
		return err
	}
	var layout ocispec.ImageLayout
	if err := artifact.DecodeStrict(data, &layout); err != nil {
		return fmt.Errorf("%s: %w: %w", ocispec.ImageLayoutFile, artifact.ErrCorrupt, err)
	}
	if layout.Version != ocispec.ImageLayoutVersion {
		return fmt.Errorf("%s: version %q: %w", ocispec.ImageLayoutFile, layout.Version, errdef.ErrUnsupportedVersion)
	}
	return nil
}

// Dir returns the absolute path of the store's folder.
func (s *Store) Dir() string { return s.path }

// Close makes index.json complete if the store was opened with a journal, and
// releases the store's handle on its folder.
func (s *Store) Close() error {
	var err error
	if s.journalled && !s.readOnly {
		err = s.Compact(context.Background())
	}
	return errors.Join(err, s.dir.Close())
}

// writable refuses where the store is read-only.
func (s *Store) writable() error {
	if s.readOnly {
		return cas.ErrReadOnly
	}
	return nil
}

// Compact makes index.json complete, for other readers of the layout.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.names.Compact(ctx); err != nil {
		return fmt.Errorf("write %s: %w", ocispec.ImageIndexFile, err)
	}
	return nil
}
