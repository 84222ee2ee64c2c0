package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/registry"
)

// listTries is how often a pushed referrer is looked for in the registry's
// listing.
const listTries = 4

// referrersIn collects the referrers of main's manifests in the store, and
// their referrers.
func referrersIn(ctx context.Context, src *registry.Store, main *plan, depth int) (*plan, error) {
	found := &plan{seen: map[digest.Digest]int64{}}
	for _, m := range main.manifests {
		list, err := src.Referrers(ctx, m.desc, "")
		if err != nil {
			return nil, fmt.Errorf("listing the referrers of %s: %w", m.desc.Digest, err)
		}
		for _, d := range list {
			if _, inside := main.seen[d.Digest]; inside {
				continue
			}
			if err := found.add(ctx, src, d, filter{}, 0); err != nil {
				return nil, err
			}
		}
	}
	if len(found.manifests) == 0 || depth == maxNesting {
		return found, nil
	}
	more, err := referrersIn(ctx, src, found, depth+1)
	if err != nil {
		return nil, err
	}
	found.manifests = append(found.manifests, more.manifests...)
	found.blobs = append(found.blobs, more.blobs...)
	return found, nil
}

// sendReferrers sends the referrers that the registry does not list, until it
// does: without a referrers API, two concurrent clients may overwrite each
// other's list.
func (p *push) sendReferrers(ctx context.Context, referring *plan) error {
	missing, err := p.unlisted(ctx, referring.manifests)
	if err != nil {
		return err
	}
	for tries := 0; len(missing) > 0; tries++ {
		if tries == listTries {
			return fmt.Errorf("the registry does not list %s among the referrers of %s", missing[0].desc.Digest, missing[0].subject.Digest)
		}
		if tries > 0 {
			if err := sleep(ctx, p.c.backoff.wait(tries-1)); err != nil {
				return err
			}
		} else if err := p.sendParts(ctx, referring); err != nil {
			return err
		}
		for _, m := range missing {
			if err := p.r.Manifests().Push(ctx, m.desc, bytes.NewReader(m.data)); err != nil {
				return fmt.Errorf("referrer %s: %w", m.desc.Digest, err)
			}
		}
		if missing, err = p.unlisted(ctx, missing); err != nil {
			return err
		}
	}
	return nil
}

// sendParts sends the blobs and manifests below referrers.
func (p *push) sendParts(ctx context.Context, referring *plan) error {
	if err := p.sendBlobs(ctx, referring.blobs, nil); err != nil {
		return err
	}
	for _, m := range referring.manifests {
		if m.subject != nil {
			continue
		}
		if err := p.sendManifest(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// unlisted returns the referrers that the registry does not list.
func (p *push) unlisted(ctx context.Context, referring []manifest) ([]manifest, error) {
	listed := map[digest.Digest]map[digest.Digest]bool{} // by subject
	var missing []manifest
	for _, m := range referring {
		if m.subject == nil {
			continue // part of a referring index
		}
		if listed[m.subject.Digest] == nil {
			list, err := p.r.referrers(ctx, *m.subject)
			if err != nil {
				return nil, err
			}
			listed[m.subject.Digest] = map[digest.Digest]bool{}
			for _, d := range list {
				listed[m.subject.Digest][d.Digest] = true
			}
		}
		if !listed[m.subject.Digest][m.desc.Digest] {
			missing = append(missing, m)
		}
	}
	return missing, nil
}

// errEnough stops a listing.
var errEnough = errors.New("enough")

// clip copies a media type, so that its page can be freed. A too long one
// stays too long.
func clip(s string) string { return strings.Clone(s[:min(len(s), maxMediaType+1)]) }

// referrers lists the referrers of desc, bounded. A missing repository or
// manifest has none.
func (r *repository) referrers(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	var found []ocispec.Descriptor
	err := r.Referrers(ctx, desc, "", func(page []ocispec.Descriptor) error {
		for _, d := range page {
			// Annotations repeated in a listing are not worth their memory.
			found = append(found, ocispec.Descriptor{MediaType: clip(d.MediaType), Digest: d.Digest, Size: d.Size, ArtifactType: clip(d.ArtifactType)})
		}
		if len(found) >= maxReferrers {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return found, nil
	}
	if status(err) == http.StatusNotFound || errors.Is(err, errdef.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the referrers of %s: %w", desc.Digest, err)
	}
	return found, nil
}
