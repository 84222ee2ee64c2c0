package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
)

// ErrHostile reports an artifact beyond the limits, or with digests that cannot
// be checked. It is a judgment of the artifact; an unexpected answer of a registry
// is an [OddError].
var ErrHostile = errors.New("refused")

// errUnsendable reports an artifact of this machine that is beyond the limits of a
// push. Nothing was verified, so it is not [ErrHostile].
var errUnsendable = errors.New("cannot be pushed")

// ErrReceived reports received bytes that do not match their digest: the
// registry is damaged, or the bytes were changed on the way. None of them were
// kept.
var ErrReceived = errors.New("the registry sent other bytes")

// Limits of an artifact.
const (
	maxNesting  = 4        // indexes within indexes
	maxNodes    = 100_000  // descriptors in all
	maxMetadata = 32 << 20 // bytes of manifests in all
)

// plan is everything that has to be moved for one artifact.
type plan struct {
	manifests []manifest           // children before parents, each digest once
	blobs     []ocispec.Descriptor // configs and layers, each digest once
	left      int                  // layers that were not requested
	seen      map[digest.Digest]int64
	nodes     int
	bytes     int64
	fault     error // the class of an artifact that is beyond the limits: ErrHostile or errUnsendable
}

// manifest is a manifest or index and its checked bytes.
type manifest struct {
	desc         ocispec.Descriptor
	subject      *ocispec.Descriptor
	artifactType string
	config       *ocispec.Descriptor
	layers       []ocispec.Descriptor
	annotations  map[string]string
	data         []byte
}

// filter selects parts of an artifact. The zero value selects all.
type filter struct {
	only   func(layer ocispec.Descriptor) bool
	target string // of an index, the layers of this target's manifests only
	fault  error  // what an artifact beyond the limits is. Nil: ErrHostile
}

// document is a manifest or an index as far as it is needed here.
type document struct {
	ArtifactType string               `json:"artifactType"`
	Config       *ocispec.Descriptor  `json:"config"`
	Layers       []ocispec.Descriptor `json:"layers"`
	Manifests    []ocispec.Descriptor `json:"manifests"`
	Subject      *ocispec.Descriptor  `json:"subject"`
	Annotations  map[string]string    `json:"annotations"`
}

// newPlan reads the manifests below desc from src.
func newPlan(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor, f filter) (*plan, error) {
	p := &plan{seen: map[digest.Digest]int64{}, fault: f.fault}
	if p.fault == nil {
		p.fault = ErrHostile
	}
	if err := p.add(ctx, src, desc, f, 0); err != nil {
		return nil, err
	}
	return p, nil
}

// add adds desc and all below it to the plan.
func (p *plan) add(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor, f filter, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("%w: indexes nested deeper than %d", p.fault, maxNesting)
	}
	fresh, err := p.first(desc)
	if err != nil || !fresh {
		return err
	}
	data, err := readManifest(ctx, src, desc, p.fault)
	if err != nil {
		return err
	}
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("%w: manifest %s: %w", p.fault, desc.Digest, err)
	}
	p.nodes += 2 + len(doc.Layers) + len(doc.Manifests)
	if p.bytes += desc.Size; p.nodes > maxNodes || p.bytes > maxMetadata {
		return fmt.Errorf("%w: more than %d blobs or %d bytes of manifests", p.fault, maxNodes, maxMetadata)
	}
	for _, child := range doc.Manifests {
		if !artifact.IsManifest(child.MediaType) {
			return fmt.Errorf("%w: index %s names a %.80q", p.fault, desc.Digest, child.MediaType)
		}
		inner := f
		if t := child.Annotations[abi.AnnotationTarget]; f.target != "" && t != "" && t != f.target {
			inner.only = func(ocispec.Descriptor) bool { return false }
		}
		if err := p.add(ctx, src, child, inner, depth+1); err != nil {
			return err
		}
	}
	if err := p.addBlobs(doc, f); err != nil {
		return fmt.Errorf("manifest %s: %w", desc.Digest, err)
	}
	p.manifests = append(p.manifests, manifest{desc: desc, subject: doc.Subject, artifactType: doc.ArtifactType, config: doc.Config, layers: doc.Layers, annotations: doc.Annotations, data: data})
	return nil
}

// addBlobs adds the config and the selected layers of a manifest.
func (p *plan) addBlobs(doc document, f filter) error {
	if doc.Config != nil {
		if fresh, err := p.first(*doc.Config); err != nil {
			return err
		} else if fresh {
			p.blobs = append(p.blobs, *doc.Config)
		}
	}
	for _, l := range doc.Layers {
		if f.only != nil && !f.only(l) {
			p.left++
			continue
		}
		if fresh, err := p.first(l); err != nil {
			return err
		} else if fresh {
			p.blobs = append(p.blobs, l)
		}
	}
	return nil
}

// first reports whether the plan meets desc for the first time, and refuses
// descriptors that cannot be checked.
func (p *plan) first(desc ocispec.Descriptor) (bool, error) {
	if err := desc.Digest.Validate(); err != nil {
		return false, fmt.Errorf("%w: digest %.80q: %w", p.fault, desc.Digest, err)
	}
	if desc.Size < 0 {
		return false, fmt.Errorf("%w: %s has a size of %d", p.fault, desc.Digest, desc.Size)
	}
	size, seen := p.seen[desc.Digest]
	if seen && size != desc.Size {
		return false, fmt.Errorf("%w: %s is named with two sizes, %d and %d", p.fault, desc.Digest, size, desc.Size)
	}
	p.seen[desc.Digest] = desc.Size
	return !seen, nil
}

// readManifest reads a manifest or index and checks its digest.
func readManifest(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor, fault error) ([]byte, error) {
	if desc.Size > maxManifest {
		return nil, fmt.Errorf("%w: manifest %s of %d bytes, limit %d", fault, desc.Digest, desc.Size, maxManifest)
	}
	r, err := src.Fetch(ctx, desc)
	if err != nil {
		return nil, fmt.Errorf("fetching manifest %s: %w", desc.Digest, err)
	}
	defer r.Close()
	var data bytes.Buffer
	if _, err := data.ReadFrom(io.LimitReader(r, desc.Size+1)); err != nil {
		return nil, fmt.Errorf("fetching manifest %s: %w", desc.Digest, err)
	}
	if int64(data.Len()) != desc.Size || desc.Digest.Algorithm().FromBytes(data.Bytes()) != desc.Digest {
		return nil, fmt.Errorf("manifest %s: %w", desc.Digest, artifact.ErrCorrupt)
	}
	return data.Bytes(), nil
}
