package sign

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

// Annotations of a bundle's manifest, as cosign sets and lists them.
const (
	annotationContent   = "dev.sigstore.bundle.content"
	annotationPredicate = "dev.sigstore.bundle.predicateType"
	contentDSSE         = "dsse-envelope"
)

// Target receives signatures: the store, a layout or a repository of a
// registry. Pushing a manifest with a subject must make it a referrer of the
// subject.
type Target interface {
	content.Fetcher
	content.Pusher
}

// Options for [Sign].
type Options struct {
	Created time.Time // the created annotation, from SOURCE_DATE_EPOCH. Zero: none
}

// Signature is one bundle and the manifest it is about.
type Signature struct {
	Subject ocispec.Descriptor
	Bundle  ocispec.Descriptor // of the OCI manifest that holds the bundle
}

// Sign releases subject, a manifest or an index in dst: it attaches a release
// signature to it and, for an index, to every manifest below it, since each of
// them is also used separately. The result lists them in the order of signing,
// subject last. Signing is idempotent for the same key and options. Nothing is
// attached before all is signed.
func Sign(ctx context.Context, dst Target, subject ocispec.Descriptor, by Sealer, opt Options) ([]Signature, error) {
	type sealed struct {
		subject ocispec.Descriptor
		bundle  []byte
	}
	var all []sealed
	done := map[string]bool{}
	release := Attestation{PredicateType: ReleaseType, Predicate: json.RawMessage("{}")}
	err := walkManifests(ctx, dst, subject, 0, func(d ocispec.Descriptor) error {
		if done[d.Digest.String()] {
			return nil
		}
		done[d.Digest.String()] = true
		data, err := seal(ctx, by, d.Digest, release)
		if err != nil {
			return fmt.Errorf("signing %s: %w", d.Digest, err)
		}
		all = append(all, sealed{d, data})
		return nil
	})
	if err != nil {
		return nil, err
	}
	var signatures []Signature
	for _, one := range all {
		bundle, err := attach(ctx, dst, one.subject, release.PredicateType, one.bundle, opt)
		if err != nil {
			return nil, fmt.Errorf("signing %s: %w", one.subject.Digest, err)
		}
		signatures = append(signatures, Signature{Subject: one.subject, Bundle: bundle})
	}
	return signatures, nil
}

// attach writes bundle, empty config and manifest, in this order, so that no
// manifest names a missing blob.
func attach(ctx context.Context, dst content.Pusher, subject ocispec.Descriptor, predicateType string, data []byte, opt Options) (ocispec.Descriptor, error) {
	layer := content.NewDescriptorFromBytes(BundleMediaType, data)
	config := ocispec.DescriptorEmptyJSON
	annotations := map[string]string{annotationContent: contentDSSE, annotationPredicate: predicateType}
	if !opt.Created.IsZero() {
		annotations[ocispec.AnnotationCreated] = opt.Created.UTC().Format(time.RFC3339)
	}
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned:    specs.Versioned{SchemaVersion: 2},
		MediaType:    ocispec.MediaTypeImageManifest,
		ArtifactType: BundleMediaType,
		Config:       ocispec.Descriptor{MediaType: config.MediaType, Digest: config.Digest, Size: config.Size},
		Layers:       []ocispec.Descriptor{layer},
		Subject:      &ocispec.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size},
		Annotations:  annotations,
	})
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("encoding the manifest: %w", err)
	}
	desc := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, manifest)
	desc.ArtifactType, desc.Annotations = BundleMediaType, annotations
	for _, part := range []struct {
		desc ocispec.Descriptor
		data []byte
	}{{layer, data}, {config, config.Data}, {desc, manifest}} {
		if err := dst.Push(ctx, part.desc, bytes.NewReader(part.data)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
			return ocispec.Descriptor{}, fmt.Errorf("storing the signature: %w", err)
		}
	}
	return desc, nil
}
