package server

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/registry/artifact"
)

// tagPattern is the grammar of tags (distribution-spec, Pulling manifests).
var tagPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`) })

// maxReferrer bounds a manifest with a subject, in bytes: a client with push
// access may attach any number of them to other artifacts, and every listing
// repeats their annotations.
const maxReferrer = 64 << 10

// maxTags bounds the tag parameters of one push.
const maxTags = 32

// manifest finds a manifest that the repository shows, by tag or digest.
func (req *request) manifest() (ocispec.Descriptor, error) {
	none := fault(http.StatusNotFound, "MANIFEST_UNKNOWN", "%s has no manifest %q", req.repo, clip(req.arg))
	ctx := req.r.Context()
	var d digest.Digest
	if strings.Contains(req.arg, ":") {
		var err error
		if d, err = digestOf(req.arg); err != nil {
			return ocispec.Descriptor{}, err
		}
	} else {
		if !tagPattern().MatchString(req.arg) {
			return ocispec.Descriptor{}, none
		}
		desc, err := req.store.Resolve(ctx, req.repo+":"+req.arg)
		if errors.Is(err, errdef.ErrNotFound) {
			return desc, none
		}
		if err != nil {
			return desc, err
		}
		return desc, nil
	}
	desc, ok, err := req.store.Shows(ctx, req.repo, d)
	if err != nil {
		return desc, err
	}
	if !ok || !artifact.IsManifest(desc.MediaType) {
		return desc, none
	}
	return desc, nil
}

// manifestGet sends a manifest (Pulling manifests), after checking its digest.
func (req *request) manifestGet() error {
	desc, err := req.manifest()
	if err != nil {
		return err
	}
	data, err := content.FetchAll(req.r.Context(), req.store, desc)
	if errors.Is(err, errdef.ErrNotFound) {
		return fault(http.StatusNotFound, "MANIFEST_UNKNOWN", "%s has no manifest %q", req.repo, clip(req.arg))
	}
	if err != nil {
		return err
	}
	h := req.w.Header()
	h.Set("Content-Type", desc.MediaType)
	h.Set("Docker-Content-Digest", desc.Digest.String())
	h.Set("ETag", `"`+desc.Digest.String()+`"`)
	http.ServeContent(req.w, req.r, "", time.Time{}, bytes.NewReader(data))
	return nil
}

// manifestPut stores a manifest all of whose parts the repository shows
// (Pushing Manifests).
func (req *request) manifestPut() error {
	body := req.body()
	data, err := io.ReadAll(io.LimitReader(body, maxManifest+1))
	body.end()
	if errors.Is(err, errSlow) {
		return err
	}
	if err != nil {
		return fault(http.StatusBadRequest, "MANIFEST_INVALID", "the body broke off")
	}
	if len(data) > maxManifest {
		return fault(http.StatusRequestEntityTooLarge, "MANIFEST_INVALID", "a manifest may have %d bytes", maxManifest)
	}
	tags, desc, err := req.describe(data)
	if err != nil {
		return err
	}
	m, err := artifact.ParseManifest(desc, data)
	if err != nil {
		return fault(http.StatusBadRequest, "MANIFEST_INVALID", "%s", clip(err.Error()))
	}
	if m.Subject != nil && len(data) > maxReferrer {
		return fault(http.StatusRequestEntityTooLarge, "MANIFEST_INVALID", "a manifest with a subject may have %d bytes", maxReferrer)
	}
	if err := req.room.take(req.r.Context(), int64(len(data))); err != nil {
		return err
	}
	for _, child := range m.Children {
		if _, err := req.blob(child.Digest); err != nil && !artifact.Elsewhere(child) {
			var e *apiError
			if errors.As(err, &e) {
				return fault(http.StatusNotFound, "MANIFEST_BLOB_UNKNOWN", "%s has no %s", req.repo, child.Digest)
			}
			return err
		}
	}
	if m.Subject != nil {
		if err := req.store.Confine(req.r.Context(), desc); err != nil {
			return err
		}
	}
	if err := req.put(desc, data, tags); err != nil {
		return err
	}
	h := req.w.Header()
	h.Set("Location", "/v2/"+req.repo+"/manifests/"+desc.Digest.String())
	h.Set("Docker-Content-Digest", desc.Digest.String())
	if m.Subject != nil {
		h.Set("OCI-Subject", m.Subject.Digest.String())
	}
	for _, tag := range tags {
		h.Add("OCI-Tag", tag)
	}
	req.w.WriteHeader(http.StatusCreated)
	return nil
}

// describe returns the descriptor and tags of a pushed manifest.
func (req *request) describe(data []byte) (tags []string, desc ocispec.Descriptor, err error) {
	alg := digest.SHA256
	var want digest.Digest
	if strings.Contains(req.arg, ":") {
		if want, err = digestOf(req.arg); err != nil {
			return nil, desc, err
		}
		alg, tags = want.Algorithm(), req.r.URL.Query()["tag"]
	} else {
		tags = []string{req.arg}
	}
	if len(tags) > maxTags {
		return nil, desc, fault(http.StatusBadRequest, "MANIFEST_INVALID", "too many tags: got %d, limit %d", len(tags), maxTags)
	}
	for _, tag := range tags {
		if !tagPattern().MatchString(tag) {
			return nil, desc, fault(http.StatusBadRequest, "MANIFEST_INVALID", "invalid tag %q", clip(tag))
		}
	}
	desc = ocispec.Descriptor{Digest: alg.FromBytes(data), Size: int64(len(data))}
	if want != "" && want != desc.Digest {
		return nil, desc, fault(http.StatusBadRequest, "DIGEST_INVALID", "the manifest is %s", desc.Digest)
	}
	desc.MediaType, _, err = mime.ParseMediaType(req.r.Header.Get("Content-Type"))
	if err != nil || !artifact.IsManifest(desc.MediaType) {
		return nil, desc, fault(http.StatusUnsupportedMediaType, "MANIFEST_INVALID", "Content-Type %q is not a manifest type", clip(req.r.Header.Get("Content-Type")))
	}
	return tags, desc, nil
}

// put stores, shows and names the manifest, in that order.
func (req *request) put(desc ocispec.Descriptor, data []byte, tags []string) error {
	defer req.changed()
	ctx := req.r.Context()
	if err := req.store.Push(ctx, desc, bytes.NewReader(data)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return err
	}
	err := req.store.Link(ctx, req.repo, desc)
	for _, tag := range tags {
		if err == nil {
			err = req.store.Tag(ctx, desc, req.repo+":"+tag)
		}
	}
	if errors.Is(err, errdef.ErrNotFound) {
		return fault(http.StatusNotFound, "MANIFEST_BLOB_UNKNOWN", "a part of %s is not here", desc.Digest)
	}
	return err
}

// manifestDelete removes a tag, or a manifest with all its tags (Deleting tags,
// Deleting Manifests).
func (req *request) manifestDelete() error {
	desc, err := req.manifest()
	if err != nil {
		return err
	}
	defer req.changed()
	ctx := req.r.Context()
	if !strings.Contains(req.arg, ":") {
		if err := req.store.Untag(ctx, req.repo+":"+req.arg); err != nil {
			return err
		}
		req.w.WriteHeader(http.StatusAccepted)
		return nil
	}
	tags, err := req.tags()
	if err != nil {
		return err
	}
	for _, tag := range tags {
		if tag.Descriptor.Digest != desc.Digest {
			continue
		}
		if err := req.store.Untag(ctx, tag.Ref); err != nil && !errors.Is(err, errdef.ErrNotFound) {
			return err
		}
	}
	if err := req.store.Unlink(ctx, req.repo, desc.Digest); err != nil {
		return err
	}
	req.w.WriteHeader(http.StatusAccepted)
	return nil
}
