package server

import (
	"net/http"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// digestOf reads a digest from the path or a query.
func digestOf(text string) (digest.Digest, error) {
	d, err := digest.Parse(text)
	if err != nil || d.Algorithm() != digest.SHA256 && d.Algorithm() != digest.SHA512 {
		return "", fault(http.StatusBadRequest, "DIGEST_INVALID", "invalid digest %q: want sha256 or sha512", clip(text))
	}
	return d, nil
}

// blob finds a blob that the repository shows.
func (req *request) blob(d digest.Digest) (ocispec.Descriptor, error) {
	desc, ok, err := req.store.Shows(req.r.Context(), req.repo, d)
	if err != nil {
		return desc, err
	}
	if !ok {
		return desc, fault(http.StatusNotFound, "BLOB_UNKNOWN", "%s has no blob %s", req.repo, d)
	}
	return desc, nil
}

// blobGet sends a blob, or a range of it (distribution-spec, Pulling blobs).
func (req *request) blobGet() error {
	d, err := digestOf(req.arg)
	if err != nil {
		return err
	}
	desc, err := req.blob(d)
	if err != nil {
		return err
	}
	f, err := req.store.OpenBlob(req.r.Context(), desc)
	if err != nil {
		return err
	}
	defer f.Close()
	h := req.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Docker-Content-Digest", d.String())
	h.Set("ETag", `"`+d.String()+`"`)
	http.ServeContent(req.w, req.r, "", time.Time{}, f)
	return nil
}

// blobDelete removes a blob from the repository (Deleting Blobs).
func (req *request) blobDelete() error {
	d, err := digestOf(req.arg)
	if err != nil {
		return err
	}
	if _, err := req.blob(d); err != nil {
		return err
	}
	if err := req.store.Unlink(req.r.Context(), req.repo, d); err != nil {
		return err
	}
	req.w.WriteHeader(http.StatusAccepted)
	return nil
}
