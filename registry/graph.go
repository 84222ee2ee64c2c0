package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/registry/artifact"
)

// Limits of the manifest graph.
const (
	maxReach     = 100_000 // manifests one name may reach
	maxPoolBytes = 8 << 20 // manifests held in memory
)

// manifestPool holds parsed manifests by digest and media type. Content under a
// digest never changes, so it needs no invalidation.
type manifestPool struct {
	nodes map[nodeKey]*artifact.Manifest
	bytes int64
}

type nodeKey struct {
	digest    digest.Digest
	mediaType string
}

// node reads the manifest desc, checking its digest.
func (s *Store) node(desc ocispec.Descriptor) (*artifact.Manifest, error) {
	key := nodeKey{desc.Digest, desc.MediaType}
	s.mu.Lock()
	n := s.nodes.nodes[key]
	s.mu.Unlock()
	if n != nil && n.Descriptor.Size == desc.Size {
		return n, nil
	}
	data, err := s.ReadBlob(desc, artifact.MaxManifestBytes)
	if err != nil {
		return nil, err
	}
	n, err = artifact.ParseManifest(desc, data)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", desc.Digest, err)
	}
	s.pool(n)
	return n, nil
}

// pool keeps a manifest that was parsed from checked bytes.
func (s *Store) pool(n *artifact.Manifest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes.nodes == nil || s.nodes.bytes+n.Descriptor.Size > maxPoolBytes {
		s.nodes = manifestPool{nodes: map[nodeKey]*artifact.Manifest{}}
	}
	s.nodes.nodes[keyOfManifest(n.Descriptor)] = n
	s.nodes.bytes += n.Descriptor.Size
}

// Walk calls fn for desc and then for all it reaches through manifests and
// indexes, each once, parents first. Subjects are not followed. A missing
// manifest is passed to fn, which may refuse it, and not followed.
func (s *Store) Walk(ctx context.Context, desc ocispec.Descriptor, fn func(ocispec.Descriptor) error) error {
	return s.walk(ctx, desc, map[nodeKey]bool{}, func(desc ocispec.Descriptor, _ *artifact.Manifest, err error) error {
		if err != nil && !errors.Is(err, errdef.ErrNotFound) {
			return err
		}
		return fn(desc)
	})
}

// walk visits desc and all it reaches, except keys in seen. For a manifest,
// visit receives the parsed manifest or the error of reading it. The same
// bytes named as a blob and as a manifest are two keys.
func (s *Store) walk(ctx context.Context, desc ocispec.Descriptor, seen map[nodeKey]bool, visit func(ocispec.Descriptor, *artifact.Manifest, error) error) error {
	queue := []ocispec.Descriptor{desc}
	for manifests := 0; len(queue) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		next := queue[0]
		queue = queue[1:]
		key := nodeKey{digest: next.Digest}
		if artifact.IsManifest(next.MediaType) {
			key.mediaType = next.MediaType
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		if key.mediaType == "" {
			if err := visit(next, nil, nil); err != nil {
				return err
			}
			continue
		}
		if manifests++; manifests > maxReach {
			return fmt.Errorf("%s reaches more than %d manifests", desc.Digest, maxReach)
		}
		n, readErr := s.node(next)
		if err := visit(next, n, readErr); err != nil {
			return err
		}
		if n != nil {
			queue = append(queue, n.Children...)
		}
	}
	return nil
}

// Predecessors returns the manifests that point to desc: its referrers, and the
// indexes and manifests that contain it, with artifact type and annotations
// filled in, sorted by digest.
func (s *Store) Predecessors(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	return s.pointing(ctx, desc, func(*artifact.Manifest) bool { return true })
}

// Referrers returns the manifests whose subject is desc, with artifact type and
// annotations filled in, sorted by digest; of one artifact type unless that is "".
func (s *Store) Referrers(ctx context.Context, desc ocispec.Descriptor, artifactType string) ([]ocispec.Descriptor, error) {
	return s.pointing(ctx, desc, func(n *artifact.Manifest) bool {
		return n.Subject != nil && n.Subject.Digest == desc.Digest && (artifactType == "" || n.ArtifactType == artifactType)
	})
}

func (s *Store) pointing(ctx context.Context, desc ocispec.Descriptor, want func(*artifact.Manifest) bool) ([]ocispec.Descriptor, error) {
	var parents []ocispec.Descriptor
	err := s.withGraph(ctx, func(g *graph, _ *nameIndex) error {
		for _, v := range g.parents[desc.Digest] {
			parents = append(parents, v.desc)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find predecessors of %s: %w", desc.Digest, err)
	}
	slices.SortFunc(parents, func(a, b ocispec.Descriptor) int { return cmp.Compare(a.Digest, b.Digest) })
	var out []ocispec.Descriptor
	for _, d := range parents {
		if n, err := s.node(d); err == nil && want(n) {
			out = append(out, n.ReferrersEntry())
		}
	}
	return out, nil
}
