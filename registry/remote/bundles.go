package remote

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
)

// bundleType is the beginning of the artifact types of Sigstore bundles, all
// versions: signatures, and attestations such as SBOM and provenance.
const bundleType = "application/vnd.dev.sigstore.bundle"

// Limits on the signatures that are pulled with a manifest. Any writer of a
// repository may attach referrers, so referrers without a trusted signature
// cost a bounded number of bytes and are not kept.
const (
	maxReferrers     = 10_000   // listed for one manifest
	maxReferrer      = 64 << 10 // bytes of a bundle's manifest, and of its config
	maxBundle        = 1 << 20  // bytes of a bundle
	maxMediaType     = 255      // bytes of an artifact type
	maxLooked        = 1024     // bundles looked at in one pull
	maxLookedBytes   = 16 << 20 // of them, manifests and bundles
	maxKept          = 256      // bundles kept of one manifest
	maxKeptUnvouched = 16       // without a voucher
)

// source is where an artifact comes from.
type source interface {
	content.ReadOnlyGraphStorage
	list(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error)
}

// voucher is a [Verifier] that recognizes the bundles to keep.
type voucher interface {
	Vouches(ctx context.Context, src content.Fetcher, subject, bundle ocispec.Descriptor) (bool, error)
}

// bundles collects the signatures and attestations of main's manifests that
// are to be kept. Inconsistent and damaged ones are left out.
func bundles(ctx context.Context, src source, main *plan, opt PullOptions) (*plan, error) {
	keep, most := opt.Keep, maxKept
	if v, ok := opt.Verifier.(voucher); keep == nil && ok {
		keep = v.Vouches
	}
	if keep == nil || opt.AllReferrers {
		if !opt.AllReferrers {
			most = maxKeptUnvouched
		}
		keep = func(context.Context, content.Fetcher, ocispec.Descriptor, ocispec.Descriptor) (bool, error) {
			return true, nil
		}
	}
	found := &plan{seen: map[digest.Digest]int64{}}
	looked, budget := 0, int64(maxLookedBytes)
	for _, m := range main.manifests {
		list, err := src.list(ctx, m.desc)
		if err != nil && !errors.As(err, new(*unlistedError)) { // the verifier decides without a list
			return nil, err
		}
		list = slices.DeleteFunc(list, func(d ocispec.Descriptor) bool { return !opt.AllReferrers && !maybeBundle(d) })
		slices.SortFunc(list, func(a, b ocispec.Descriptor) int {
			return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(a.Digest, b.Digest))
		})
		kept := 0
		for _, d := range list {
			if kept == most || looked == maxLooked || budget < 0 {
				break
			}
			looked++
			budget -= d.Size
			one, err := newPlan(ctx, src, d, filter{})
			if err == nil && opt.AllReferrers && one.refersTo(m.desc) {
				kept++
				found.merge(one)
			} else if err == nil && one.bundleOf(m.desc) {
				budget -= one.manifests[0].layers[0].Size
				var ok bool
				if ok, err = keep(ctx, src, m.desc, d); ok && err == nil {
					kept++
					found.merge(one)
				}
			}
			if err != nil && !errors.Is(err, ErrHostile) && !errors.Is(err, artifact.ErrCorrupt) && !errors.Is(err, errdef.ErrNotFound) {
				return nil, err
			}
		}
	}
	return found, nil
}

// maybeBundle reports whether a listed manifest may be a bundle. Some
// registries list the config's media type as artifact type.
func maybeBundle(d ocispec.Descriptor) bool {
	return d.MediaType == ocispec.MediaTypeImageManifest && d.Size <= maxReferrer && len(d.ArtifactType) <= maxMediaType &&
		(d.ArtifactType == "" || d.ArtifactType == ocispec.MediaTypeEmptyJSON || strings.HasPrefix(d.ArtifactType, bundleType))
}

// bundleOf reports whether the plan is a single bundle about subject, of
// bounded size.
func (p *plan) bundleOf(subject ocispec.Descriptor) bool {
	m := p.manifests[0]
	return len(p.manifests) == 1 && m.subject != nil && m.subject.Digest == subject.Digest &&
		strings.HasPrefix(m.artifactType, bundleType) && len(m.artifactType) <= maxMediaType &&
		m.config != nil && m.config.Size <= maxReferrer &&
		len(m.layers) == 1 && strings.HasPrefix(m.layers[0].MediaType, bundleType) && m.layers[0].Size <= maxBundle
}

// refersTo reports whether the plan is a single manifest about subject.
func (p *plan) refersTo(subject ocispec.Descriptor) bool {
	m := p.manifests[0]
	return len(p.manifests) == 1 && m.subject != nil && m.subject.Digest == subject.Digest
}

// merge adds the manifests and blobs of other that p lacks.
func (p *plan) merge(other *plan) {
	for _, m := range other.manifests {
		if _, ok := p.seen[m.desc.Digest]; !ok {
			p.seen[m.desc.Digest] = m.desc.Size
			p.manifests = append(p.manifests, m)
		}
	}
	for _, b := range other.blobs {
		if _, ok := p.seen[b.Digest]; !ok {
			p.seen[b.Digest] = b.Size
			p.blobs = append(p.blobs, b)
		}
	}
}

// layout is an image layout as a source.
type layout struct{ *registry.Store }

func (l layout) list(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	return l.Referrers(ctx, desc, "")
}
