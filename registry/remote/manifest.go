package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"

	"mm-abi.org/mm/registry/artifact"
)

// acceptManifests lists the media types of manifests, for the Accept header.
var acceptManifests = strings.Join(artifact.ManifestTypes(), ", ")

// request returns a request for a part of the repository.
func (r *repository) request(ctx context.Context, method, part string, body []byte) (*http.Request, error) {
	if r.Reference.Repository == "" {
		ctx = auth.AppendScopes(ctx, auth.ScopeRegistryCatalog)
	} else {
		ctx = auth.AppendRepositoryScope(ctx, r.Reference, auth.ActionPull)
	}
	if body == nil {
		return http.NewRequestWithContext(ctx, method, r.url(part), nil)
	}
	return http.NewRequestWithContext(ctx, method, r.url(part), bytes.NewReader(body))
}

// small sends a request whose answer is a small document, and reads it. Bodies
// that break off are requested again.
func (r *repository) small(ctx context.Context, part, accept string, limit int64) (*http.Response, []byte, error) {
	by := r.c.meta
	if strings.HasPrefix(part, referrersPart) && r.api.Load() != apiYes {
		by = r.c.brief // some registries always answer 503
	}
	for tries := 0; ; tries++ {
		req, err := r.request(ctx, http.MethodGet, part, nil)
		if err != nil {
			return nil, nil, err
		}
		if accept != "" {
			req.Header.Set("Accept", accept)
		}
		resp, err := do(by, req, http.StatusOK)
		if err != nil {
			return nil, nil, err
		}
		var data bytes.Buffer
		_, err = data.ReadFrom(io.LimitReader(resp.Body, limit+1))
		resp.Body.Close()
		if err == nil && int64(data.Len()) > limit {
			err = odd(resp, "more than %d bytes", limit)
		}
		if err == nil {
			return resp, data.Bytes(), nil
		}
		if again := r.c.again(ctx, tries, err); again != nil {
			return nil, nil, again
		}
	}
}

// notFound adds errdef.ErrNotFound to a 404.
func notFound(err error) error {
	if status(err) == http.StatusNotFound {
		return fmt.Errorf("%w: %w", errdef.ErrNotFound, err)
	}
	return err
}

// getManifest fetches the manifest that target, a tag or a digest, names, and
// computes its digest. Registries that send no length or another media type are
// understood.
func (r *repository) getManifest(ctx context.Context, target string) (desc ocispec.Descriptor, data []byte, err error) {
	resp, data, err := r.small(ctx, "manifests/"+target, acceptManifests, maxManifest)
	if err != nil {
		return desc, nil, notFound(err)
	}
	claimed := digest.Digest(target)
	if claimed.Validate() != nil {
		claimed = digest.Digest(resp.Header.Get("Docker-Content-Digest"))
	}
	alg := digest.SHA256
	if claimed.Validate() != nil {
		claimed = ""
	} else {
		alg = claimed.Algorithm()
	}
	desc = ocispec.Descriptor{Digest: alg.FromBytes(data), Size: int64(len(data))}
	if desc.MediaType = manifestType(resp.Header.Get("Content-Type"), data); desc.MediaType == "" || len(data) == 0 {
		return desc, nil, odd(resp, "%s: not a manifest", notJSON(resp.Header, data))
	}
	if claimed != "" && claimed != desc.Digest {
		return desc, nil, fmt.Errorf("%w: manifest %s has the digest %s: %w", ErrReceived, claimed, desc.Digest, artifact.ErrCorrupt)
	}
	return desc, data, nil
}

// manifestType returns the media type of a manifest: that of the answer or, if
// that is not one of a manifest, that of the document; "" for anything else.
func manifestType(header string, data []byte) string {
	if t, _, _ := mime.ParseMediaType(header); artifact.IsManifest(t) {
		return t
	}
	var doc struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     string          `json:"mediaType"`
		Config        json.RawMessage `json:"config"`
		Manifests     json.RawMessage `json:"manifests"`
	}
	switch {
	case json.Unmarshal(data, &doc) != nil:
		return ""
	case artifact.IsManifest(doc.MediaType):
		return doc.MediaType
	case doc.MediaType != "" || doc.SchemaVersion != 2:
		return ""
	case doc.Manifests != nil:
		return ocispec.MediaTypeImageIndex
	case doc.Config != nil:
		return ocispec.MediaTypeImageManifest
	}
	return ""
}

// headManifest asks for the descriptor behind target without fetching the
// manifest, unless the registry does not answer HEAD or sends no digest. For a
// missing manifest the error is errdef.ErrNotFound.
func (r *repository) headManifest(ctx context.Context, target string) (desc ocispec.Descriptor, err error) {
	if !r.noHead.Load() {
		req, err := r.request(ctx, http.MethodHead, "manifests/"+target, nil)
		if err != nil {
			return desc, err
		}
		req.Header.Set("Accept", acceptManifests)
		resp, err := do(r.c.meta, req, http.StatusOK)
		if err == nil {
			resp.Body.Close()
		}
		d := digest.Digest(target)
		if err == nil && d.Validate() != nil {
			d = digest.Digest(resp.Header.Get("Docker-Content-Digest"))
		}
		switch {
		case err == nil && d.Validate() == nil:
			t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
			return ocispec.Descriptor{MediaType: t, Digest: d, Size: resp.ContentLength}, nil
		case err != nil && !r.headless(err):
			return desc, notFound(err)
		}
	}
	desc, _, err = r.getManifest(ctx, target)
	return desc, err
}

// headless reports, and remembers, that the registry does not answer HEAD.
func (r *repository) headless(err error) bool {
	switch status(err) {
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		r.noHead.Store(true)
		return true
	}
	return false
}

// hasManifest reports whether the repository has the manifest.
func (r *repository) hasManifest(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	_, err := r.headManifest(ctx, desc.Digest.String())
	if errors.Is(err, errdef.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// hasBlob reports whether the repository has the blob.
func (r *repository) hasBlob(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	part := "blobs/" + desc.Digest.String()
	method := http.MethodHead
	if r.noHead.Load() {
		method = http.MethodGet
	}
	req, err := r.request(ctx, method, part, nil)
	if err != nil {
		return false, err
	}
	if method == http.MethodGet {
		req.Header.Set("Range", "bytes=0-0")
	}
	resp, err := do(r.c.meta, req, http.StatusOK, http.StatusPartialContent)
	switch {
	case err == nil:
		resp.Body.Close()
		return true, nil
	case status(err) == http.StatusNotFound:
		return false, nil
	case status(err) == http.StatusRequestedRangeNotSatisfiable: // an empty blob
		return true, nil
	case method == http.MethodHead && r.headless(err):
		return r.hasBlob(ctx, desc)
	}
	return false, err
}

// putManifest stores a manifest under target, a tag or its digest. processed
// reports whether the registry lists it among the referrers of its subject. A
// lost answer is not a failure if the manifest is stored.
func (r *repository) putManifest(ctx context.Context, desc ocispec.Descriptor, data []byte, target string) (processed bool, err error) {
	ctx = auth.AppendRepositoryScope(ctx, r.Reference, auth.ActionPull, auth.ActionPush)
	req, err := r.request(ctx, http.MethodPut, "manifests/"+target, data)
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", desc.MediaType)
	resp, err := do(r.c.meta, req, http.StatusCreated, http.StatusOK, http.StatusAccepted, http.StatusNoContent)
	if err != nil {
		if now, headErr := r.headManifest(ctx, target); headErr == nil && now.Digest == desc.Digest {
			return false, nil
		}
		return false, err
	}
	resp.Body.Close()
	if d := digest.Digest(resp.Header.Get("Docker-Content-Digest")); d.Validate() == nil && d.Algorithm() == desc.Digest.Algorithm() && d != desc.Digest {
		return false, odd(resp, "the manifest was stored as %s, want %s", d, desc.Digest)
	}
	return resp.Header.Get("OCI-Subject") != "", nil
}

// Fetch opens a manifest or blob. The reader checks its digest.
func (r *repository) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	if artifact.IsManifest(desc.MediaType) {
		_, data, err := r.getManifest(ctx, desc.Digest.String())
		if err != nil {
			return nil, err
		}
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	resp, err := r.getBlob(ctx, desc)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// getBlob requests a blob.
func (r *repository) getBlob(ctx context.Context, desc ocispec.Descriptor) (*http.Response, error) {
	req, err := r.request(ctx, http.MethodGet, "blobs/"+desc.Digest.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := do(r.c.meta, req, http.StatusOK)
	if err != nil {
		return nil, notFound(err)
	}
	return resp, wrongSize(resp, desc.Size)
}

// wrongSize returns an [OddError] for a page of HTML in place of a blob: a proxy
// answered, and there is nothing to verify. A blob may be a page itself, with another
// size.
func wrongSize(resp *http.Response, size int64) error {
	if resp.ContentLength == size || !strings.Contains(resp.Header.Get("Content-Type"), "text/html") {
		return nil
	}
	resp.Body.Close()
	return odd(resp, "an HTML page, want a blob of %d bytes", size)
}

// Exists reports whether the repository has a manifest or blob.
func (r *repository) Exists(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	if artifact.IsManifest(desc.MediaType) {
		return r.hasManifest(ctx, desc)
	}
	return r.hasBlob(ctx, desc)
}
