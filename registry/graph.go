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
)

// Docker's own names for the same two documents, found in older registries.
const (
	mediaDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	mediaDockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// Limits of the manifest graph.
const (
	maxReach     = 100_000 // manifests one name may reach
	maxMediaType = 255     // bytes of a media type (RFC 6838 §4.2), which entries of the index repeat
	maxPoolBytes = 8 << 20 // manifests held in memory
)

// IsManifest tells media types whose content points to other content.
func IsManifest(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageManifest || mediaType == mediaDockerManifest || isIndex(mediaType)
}

func isIndex(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageIndex || mediaType == mediaDockerList
}

// node is a manifest or index as far as the graph needs it.
type node struct {
	desc         ocispec.Descriptor // plain
	subject      *ocispec.Descriptor
	children     []ocispec.Descriptor // config and layers, or manifests
	artifactType string
	annotations  map[string]string
}

// manifestDoc is the union of an image manifest and an image index.
type manifestDoc struct {
	SchemaVersion int                  `json:"schemaVersion"`
	MediaType     string               `json:"mediaType"`
	ArtifactType  string               `json:"artifactType"`
	Config        *ocispec.Descriptor  `json:"config"`
	Layers        []ocispec.Descriptor `json:"layers"`
	Manifests     []ocispec.Descriptor `json:"manifests"`
	Subject       *ocispec.Descriptor  `json:"subject"`
	Annotations   map[string]string    `json:"annotations"`
}

// Manifest is what any image manifest or index points to.
type Manifest struct {
	Subject      *ocispec.Descriptor  // nil: none
	Children     []ocispec.Descriptor // config and layers, or manifests
	ArtifactType string               // its own, or its config's media type
}

// ParseManifest reads a manifest or index of any artifact. The caller has
// checked that data is what desc describes.
func ParseManifest(desc ocispec.Descriptor, data []byte) (*Manifest, error) {
	if !IsManifest(desc.MediaType) {
		return nil, fmt.Errorf("%q is no manifest: %w", shorten(desc.MediaType), errdef.ErrInvalidMediaType)
	}
	n, err := parseNode(desc, data)
	if err != nil {
		return nil, err
	}
	return &Manifest{Subject: n.subject, Children: n.children, ArtifactType: n.artifactType}, nil
}

// parseNode reads the manifest data whose digest the caller has checked.
func parseNode(desc ocispec.Descriptor, data []byte) (*node, error) {
	var doc manifestDoc
	if err := decodeStrict(data, &doc); err != nil {
		return nil, err
	}
	if doc.SchemaVersion != 2 {
		return nil, fmt.Errorf("schemaVersion %d where 2 is meant", doc.SchemaVersion)
	}
	if doc.MediaType != "" && doc.MediaType != desc.MediaType {
		return nil, fmt.Errorf("mediaType %q under a descriptor of %q", shorten(doc.MediaType), desc.MediaType)
	}
	n := &node{desc: plain(desc), subject: doc.Subject, artifactType: doc.ArtifactType, annotations: doc.Annotations}
	if isIndex(desc.MediaType) {
		if doc.Config != nil || doc.Layers != nil {
			return nil, errors.New("an index with config or layers")
		}
		n.children = doc.Manifests
	} else {
		if doc.Config == nil || doc.Manifests != nil {
			return nil, errors.New("a manifest without config, or with manifests")
		}
		n.children = append([]ocispec.Descriptor{*doc.Config}, doc.Layers...)
		n.artifactType = cmp.Or(n.artifactType, doc.Config.MediaType)
	}
	if len(n.artifactType) > maxMediaType {
		return nil, fmt.Errorf("artifactType of %d bytes, limit %d", len(n.artifactType), maxMediaType)
	}
	for i, child := range n.children {
		if err := checkDescriptor(child); err != nil {
			return nil, fmt.Errorf("descriptor %d: %w", i, err)
		}
	}
	if n.subject != nil {
		if err := checkDescriptor(*n.subject); err != nil {
			return nil, fmt.Errorf("subject: %w", err)
		}
	}
	return n, nil
}

// manifestPool holds parsed manifests by digest and media type. Content under a
// digest never changes, so it needs no invalidation.
type manifestPool struct {
	nodes map[nodeKey]*node
	bytes int64
}

type nodeKey struct {
	digest    digest.Digest
	mediaType string
}

// node reads the manifest desc, checking its digest.
func (s *Store) node(desc ocispec.Descriptor) (*node, error) {
	key := nodeKey{desc.Digest, desc.MediaType}
	s.mu.Lock()
	n := s.nodes.nodes[key]
	s.mu.Unlock()
	if n != nil && n.desc.Size == desc.Size {
		return n, nil
	}
	data, err := s.readBlob(desc, MaxManifestBytes)
	if err != nil {
		return nil, err
	}
	n, err = parseNode(desc, data)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", desc.Digest, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes.nodes == nil || s.nodes.bytes+desc.Size > maxPoolBytes {
		s.nodes = manifestPool{nodes: map[nodeKey]*node{}}
	}
	s.nodes.nodes[key] = n
	s.nodes.bytes += desc.Size
	return n, nil
}

// Walk calls fn for desc and then for all it reaches through manifests and
// indexes, each once, parents first. Subjects are not followed. A manifest that
// is not there is passed to fn and not followed; fn may refuse it.
func (s *Store) Walk(ctx context.Context, desc ocispec.Descriptor, fn func(ocispec.Descriptor) error) error {
	return s.walk(ctx, desc, map[nodeKey]bool{}, func(desc ocispec.Descriptor, _ *node, err error) error {
		if err != nil && !errors.Is(err, errdef.ErrNotFound) {
			return err
		}
		return fn(desc)
	})
}

// walk visits desc and all it reaches, but for what is in seen. For a manifest
// visit gets the node, or the error of reading it. The same bytes may be named
// as a blob and as a manifest; each counts.
func (s *Store) walk(ctx context.Context, desc ocispec.Descriptor, seen map[nodeKey]bool, visit func(ocispec.Descriptor, *node, error) error) error {
	queue := []ocispec.Descriptor{desc}
	for manifests := 0; len(queue) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		next := queue[0]
		queue = queue[1:]
		key := nodeKey{digest: next.Digest}
		if IsManifest(next.MediaType) {
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
			queue = append(queue, n.children...)
		}
	}
	return nil
}

// Predecessors returns the manifests that point to desc: its referrers, and the
// indexes and manifests that contain it, with artifact type and annotations
// filled in, sorted by digest.
func (s *Store) Predecessors(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	return s.pointing(ctx, desc, func(*node) bool { return true })
}

// Referrers returns the manifests whose subject is desc, with artifact type and
// annotations filled in, sorted by digest; of one artifact type unless that is "".
func (s *Store) Referrers(ctx context.Context, desc ocispec.Descriptor, artifactType string) ([]ocispec.Descriptor, error) {
	return s.pointing(ctx, desc, func(n *node) bool {
		return n.subject != nil && n.subject.Digest == desc.Digest && (artifactType == "" || n.artifactType == artifactType)
	})
}

func (s *Store) pointing(ctx context.Context, desc ocispec.Descriptor, want func(*node) bool) ([]ocispec.Descriptor, error) {
	var parents []ocispec.Descriptor
	err := s.withGraph(ctx, func(g *graph, _ *index) error {
		for _, v := range g.parents[desc.Digest] {
			parents = append(parents, v.desc)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for what points to %s: %w", desc.Digest, err)
	}
	slices.SortFunc(parents, func(a, b ocispec.Descriptor) int { return cmp.Compare(a.Digest, b.Digest) })
	var out []ocispec.Descriptor
	for _, d := range parents {
		if n, err := s.node(d); err == nil && want(n) {
			out = append(out, n.described())
		}
	}
	return out, nil
}

// described is the node's descriptor as the referrers API shows it
// (distribution-spec v1.1, Listing Referrers).
func (n *node) described() ocispec.Descriptor {
	desc := n.desc
	desc.ArtifactType, desc.Annotations = n.artifactType, n.annotations
	return desc
}
