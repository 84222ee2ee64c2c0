package registry

import (
	"context"
	"errors"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/registry/artifact"
)

// Import copies desc, everything it reaches and its referrers from another
// store, by hard link if the disk allows. Linked bytes are not read; the user
// of a blob verifies it.
func (s *Store) Import(ctx context.Context, from *Store, desc ocispec.Descriptor) error {
	if err := s.importAll(ctx, from, desc); err != nil {
		return fmt.Errorf("import %s: %w", desc.Digest, err)
	}
	return nil
}

func (s *Store) importAll(ctx context.Context, from *Store, desc ocispec.Descriptor) error {
	if err := s.writable(); err != nil {
		return err
	}
	var manifests []ocispec.Descriptor
	seen := map[nodeKey]bool{}
	// Contents before the manifests that name them; Walk visits them the other
	// way round.
	collect := func(d ocispec.Descriptor) error {
		if key := (nodeKey{d.Digest, d.MediaType}); !seen[key] {
			seen[key] = true
			if artifact.IsManifest(d.MediaType) {
				manifests = append(manifests, d)
				return nil
			}
			return s.Blobs.Import(ctx, from.Blobs, d)
		}
		return nil
	}
	if err := from.Walk(ctx, desc, collect); err != nil {
		return err
	}
	for _, m := range manifests {
		referrers, err := from.Referrers(ctx, m, "")
		if err != nil {
			return err
		}
		for _, r := range referrers {
			if err := from.Walk(ctx, r, collect); err != nil {
				return err
			}
		}
	}
	for i := len(manifests) - 1; i >= 0; i-- {
		if err := s.importManifest(ctx, from, manifests[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) importManifest(ctx context.Context, from *Store, desc ocispec.Descriptor) error {
	r, err := from.Fetch(ctx, desc)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := s.Push(ctx, desc, r); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return err
	}
	return nil
}
