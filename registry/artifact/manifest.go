package artifact

import (
	"cmp"
	"errors"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
)

// Docker's media types for the same two documents, found in older registries.
const (
	mediaDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	mediaDockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// ManifestTypes returns the media types for which [IsManifest] holds.
func ManifestTypes() []string {
	return []string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex, mediaDockerManifest, mediaDockerList}
}

// IsManifest reports whether content of the media type points to other content.
func IsManifest(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageManifest || mediaType == mediaDockerManifest || isIndex(mediaType)
}

func isIndex(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageIndex || mediaType == mediaDockerList
}

// Manifest holds the references of an image manifest or index of any artifact.
type Manifest struct {
	Descriptor   ocispec.Descriptor   // media type, digest and size only
	Subject      *ocispec.Descriptor  // nil: none
	Children     []ocispec.Descriptor // config and layers, or manifests
	ArtifactType string               // if the manifest has none, its config's media type
	Annotations  map[string]string
}

// document is the union of an image manifest and an image index.
type document struct {
	SchemaVersion int                  `json:"schemaVersion"`
	MediaType     string               `json:"mediaType"`
	ArtifactType  string               `json:"artifactType"`
	Config        *ocispec.Descriptor  `json:"config"`
	Layers        []ocispec.Descriptor `json:"layers"`
	Manifests     []ocispec.Descriptor `json:"manifests"`
	Subject       *ocispec.Descriptor  `json:"subject"`
	Annotations   map[string]string    `json:"annotations"`
}

// ParseManifest parses a manifest or index of any artifact. The caller has
// checked data against desc.
func ParseManifest(desc ocispec.Descriptor, data []byte) (*Manifest, error) {
	if !IsManifest(desc.MediaType) {
		return nil, fmt.Errorf("%q is not a manifest: %w", Shorten(desc.MediaType), errdef.ErrInvalidMediaType)
	}
	var doc document
	if err := DecodeStrict(data, &doc); err != nil {
		return nil, err
	}
	if doc.SchemaVersion != 2 {
		return nil, fmt.Errorf("schemaVersion: got %d, want 2", doc.SchemaVersion)
	}
	if doc.MediaType != "" && doc.MediaType != desc.MediaType {
		return nil, fmt.Errorf("mediaType: got %q, want %q as in the descriptor", Shorten(doc.MediaType), desc.MediaType)
	}
	m := &Manifest{Descriptor: Plain(desc), Subject: doc.Subject, ArtifactType: doc.ArtifactType, Annotations: doc.Annotations}
	if isIndex(desc.MediaType) {
		if doc.Config != nil || doc.Layers != nil {
			return nil, errors.New("index with config or layers")
		}
		m.Children = doc.Manifests
	} else {
		if doc.Config == nil || doc.Manifests != nil {
			return nil, errors.New("manifest without config, or with manifests")
		}
		m.Children = append([]ocispec.Descriptor{*doc.Config}, doc.Layers...)
		m.ArtifactType = cmp.Or(m.ArtifactType, doc.Config.MediaType)
	}
	if len(m.ArtifactType) > maxMediaType {
		return nil, fmt.Errorf("artifactType too long: got %d bytes, limit %d", len(m.ArtifactType), maxMediaType)
	}
	for i, child := range m.Children {
		if err := CheckDescriptor(child); err != nil {
			return nil, fmt.Errorf("descriptor %d: %w", i, err)
		}
	}
	if m.Subject != nil {
		if err := CheckDescriptor(*m.Subject); err != nil {
			return nil, fmt.Errorf("subject: %w", err)
		}
	}
	return m, nil
}

// ReferrersEntry returns the manifest's descriptor as the referrers API lists it
// (distribution-spec v1.1, Listing Referrers).
func (m *Manifest) ReferrersEntry() ocispec.Descriptor {
	desc := m.Descriptor
	desc.ArtifactType, desc.Annotations = m.ArtifactType, m.Annotations
	return desc
}
