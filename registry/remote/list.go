package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"

	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
)

// fallbackTag matches the tags under which registries without the referrers API
// keep referrers, and cosign's older signatures. They name no artifact.
var fallbackTag = regexp.MustCompile(`^sha256-[0-9a-f]{64}(\.(sig|att|sbom))?$`)

// Resolve returns the descriptor that ref points to. If there is none, the
// error is errdef.ErrNotFound.
func (c *Client) Resolve(ctx context.Context, ref string) (ocispec.Descriptor, error) {
	ctx, stop := c.within(ctx)
	defer stop()
	desc, err := c.resolve(ctx, ref)
	if err != nil {
		return desc, fmt.Errorf("resolve %s: %w", ref, c.ended(ctx, err))
	}
	return desc, nil
}

func (c *Client) resolve(ctx context.Context, ref string) (ocispec.Descriptor, error) {
	from, err := ParseReference(ref)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	if from.Layout == "" {
		r := c.repository(from)
		return r.resolve(auth.AppendRepositoryScope(ctx, r.Reference, auth.ActionPull), from)
	}
	src, err := registry.Open(from.Layout, registry.Options{ReadOnly: true})
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	defer src.Close()
	return resolveLayout(ctx, src, from)
}

// resolve returns the descriptor that ref points to.
func (r *repository) resolve(ctx context.Context, ref Reference) (ocispec.Descriptor, error) {
	desc, _, err := r.fetchManifest(ctx, ref)
	return desc, err
}

// fetchManifest fetches the manifest behind the tag or digest, so that its digest
// is computed and not the registry's claim.
func (r *repository) fetchManifest(ctx context.Context, ref Reference) (desc ocispec.Descriptor, data []byte, err error) {
	if ref.target() == "" {
		return desc, nil, fmt.Errorf("missing tag or digest: %w", errdef.ErrMissingReference)
	}
	desc, body, err := r.FetchReference(ctx, ref.target())
	if err != nil {
		return desc, nil, err
	}
	defer body.Close()
	if !artifact.IsManifest(desc.MediaType) {
		return desc, nil, fmt.Errorf("%w: %.80q is not a manifest", ErrHostile, desc.MediaType)
	}
	if desc.Size > maxManifest {
		return desc, nil, fmt.Errorf("%w: manifest of %d bytes, limit %d", ErrHostile, desc.Size, maxManifest)
	}
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(io.LimitReader(body, desc.Size+1)); err != nil {
		return desc, nil, err
	}
	if int64(buf.Len()) != desc.Size || desc.Digest.Algorithm().FromBytes(buf.Bytes()) != desc.Digest {
		return desc, nil, fmt.Errorf("manifest %s: %w", desc.Digest, artifact.ErrCorrupt)
	}
	return desc, buf.Bytes(), nil
}

// Tags lists the tags of a repository ("registry.example/team/core-llm"), or
// the reference names of a layout ("oci:DIR"), sorted, without the tags that
// substitute for the referrers API. A missing repository has none.
func (c *Client) Tags(ctx context.Context, repo string) ([]string, error) {
	ctx, stop := c.within(ctx)
	defer stop()
	from, err := ParseReference(repo)
	if err != nil {
		return nil, fmt.Errorf("tags: %w", err)
	}
	var tags []string
	if from.Layout != "" {
		tags, err = layoutTags(ctx, from.Layout)
	} else {
		r := c.repository(from)
		err = r.Tags(auth.AppendRepositoryScope(ctx, r.Reference, auth.ActionPull), "", func(page []string) error {
			tags = append(tags, page...)
			if len(tags) > maxListed {
				return fmt.Errorf("%w: more than %d tags", ErrHostile, maxListed)
			}
			return nil
		})
	}
	if err != nil && (status(err) == 404 || errors.Is(err, errdef.ErrNotFound)) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("tags of %s: %w", repo, c.ended(ctx, err))
	}
	tags = slices.DeleteFunc(tags, fallbackTag.MatchString)
	slices.Sort(tags)
	return slices.Compact(tags), nil
}

func layoutTags(ctx context.Context, dir string) ([]string, error) {
	src, err := registry.Open(dir, registry.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer src.Close()
	list, err := src.Tags(ctx)
	var names []string
	for _, t := range list {
		names = append(names, t.Ref)
	}
	return names, err
}

// Referrers lists the referrers of desc in the repository of ref, of one
// artifact type unless it is "". The listing is the registry's claim; verify
// the manifests themselves.
func (c *Client) Referrers(ctx context.Context, repo string, desc ocispec.Descriptor, artifactType string) ([]ocispec.Descriptor, error) {
	from, err := ParseReference(repo)
	if err == nil && from.Layout != "" {
		err = fmt.Errorf("%w: a layout; open it as a store", errdef.ErrUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("referrers in %s: %w", repo, err)
	}
	ctx, stop := c.within(ctx)
	defer stop()
	r := c.repository(from)
	list, err := r.referrers(auth.AppendRepositoryScope(ctx, r.Reference, auth.ActionPull), desc)
	if err != nil {
		return nil, fmt.Errorf("referrers in %s: %w", repo, c.ended(ctx, err))
	}
	if artifactType != "" {
		list = slices.DeleteFunc(list, func(d ocispec.Descriptor) bool { return d.ArtifactType != artifactType })
	}
	return list, nil
}
