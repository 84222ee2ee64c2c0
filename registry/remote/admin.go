package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	orasregistry "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"mm-abi.org/mm/registry"
)

// catalogPart is the path of the list of repositories, below /v2/.
const catalogPart = "_catalog"

// Repositories lists the repositories of a registry, sorted. A registry without a catalog
// is a [CatalogError]: Docker Hub, GHCR and others list repositories by their own APIs.
func (c *Client) Repositories(ctx context.Context, host string) ([]string, error) {
	ctx, stop := c.within(ctx)
	defer stop()
	ref := orasregistry.Reference{Registry: host}
	if err := ref.ValidateRegistry(); err != nil {
		return nil, &ReferenceError{Ref: host, Err: fmt.Errorf("%w: registry %q", errdef.ErrInvalidReference, host)}
	}
	if host == dockerIndex {
		ref.Registry = dockerHub
	}
	r := &repository{c: c, Reference: ref, plainHTTP: c.plain(ref.Registry)}
	var names []string
	err := r.pages(ctx, catalogPart, "", func(resp *http.Response, data []byte) error {
		var page struct {
			Repositories []string `json:"repositories"` // null in an empty registry
		}
		if json.Unmarshal(data, &page) != nil {
			return odd(resp, "%s", notJSON(resp.Header, data))
		}
		if names = append(names, page.Repositories...); len(names) > maxListed {
			return odd(resp, "more than %d repositories", maxListed)
		}
		return nil
	})
	switch status(err) {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusForbidden, http.StatusUnauthorized, http.StatusNotImplemented:
		return nil, &CatalogError{host, c.ended(ctx, err)}
	}
	if err != nil {
		return nil, fmt.Errorf("repositories of %s: %w", host, c.ended(ctx, err))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// CatalogError reports a registry that does not list its repositories.
type CatalogError struct {
	Host string
	Err  error
}

// Error includes the registry's answer.
func (e *CatalogError) Error() string {
	return fmt.Sprintf("%s does not list its repositories: %v", e.Host, e.Err)
}

// Unwrap returns the answer.
func (e *CatalogError) Unwrap() error { return e.Err }

// Hint names the alternatives.
func (e *CatalogError) Hint() string {
	return fmt.Sprintf("mm registry tags %s/REPOSITORY lists the tags of one; or mm login %s", e.Host, e.Host)
}

// Delete deletes what ref names at its registry: a tag, which leaves the manifest and its
// other tags, or the manifest of a digest with all its tags. If the repository has no such tag, the error is
// errdef.ErrNotFound; a registry that does not delete is an [UndeletableError].
func (c *Client) Delete(ctx context.Context, ref string) error {
	ctx, stop := c.within(ctx)
	defer stop()
	from, err := ParseReference(ref)
	if err == nil && from.Layout != "" {
		err = &ReferenceError{Ref: ref, Err: fmt.Errorf("%w: %s names a layout, want a registry", errdef.ErrInvalidReference, ref)}
	}
	if err == nil && from.target() == "" {
		err = &ReferenceError{Ref: ref, Err: fmt.Errorf("missing tag or digest: %w", errdef.ErrInvalidReference), Use: ref + ":TAG"}
	}
	if err != nil {
		return err
	}
	r := c.repository(from)
	ctx = auth.AppendRepositoryScope(ctx, r.Reference, auth.ActionDelete)
	req, err := r.request(ctx, http.MethodDelete, "manifests/"+from.target(), nil)
	if err != nil {
		return err
	}
	resp, err := do(c.meta, req, http.StatusAccepted, http.StatusOK, http.StatusNoContent)
	switch status(err) {
	case http.StatusMethodNotAllowed, http.StatusBadRequest, http.StatusNotImplemented:
		return &UndeletableError{ref, from.Ref.Digest == "", c.ended(ctx, err)}
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", ref, c.ended(ctx, notFound(err)))
	}
	return resp.Body.Close()
}

// UndeletableError reports a registry that does not delete tags, or manifests.
type UndeletableError struct {
	Ref string
	tag bool
	Err error
}

// Error includes the registry's answer.
func (e *UndeletableError) Error() string {
	return fmt.Sprintf("the registry does not delete %s: %v", e.Ref, e.Err)
}

// Unwrap returns the answer.
func (e *UndeletableError) Unwrap() error { return e.Err }

// Hint names the alternative.
func (e *UndeletableError) Hint() string {
	if e.tag {
		return "many registries delete by digest alone, with all tags of the manifest: mm registry rm HOST/REPOSITORY@sha256:…"
	}
	return "enable deletion in its configuration, or use its own tool"
}

// Attach sends a manifest with a subject, a referrer, and its blobs from src to the
// repository of its subject. It is there when the registry lists it.
func (c *Client) Attach(ctx context.Context, src *registry.Store, desc ocispec.Descriptor, repository string) (Report, error) {
	ctx, stop := c.within(ctx)
	defer stop()
	var report Report
	to, err := ParseReference(repository)
	if err == nil && to.Layout != "" {
		err = &ReferenceError{Ref: repository, Err: fmt.Errorf("%w: %s names a layout, want a registry", errdef.ErrInvalidReference, repository)}
	}
	if err != nil {
		return report, err
	}
	p := &push{c: c, src: src, r: c.repository(to), to: to.Place(), memory: src, tags: map[string]digest.Digest{}}
	p.mounts = func() map[digest.Digest][]string { return nil }
	ctx = auth.AppendRepositoryScope(ctx, p.r.Reference, auth.ActionPull, auth.ActionPush)
	referring, err := newPlan(ctx, src, desc, filter{fault: errUnsendable})
	if err != nil {
		return report, fmt.Errorf("attach to %s: %w", repository, err)
	}
	report.count(&plan{}, referring)
	missing, err := p.unlisted(ctx, referring.manifests)
	if err == nil {
		err = p.sendReferrers(ctx, referring, missing)
	}
	p.tally.into(&report)
	if err != nil {
		return report, fmt.Errorf("attach to %s: %w", repository, c.ended(ctx, err))
	}
	return report, nil
}
