package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// Exists reports whether the blob exists with the right size. A manifest with
// a subject must also be listed, or Push must finish an interrupted push. On a
// writable store, true protects the blob from [Store.GC] for the grace period.
func (s *Store) Exists(ctx context.Context, desc ocispec.Descriptor) (ok bool, err error) {
	if s.readOnly {
		ok, err = s.Has(desc)
	} else {
		ok, err = s.Keep(ctx, desc)
	}
	if err == nil && ok && artifact.IsManifest(desc.MediaType) {
		ok, err = s.listed(desc)
	}
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", desc.Digest, err)
	}
	return ok, nil
}

// listed reports whether the manifest has an entry in index.json or needs
// none.
func (s *Store) listed(desc ocispec.Descriptor) (bool, error) {
	n, err := s.node(desc)
	if err != nil {
		return false, nil // unreadable: push it again
	}
	if n.Subject == nil {
		return true, nil
	}
	there := false
	err = s.names.View(func(idx *nameIndex) error { there = len(idx.Digests[desc.Digest]) > 0; return nil })
	return there, err
}

// Push stores r as the blob that desc describes, checking size and digest. If
// the blob exists, the error is errdef.ErrAlreadyExists.
func (s *Store) Push(ctx context.Context, desc ocispec.Descriptor, r io.Reader) error {
	if !artifact.IsManifest(desc.MediaType) {
		return s.Blobs.Push(ctx, desc, r)
	}
	err := s.writable()
	if err == nil {
		err = artifact.CheckDescriptor(desc)
	}
	if err == nil {
		err = s.pushManifest(ctx, desc, r)
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", desc.Digest, err)
	}
	return nil
}

// pushManifest stores a manifest and, if it has a subject, lists it. An
// existing one is read, so that a damaged one is replaced.
func (s *Store) pushManifest(ctx context.Context, desc ocispec.Descriptor, r io.Reader) error {
	if desc.Size > artifact.MaxManifestBytes {
		return fmt.Errorf("manifest of %d bytes, limit %d: %w", desc.Size, artifact.MaxManifestBytes, errdef.ErrSizeExceedsLimit)
	}
	there, err := s.Keep(ctx, desc)
	if err != nil {
		return err
	}
	if there {
		_, err := s.ReadBlob(desc, artifact.MaxManifestBytes)
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
		n, err := artifact.ParseManifest(desc, data)
		if err != nil {
			return err
		}
		if err := s.Ingest(ctx, desc, bytes.NewReader(data)); err != nil {
			return err
		}
		s.pool(n)
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

// list adds an untagged entry for the manifest to index.json.
func (s *Store) list(ctx context.Context, n *artifact.Manifest) error {
	lock, err := s.dir.RLock(ctx, cas.GCLock)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if ok, err := s.Has(n.Descriptor); err != nil || !ok {
		return errors.Join(err, errdef.ErrNotFound)
	}
	return s.names.Update(ctx, func(e *nameEdit) error { e.Set(n, ""); return nil })
}

// AddBytes stores data as a blob.
func (s *Store) AddBytes(ctx context.Context, mediaType string, data []byte) (ocispec.Descriptor, error) {
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	if err := s.Push(ctx, desc, bytes.NewReader(data)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return ocispec.Descriptor{}, err
	}
	return desc, nil
}
