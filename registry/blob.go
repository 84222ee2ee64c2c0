package registry

import (
	"bytes"
	"context"
	_ "crypto/sha256" // the digest algorithms a layout may use
	_ "crypto/sha512"
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

// copyBuffer is the unit in which blobs are hashed and copied.
const copyBuffer = 512 << 10

// blobName is the blob's name in the store, slash separated.
func blobName(d digest.Digest) (string, error) {
	if err := artifact.CheckDigest(d); err != nil {
		return "", err
	}
	return blobDir + "/" + d.Algorithm().String() + "/" + d.Encoded(), nil
}

// flatName is a digest as one file name.
func flatName(d digest.Digest) string { return strings.Replace(string(d), ":", "-", 1) }

// BlobPath returns where the blob lies or would lie; "" for an invalid digest.
func (s *Store) BlobPath(desc ocispec.Descriptor) string {
	name, err := blobName(desc.Digest)
	if err != nil {
		return ""
	}
	return filepath.Join(s.path, filepath.FromSlash(name))
}

// has tells whether the blob lies there with the size that desc gives.
func (s *Store) has(desc ocispec.Descriptor) (bool, error) {
	name, err := blobName(desc.Digest)
	if err != nil {
		return false, err
	}
	fi, err := s.dir.Root().Stat(filepath.FromSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return fi.Mode().IsRegular() && fi.Size() == desc.Size, nil
}

// keep makes sure that the blob is there and stays for gc's grace period.
func (s *Store) keep(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	lock, err := s.dir.RLock(ctx, gcLock)
	if err != nil {
		return false, err
	}
	defer lock.Unlock()
	if ok, err := s.has(desc); !ok || err != nil {
		return false, err
	}
	return true, s.mark(desc.Digest)
}

// mark notes that the blob is relied on now. Its own times will not do: it may
// be the user's file by another name.
func (s *Store) mark(d digest.Digest) error {
	return s.dir.Touch(keepDir+"/"+flatName(d), 0o644)
}

// Exists reports whether the blob is there with the right size; a manifest with
// a subject also has to be listed, or Push must finish what was interrupted. On
// a writable store a yes keeps the blob from [Store.GC] for the grace period.
func (s *Store) Exists(ctx context.Context, desc ocispec.Descriptor) (ok bool, err error) {
	if s.readOnly {
		ok, err = s.has(desc)
	} else {
		ok, err = s.keep(ctx, desc)
	}
	if err == nil && ok && artifact.IsManifest(desc.MediaType) {
		ok, err = s.listed(desc)
	}
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", desc.Digest, err)
	}
	return ok, nil
}

// listed tells whether the manifest needs no entry in index.json or has one.
func (s *Store) listed(desc ocispec.Descriptor) (bool, error) {
	n, err := s.node(desc)
	if err != nil {
		return false, nil // unreadable: push it again
	}
	if n.Subject == nil {
		return true, nil
	}
	there := false
	err = s.view(func(idx *index) error { there = len(idx.digests[desc.Digest]) > 0; return nil })
	return there, err
}

// Fetch opens the blob (an *os.File). The error is errdef.ErrNotFound where
// there is none. The bytes are not checked; see [Store.Verify].
func (s *Store) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	f, err := s.OpenBlob(ctx, desc)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// OpenBlob opens the blob's file, for mmap or sendfile, after checking its
// size. The error is errdef.ErrNotFound or [ErrCorrupt].
func (s *Store) OpenBlob(ctx context.Context, desc ocispec.Descriptor) (*os.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name, err := blobName(desc.Digest)
	if err != nil {
		return nil, err
	}
	f, err := s.openRegular(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("blob %s: %w", desc.Digest, errdef.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", desc.Digest, err)
	}
	fi, err := f.Stat()
	if err == nil && fi.Size() != desc.Size {
		err = fmt.Errorf("%w: %d bytes where %d are meant", artifact.ErrCorrupt, fi.Size(), desc.Size)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("blob %s: %w", desc.Digest, err)
	}
	return f, nil
}

// readBlob reads a small blob into memory and checks its digest.
func (s *Store) readBlob(desc ocispec.Descriptor, limit int64) ([]byte, error) {
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

// Push stores r as the blob that desc describes, checking size and digest. The
// error is errdef.ErrAlreadyExists where the blob is there already.
func (s *Store) Push(ctx context.Context, desc ocispec.Descriptor, r io.Reader) error {
	err := s.writable()
	if err == nil {
		err = artifact.CheckDescriptor(desc)
	}
	if err == nil && artifact.IsManifest(desc.MediaType) {
		err = s.pushManifest(ctx, desc, r)
	} else if err == nil {
		err = s.pushBlob(ctx, desc, r)
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", desc.Digest, err)
	}
	return nil
}

func (s *Store) pushBlob(ctx context.Context, desc ocispec.Descriptor, r io.Reader) error {
	ok, err := s.keep(ctx, desc)
	if err != nil {
		return err
	}
	if ok {
		return errdef.ErrAlreadyExists
	}
	return s.ingest(ctx, desc, r)
}

// pushManifest stores a manifest and, where it has a subject, lists it. What is
// there already is read, so that a broken one is replaced.
func (s *Store) pushManifest(ctx context.Context, desc ocispec.Descriptor, r io.Reader) error {
	if desc.Size > artifact.MaxManifestBytes {
		return fmt.Errorf("manifest of %d bytes, limit %d: %w", desc.Size, artifact.MaxManifestBytes, errdef.ErrSizeExceedsLimit)
	}
	there, err := s.keep(ctx, desc)
	if err != nil {
		return err
	}
	if there {
		_, err := s.readBlob(desc, artifact.MaxManifestBytes)
		there = err == nil
	}
	if !there {
		data, err := io.ReadAll(io.LimitReader(r, desc.Size+1))
		if err != nil {
			return err
		}
		if err := artifact.CheckContent(desc, int64(len(data)), desc.Digest.Algorithm().FromBytes(data)); err != nil {
			return err
		}
		if _, err := artifact.ParseManifest(desc, data); err != nil {
			return err
		}
		if err := s.ingest(ctx, desc, bytes.NewReader(data)); err != nil {
			return err
		}
	}
	n, err := s.node(desc)
	if err != nil {
		return err
	}
	if n.Subject != nil {
		if err := s.list(ctx, n); err != nil {
			return err
		}
	}
	if there {
		return errdef.ErrAlreadyExists
	}
	return nil
}

// list gives the manifest an untagged entry in index.json.
func (s *Store) list(ctx context.Context, n *artifact.Manifest) error {
	lock, err := s.dir.RLock(ctx, gcLock)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if ok, err := s.has(n.Descriptor); err != nil || !ok {
		return errors.Join(err, errdef.ErrNotFound)
	}
	return s.updateIndex(ctx, func(e *edit) error { e.set(n, ""); return nil })
}

// ingest writes r to a file of its own, hashing on the way, and gives it the
// blob's name once it is complete, right and synced.
func (s *Store) ingest(ctx context.Context, desc ocispec.Descriptor, r io.Reader) error {
	f, err := s.dir.CreateTemp(ingestDir, desc.Digest.Encoded()[:12]+"-", 0o444)
	if err != nil {
		return err
	}
	h := desc.Digest.Algorithm().Hash()
	n, err := copyHash(ctx, f, h, r, desc.Size)
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
		return errors.Join(err, ignoreMissing(s.dir.Remove(f.Name())))
	}
	s.rememberBlob(desc)
	return nil
}

// land gives the complete and synced file temp the name of its blob, durably.
func (s *Store) land(temp string, d digest.Digest) error {
	name, err := blobName(d)
	if err != nil {
		return err
	}
	dir := blobDir + "/" + d.Algorithm().String()
	if err := s.dir.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := s.dir.Rename(temp, name); err != nil {
		return err
	}
	return s.dir.SyncDir(dir)
}

// AddBytes stores data as a blob.
func (s *Store) AddBytes(ctx context.Context, mediaType string, data []byte) (ocispec.Descriptor, error) {
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	if err := s.Push(ctx, desc, bytes.NewReader(data)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return ocispec.Descriptor{}, err
	}
	return desc, nil
}

// Verify reads the whole blob and compares size and digest, never through a
// cache. The error is [ErrCorrupt] or errdef.ErrNotFound.
func (s *Store) Verify(ctx context.Context, desc ocispec.Descriptor) error {
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
	n, err := copyHash(ctx, nil, h, f, desc.Size)
	if err == nil {
		err = artifact.CheckContent(desc, n, digest.NewDigest(desc.Digest.Algorithm(), h))
	}
	if err != nil {
		return fmt.Errorf("blob %s: %w", desc.Digest, err)
	}
	return nil
}

// copyHash moves r to f, where f is not nil, and to h, until the end of r or of
// ctx, or one byte past the size that is meant.
func copyHash(ctx context.Context, f *fsx.File, h hash.Hash, r io.Reader, size int64) (n int64, err error) {
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

// ignoreMissing drops the error of removing what is gone.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
