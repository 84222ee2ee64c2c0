package sign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// Limits on the referrers of one manifest. Any writer of a registry may attach
// referrers, so their number is untrusted.
const (
	maxReferrers   = 10_000   // listed
	maxBundles     = 256      // read once the policy is content
	maxManifests   = 4096     // read at all
	maxBundleBytes = 16 << 20 // read at all, manifests and bundles
	maxReferrer    = 64 << 10 // bytes of a bundle's manifest
)

// errEnough stops a listing.
var errEnough = errors.New("enough")

// lister lists referrers page by page, as a repository of oras-go does.
type lister interface {
	Referrers(ctx context.Context, desc ocispec.Descriptor, artifactType string, fn func(page []ocispec.Descriptor) error) error
}

// finder returns all referrers in one call, as the store does.
type finder interface {
	Referrers(ctx context.Context, desc ocispec.Descriptor, artifactType string) ([]ocispec.Descriptor, error)
}

// bundles lists the bundle manifests that refer to desc: those that claim to
// be a release first, small ones first within each group, so that junk costs
// its author more than a signature does and is read later. The listing is only
// a claim: some registries list the config's media type as artifact type, so
// the filtering is done here.
func bundles(ctx context.Context, src content.ReadOnlyGraphStorage, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	var found []ocispec.Descriptor
	listed := 0
	take := func(page []ocispec.Descriptor) error {
		for _, d := range page {
			switch d.ArtifactType {
			case BundleMediaType, ocispec.MediaTypeEmptyJSON, "":
				found = append(found, d)
			}
			if listed++; listed >= maxReferrers {
				return errEnough
			}
		}
		return nil
	}
	var err error
	switch s := src.(type) {
	case lister:
		err = s.Referrers(ctx, desc, "", take)
	case finder:
		var page []ocispec.Descriptor
		if page, err = s.Referrers(ctx, desc, ""); err == nil {
			err = take(page)
		}
	default:
		var page []ocispec.Descriptor
		if page, err = s.Predecessors(ctx, desc); err == nil {
			err = take(page)
		}
	}
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("listing the referrers of %s: %w", desc.Digest, err)
	}
	found = slices.DeleteFunc(found, func(d ocispec.Descriptor) bool {
		return d.MediaType != ocispec.MediaTypeImageManifest || d.Size > maxReferrer
	})
	slices.SortFunc(found, func(a, b ocispec.Descriptor) int {
		return cmp.Or(cmp.Compare(claim(a), claim(b)), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Digest, b.Digest))
	})
	found = slices.CompactFunc(found, func(a, b ocispec.Descriptor) bool { return a.Digest == b.Digest })
	return found[:min(len(found), maxManifests)], nil
}

// claim ranks a listed bundle by its annotations.
func claim(d ocispec.Descriptor) int {
	switch d.Annotations[annotationPredicate] {
	case ReleaseType:
		return 0
	case "":
		return 1
	}
	return 2
}

// fetchBundle reads the bundle of the manifest desc. It returns nil if the
// manifest is not that of a bundle about subject, and a [*Refusal] if the
// bundle cannot be read. The bytes read are subtracted from the budget.
func fetchBundle(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor, subject digest.Digest, budget *int64) (*opened, error) {
	if desc.Size > maxReferrer {
		return nil, refusal(Malformed, subject, "the bundle's manifest %s has %d bytes, over the limit of %d", desc.Digest, desc.Size, maxReferrer)
	}
	*budget -= desc.Size
	data, err := fetchManifest(ctx, src, desc)
	if err != nil {
		return nil, malformed(err, subject, desc.Digest)
	}
	var m ocispec.Manifest
	if err := strictJSON(data, &m); err != nil {
		return nil, refusal(Malformed, subject, "the bundle's manifest %s: %v", desc.Digest, err)
	}
	if m.ArtifactType != BundleMediaType {
		return nil, nil
	}
	if m.Subject == nil || m.Subject.Digest != subject {
		return nil, refusal(OtherSubject, subject, "the bundle %s is attached to another manifest", desc.Digest)
	}
	if len(m.Layers) != 1 || m.Layers[0].MediaType != BundleMediaType {
		return nil, refusal(Malformed, subject, "the bundle's manifest %s holds %d layers, not one bundle", desc.Digest, len(m.Layers))
	}
	layer := m.Layers[0]
	if layer.Size > maxBundle {
		return nil, refusal(Malformed, subject, "the bundle %s has %d bytes, over the limit of %d", layer.Digest, layer.Size, maxBundle)
	}
	*budget -= max(layer.Size, 0)
	if data, err = fetchManifest(ctx, src, layer); err != nil {
		return nil, malformed(err, subject, layer.Digest)
	}
	o, err := open(data)
	if err != nil {
		return nil, refusal(Malformed, subject, "the bundle %s: %v", layer.Digest, err)
	}
	return o, nil
}

// malformed maps the refusal of a signature's own bytes to one of the subject:
// the artifact is refused.
func malformed(err error, subject, part digest.Digest) error {
	var r *Refusal
	if errors.As(err, &r) && r.Reason == Missing {
		r = refusal(Missing, subject, "the signature's part %s is listed and not found", part)
		r.Hint = "try again in a moment, since a registry may show it late; or push the signature again"
		return r
	}
	if errors.As(err, &r) {
		return refusal(Malformed, subject, "the signature's part %s: %s", part, r.Detail)
	}
	return err
}

// tagged is a repository that finds the tags of cosign's older form, in which signatures
// (sig) and evidence (att) are manifests under a tag instead of bundles.
type tagged interface {
	OlderTag(ctx context.Context, subject digest.Digest, kind string) (string, error)
}

// olderTag returns the tag of cosign's older form, or "". An error of the repository does
// not matter: the tag only explains a refusal.
func olderTag(ctx context.Context, src content.ReadOnlyGraphStorage, desc ocispec.Descriptor, kind string) string {
	if s, ok := src.(tagged); ok {
		if tag, err := s.OlderTag(ctx, desc.Digest, kind); err == nil {
			return tag
		}
	}
	return ""
}

// OlderEvidence returns the tag under which the source has evidence about desc in the
// older form of cosign, which is not read; "" without one.
func OlderEvidence(ctx context.Context, src content.ReadOnlyGraphStorage, desc ocispec.Descriptor) string {
	return olderTag(ctx, src, desc, "att")
}
