// Package cas stores blobs by their SHA-256 on disk. A blob appears under its digest
// in one step, complete, synced and read-only; [Blobs.Partial] receives one over
// several processes, and digests of files already hashed are cached.
//
// Files and folders are opened below one folder without following links, read up to a limit,
// and identified by a [Key], by which a change is noticed without reading.
package cas

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/artifact"
)

// Blobs is a content-addressed folder of blobs. It is safe for concurrent use by
// goroutines and processes.
type Blobs struct {
	CacheMin int64                           // the size from which digests are cached
	Free     func(path string) (int64, bool) // the free bytes of a file system, false if unknown

	dir      *fsx.Dir
	path     string // absolute
	readOnly bool
	digests  *Blobs                      // whose digest cache is used
	below    *Blobs                      // nil: none
	same     func(a, b fs.FileInfo) bool // os.SameFile; tests replace it
}

// Options for [New].
type Options struct {
	ReadOnly bool   // refuse every write and take no lock. Zero: read and write
	Digests  *Blobs // share this folder's digest cache: folders that link to each other share files, and so records. Nil: a separate one
	Below    *Blobs // blobs to read in addition to those of this folder, which are not changed. Nil: none
}

// New returns the blobs of the store in dir, whose absolute path is path.
func New(dir *fsx.Dir, path string, opt Options) *Blobs {
	s := &Blobs{CacheMin: cacheMin, Free: Free, same: os.SameFile, dir: dir, path: path, readOnly: opt.ReadOnly, digests: opt.Digests, below: opt.Below}
	if s.digests == nil {
		s.digests = s
	}
	return s
}

// MakeDirs creates the folders of blobs.
func (s *Blobs) MakeDirs() error {
	for _, dir := range []string{BlobDir + "/sha256", IngestDir, PartialDir, UploadDir, KeepDir, DigestDir} {
		if err := s.dir.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (s *Blobs) writable() error {
	if s.readOnly {
		return ErrReadOnly
	}
	return nil
}

// copyBuffer is the unit in which blobs are hashed and copied.
const copyBuffer = 512 << 10

// blobName is the blob's name in the store, slash separated.
func blobName(d digest.Digest) (string, error) {
	if err := artifact.CheckDigest(d); err != nil {
		return "", err
	}
	return BlobDir + "/" + d.Algorithm().String() + "/" + d.Encoded(), nil
}

// flatName is a digest as one file name.
func flatName(d digest.Digest) string { return strings.Replace(string(d), ":", "-", 1) }

// BlobPath returns the path of the blob, which may be missing; "" for an
// invalid digest.
func (s *Blobs) BlobPath(desc ocispec.Descriptor) string {
	name, err := blobName(desc.Digest)
	if err != nil {
		return ""
	}
	if _, err := s.dir.Root().Stat(filepath.FromSlash(name)); s.below != nil && errors.Is(err, fs.ErrNotExist) {
		return s.below.BlobPath(desc)
	}
	return filepath.Join(s.path, filepath.FromSlash(name))
}

// Has reports whether the blob exists with the size in desc.
func (s *Blobs) Has(desc ocispec.Descriptor) (bool, error) {
	name, err := blobName(desc.Digest)
	if err != nil {
		return false, err
	}
	fi, err := s.dir.Root().Stat(filepath.FromSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		if s.below != nil {
			return s.below.Has(desc)
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return fi.Mode().IsRegular() && fi.Size() == desc.Size, nil
}

// Keep reports whether the blob exists, and protects it from gc for the grace
// period.
func (s *Blobs) Keep(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	lock, err := s.dir.RLock(ctx, GCLock)
	if err != nil {
		return false, err
	}
	defer lock.Unlock()
	if ok, err := s.Has(desc); !ok || err != nil {
		return false, err
	}
	return true, s.Mark(desc.Digest)
}

// Mark records that the blob is used now. The file's own times cannot serve:
// the file may be a hard link to the user's.
func (s *Blobs) Mark(d digest.Digest) error {
	return s.dir.Touch(KeepDir+"/"+flatName(d), 0o644)
}

// Fetch opens the blob (an *os.File). If it is missing, the error is
// errdef.ErrNotFound. The bytes are not checked; see [Blobs.Verify].
func (s *Blobs) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	f, err := s.OpenBlob(ctx, desc)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// OpenBlob opens the blob's file, for mmap or sendfile, after checking its
// size. The error is errdef.ErrNotFound or artifact.ErrCorrupt.
func (s *Blobs) OpenBlob(ctx context.Context, desc ocispec.Descriptor) (*os.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name, err := blobName(desc.Digest)
	if err != nil {
		return nil, err
	}
	f, err := Open(s.dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		if s.below != nil {
			return s.below.OpenBlob(ctx, desc)
		}
		return nil, fmt.Errorf("blob %s: %w", desc.Digest, errdef.ErrNotFound)
	}
	if errors.Is(err, ErrNotRegular) {
		err = fmt.Errorf("%w: %w", artifact.ErrCorrupt, err)
	}
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", desc.Digest, err)
	}
	fi, err := f.Stat()
	if err == nil && fi.Size() != desc.Size {
		err = fmt.Errorf("%w: got %d bytes, want %d", artifact.ErrCorrupt, fi.Size(), desc.Size)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("blob %s: %w", desc.Digest, err)
	}
	return f, nil
}

// readBlob reads a small blob into memory and checks its digest.
func (s *Blobs) ReadBlob(desc ocispec.Descriptor, limit int64) ([]byte, error) {
	if desc.Size > limit {
		return nil, fmt.Errorf("%s of %d bytes, limit %d: %w", desc.Digest, desc.Size, limit, errdef.ErrSizeExceedsLimit)
	}
	f, err := s.OpenBlob(context.Background(), desc)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, desc.Size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("blob %s: %w", desc.Digest, err)
	}
	if desc.Digest.Algorithm().FromBytes(data) != desc.Digest {
		return nil, fmt.Errorf("blob %s: %w", desc.Digest, artifact.ErrCorrupt)
	}
	return data, nil
}

// RoomFor returns a [*FullError] if the file system has no space for need more
// bytes.
func (s *Blobs) RoomFor(need int64) error {
	if free, ok := s.Free(s.path); ok && need > free {
		return &FullError{Dir: s.path, Need: need, Free: free}
	}
	return nil
}

// Ingest writes r to a temporary file, hashing it, and renames it to the blob
// once it is complete, checked and synced.
func (s *Blobs) Ingest(ctx context.Context, desc ocispec.Descriptor, r io.Reader) error {
	if err := s.RoomFor(desc.Size); err != nil {
		return err
	}
	f, err := s.dir.CreateTemp(IngestDir, desc.Digest.Encoded()[:12]+"-", 0o444)
	if err != nil {
		return err
	}
	h := desc.Digest.Algorithm().Hash()
	n, err := CopyHash(ctx, f, h, r, desc.Size)
	if err == nil {
		err = artifact.CheckContent(desc, n, digest.NewDigest(desc.Digest.Algorithm(), h))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.land(f.Name(), desc.Digest)
	}
	if err != nil {
		return errors.Join(err, IgnoreMissing(s.dir.Remove(f.Name())))
	}
	s.rememberBlob(desc)
	return nil
}

// land renames the complete and synced file temp to its blob, durably.
func (s *Blobs) land(temp string, d digest.Digest) error {
	name, err := blobName(d)
	if err != nil {
		return err
	}
	dir := BlobDir + "/" + d.Algorithm().String()
	if err := s.dir.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := s.dir.Rename(temp, name); err != nil {
		return err
	}
	return s.dir.SyncDir(dir)
}

// Verify reads the blob and compares size and digest, never through a cache.
// The error is artifact.ErrCorrupt or errdef.ErrNotFound.
func (s *Blobs) Verify(ctx context.Context, desc ocispec.Descriptor) error {
	f, err := s.OpenBlob(ctx, desc)
	if err != nil {
		return err
	}
	defer f.Close()
	return verifyFile(ctx, f, desc)
}

// verifyFile hashes f from its start.
func verifyFile(ctx context.Context, f *os.File, desc ocispec.Descriptor) error {
	h := desc.Digest.Algorithm().Hash()
	n, err := CopyHash(ctx, nil, h, f, desc.Size)
	if err == nil {
		err = artifact.CheckContent(desc, n, digest.NewDigest(desc.Digest.Algorithm(), h))
	}
	if err != nil {
		return fmt.Errorf("blob %s: %w", desc.Digest, err)
	}
	return nil
}

// CopyHash copies r to f, unless f is nil, and to h, until the end of r or
// ctx, or one byte past the expected size.
func CopyHash(ctx context.Context, f *fsx.File, h hash.Hash, r io.Reader, size int64) (n int64, err error) {
	r = io.LimitReader(r, size+1)
	buf := make([]byte, min(copyBuffer, size+1))
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		k, err := r.Read(buf)
		h.Write(buf[:k])
		if f != nil && k > 0 {
			if _, err := f.Write(buf[:k]); err != nil {
				return n, err
			}
		}
		n += int64(k)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// Push stores r as the blob that desc describes, checking size and digest. If
// the blob exists, the error is errdef.ErrAlreadyExists.
func (s *Blobs) Push(ctx context.Context, desc ocispec.Descriptor, r io.Reader) error {
	err := s.writable()
	if err == nil {
		err = artifact.CheckDescriptor(desc)
	}
	if err == nil {
		err = s.push(ctx, desc, r)
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", desc.Digest, err)
	}
	return nil
}

func (s *Blobs) push(ctx context.Context, desc ocispec.Descriptor, r io.Reader) error {
	ok, err := s.Keep(ctx, desc)
	if err != nil {
		return err
	}
	if ok {
		return errdef.ErrAlreadyExists
	}
	return s.Ingest(ctx, desc, r)
}

// Stat describes the file of the blob d.
func (s *Blobs) Stat(d digest.Digest) (fs.FileInfo, error) {
	name, err := blobName(d)
	if err != nil {
		return nil, err
	}
	fi, err := s.dir.Root().Stat(filepath.FromSlash(name))
	if s.below != nil && errors.Is(err, fs.ErrNotExist) {
		return s.below.Stat(d)
	}
	return fi, err
}
