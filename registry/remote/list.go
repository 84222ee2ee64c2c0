package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"

	"mm-abi.org/mm/registry"
)

// fallbackTag matches the tags under which registries without the referrers API
// keep referrers, and cosign's older signatures. They name no artifact.
var fallbackTag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256-[0-9a-f]{64}(\.(sig|att|sbom))?$`) })

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
		return desc, nil, &ReferenceError{Ref: ref.String(), Err: fmt.Errorf("missing tag or digest: %w", errdef.ErrMissingReference), Use: ref.String() + ":TAG"}
	}
	return r.getManifest(ctx, ref.target())
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
		tags, err = c.repository(from).tags(ctx)
	}
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("tags of %s: %w", repo, c.ended(ctx, err))
	}
	tags = slices.DeleteFunc(tags, fallbackTag().MatchString)
	slices.Sort(tags)
	return slices.Compact(tags), nil
}

// tags lists the tags. For a missing repository the error is
// errdef.ErrNotFound.
func (r *repository) tags(ctx context.Context) (tags []string, err error) {
	err = r.pages(ctx, "tags/list", "", func(resp *http.Response, data []byte) error {
		var page struct {
			Name *string  `json:"name"`
			Tags []string `json:"tags"` // null in an empty repository
		}
		if json.Unmarshal(data, &page) != nil || page.Name == nil && page.Tags == nil {
			return odd(resp, "%s", notJSON(resp.Header, data))
		}
		if tags = append(tags, page.Tags...); len(tags) > maxListed {
			return odd(resp, "more than %d tags", maxListed)
		}
		return nil
	})
	return tags, err
}

// pages requests a listing page by page. An error of the first page is returned
// as it is, with errdef.ErrNotFound for a 404; after that, a listing that ends
// early is an [OddError].
func (r *repository) pages(ctx context.Context, part, accept string, fn func(resp *http.Response, data []byte) error) error {
	first := part
	seen := map[string]bool{}
	for page := 0; ; page++ {
		resp, data, err := r.small(ctx, part, accept, maxManifest)
		if page > 0 && status(err) != 0 && !busy(status(err)) {
			return &OddError{Host: r.Reference.Host(), Request: "GET " + r.url(first), Answer: fmt.Sprintf("the listing ends early: page %d of it: status %d", page+1, status(err))}
		}
		if err != nil {
			return notFound(err)
		}
		if err := fn(resp, data); err != nil {
			return err
		}
		if part, err = r.next(resp, first); err != nil || part == "" {
			return err
		}
		if page+1 == maxPages || seen[part] {
			return odd(resp, "a listing without an end, after %d pages", page+1)
		}
		seen[part] = true
	}
}

// next returns the part of the repository at which a listing continues; "" after
// the last page. Registries behind a proxy name their internal host in the Link
// header (RFC 8288), so that only its query counts.
func (r *repository) next(resp *http.Response, part string) (string, error) {
	for _, header := range resp.Header.Values("Link") {
		target, params, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(header), "<"), ">")
		if rel := strings.ReplaceAll(strings.ToLower(params), " ", ""); !ok || strings.Contains(rel, "rel=") && !strings.Contains(rel, `rel="next"`) && !strings.Contains(rel, "rel=next") {
			continue
		}
		at, err := resp.Request.URL.Parse(target)
		if err != nil || !strings.HasSuffix(at.Path, "/"+part) || at.RawQuery == "" {
			return "", odd(resp, "a Link to %.200q", target)
		}
		return part + "?" + at.RawQuery, nil
	}
	return "", nil
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
