package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// uploadBuffer is the unit in which bodies are read.
const uploadBuffer = 256 << 10

// uploadStart opens a session, or completes it immediately: by mounting an
// existing blob, or with the blob in the request (Pushing blobs).
func (req *request) uploadStart() error {
	ctx, query := req.r.Context(), req.r.URL.Query()
	if text := query.Get("mount"); text != "" {
		if done, err := req.mount(text, query.Get("from")); done || err != nil {
			return err
		}
	}
	id, err := req.store.NewUpload(ctx, req.repo)
	if err != nil {
		return err
	}
	req.arg = id
	if text := query.Get("digest"); text != "" && query.Get("mount") == "" {
		err := req.uploadEnd()
		if err != nil {
			req.discard() // the client has not seen the session
		}
		return err
	}
	req.session(0)
	req.w.WriteHeader(http.StatusAccepted)
	return nil
}

// mount shows a blob of another repository in this one. Without a source any
// repository serves: a client that may push here may read everywhere.
func (req *request) mount(text, from string) (done bool, err error) {
	ctx := req.r.Context()
	d, err := digestOf(text)
	if err != nil {
		return false, err
	}
	sources := []string{from}
	if from == "" {
		if sources, err = req.store.Repos(ctx); err != nil {
			return false, err
		}
	} else if !registry.ValidRepo(from) {
		return false, nil
	}
	for _, source := range sources {
		desc, ok, err := req.store.Shows(ctx, source, d)
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		desc.MediaType = "application/octet-stream"
		err = req.store.Link(ctx, req.repo, desc)
		if errors.Is(err, errdef.ErrNotFound) {
			return false, nil
		}
		if err == nil {
			req.stored(d)
		}
		return err == nil, err
	}
	return false, nil
}

// session sends the client the session's URL and offset.
func (req *request) session(offset int64) {
	h := req.w.Header()
	h.Set("Location", "/v2/"+req.repo+"/blobs/uploads/"+req.arg)
	h.Set("Docker-Upload-UUID", req.arg)
	h.Set("Range", fmt.Sprintf("0-%d", max(0, offset-1)))
}

// stored answers that the blob is here.
func (req *request) stored(d digest.Digest) {
	h := req.w.Header()
	h.Set("Location", "/v2/"+req.repo+"/blobs/"+d.String())
	h.Set("Docker-Content-Digest", d.String())
	req.w.WriteHeader(http.StatusCreated)
}

// unknown maps the store's error for a missing session.
func unknown(err error) error {
	if errors.Is(err, errdef.ErrNotFound) {
		return fault(http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", "no such upload")
	}
	return err
}

func (req *request) uploadStatus() error {
	offset, err := req.store.UploadOffset(req.r.Context(), req.repo, req.arg)
	if err != nil {
		return unknown(err)
	}
	req.session(offset)
	req.w.WriteHeader(http.StatusNoContent)
	return nil
}

// lockWait is how long a request waits for another one to release its upload.
const lockWait = 10 * time.Second

// open takes the session over from the current request, and opens it.
func (req *request) open() (*cas.Upload, *body, func(), error) {
	body := req.body()
	key := req.repo + "\x00" + req.arg
	req.turns.take(key, body)
	leave := func() { req.turns.leave(key, body) }
	ctx, stop := context.WithTimeout(req.r.Context(), lockWait)
	defer stop()
	up, err := req.store.OpenUpload(ctx, req.repo, req.arg)
	if err != nil {
		leave()
		if errors.Is(err, context.DeadlineExceeded) {
			req.w.Header().Set("Retry-After", "1")
			err = fault(http.StatusServiceUnavailable, "BLOB_UPLOAD_INVALID", "another request is at this upload")
		}
		return nil, nil, nil, unknown(err)
	}
	return up, body, leave, nil
}

// uploadChunk appends the body to the session. Bytes that arrived before a cut
// remain.
func (req *request) uploadChunk() error {
	up, body, leave, err := req.open()
	if err != nil {
		return err
	}
	defer leave()
	err = req.receive(up, body)
	offset := up.Offset()
	if err = errors.Join(err, up.Close()); err != nil {
		return err
	}
	req.session(offset)
	req.w.WriteHeader(http.StatusAccepted)
	return nil
}

// uploadEnd appends the body, if there is one, and completes the blob.
func (req *request) uploadEnd() error {
	ctx := req.r.Context()
	d, err := digestOf(req.r.URL.Query().Get("digest"))
	if err != nil {
		return err
	}
	up, body, leave, err := req.open()
	if err != nil {
		return err
	}
	defer leave()
	if err := req.receive(up, body); err != nil {
		return errors.Join(err, up.Close())
	}
	desc := ocispec.Descriptor{MediaType: "application/octet-stream", Digest: d, Size: up.Offset()}
	// A client that hangs up now has sent all of it.
	ctx = context.WithoutCancel(ctx)
	if err := up.Commit(ctx, desc); err != nil {
		if errors.Is(err, artifact.ErrCorrupt) {
			return fault(http.StatusBadRequest, "DIGEST_INVALID", "uploaded bytes do not match %s", d)
		}
		return err
	}
	if err := req.store.Link(ctx, req.repo, desc); err != nil {
		return err
	}
	req.stored(d)
	return nil
}

// chunkRange is a Content-Range of this API: two offsets, without a unit.
var chunkRange = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:bytes )?([0-9]{1,18})-([0-9]{1,18})(?:/.*)?$`) })

// receive appends the body to the session. A Content-Range must continue it
// and have the body's length.
func (req *request) receive(up *cas.Upload, from io.Reader) error {
	limit := req.opt.MaxBlob - up.Offset()
	if text := req.r.Header.Get("Content-Range"); text != "" {
		m := chunkRange().FindStringSubmatch(text)
		if m == nil {
			return fault(http.StatusRequestedRangeNotSatisfiable, "BLOB_UPLOAD_INVALID", "Content-Range %q", clip(text))
		}
		first, _ := strconv.ParseInt(m[1], 10, 64)
		last, _ := strconv.ParseInt(m[2], 10, 64)
		if first != up.Offset() || last < first {
			req.session(up.Offset())
			return fault(http.StatusRequestedRangeNotSatisfiable, "BLOB_UPLOAD_INVALID", "the upload continues at %d", up.Offset())
		}
		if n := req.r.ContentLength; n >= 0 && n != last-first+1 {
			return fault(http.StatusBadRequest, "SIZE_INVALID", "a body of %d bytes for %q", n, clip(text))
		}
	}
	if req.opt.MaxBlob > 0 && (limit < 0 || req.r.ContentLength > limit) {
		return fault(http.StatusRequestEntityTooLarge, "SIZE_INVALID", "a blob may have %d bytes", req.opt.MaxBlob)
	}
	if req.opt.MaxBlob > 0 {
		from = io.LimitReader(from, limit+1)
	}
	if n := req.r.ContentLength; n > 0 {
		if err := req.room.take(req.r.Context(), n); err != nil {
			return errors.Join(err, up.Discard())
		}
		req.room.give(n)
	}
	start := up.Offset()
	to := &metered{up: up, req: req}
	n, err := io.CopyBuffer(to, struct{ io.Reader }{from}, make([]byte, uploadBuffer))
	if err == nil && req.opt.MaxBlob > 0 && n > limit {
		err = fault(http.StatusRequestEntityTooLarge, "SIZE_INVALID", "a blob may have %d bytes", req.opt.MaxBlob)
	} else if !full(err) {
		return err
	}
	// An upload that can never complete must not use space.
	req.room.give(start + n)
	return errors.Join(err, up.Discard())
}

// metered is an upload whose bytes count towards the store's limit.
type metered struct {
	up  *cas.Upload
	req *request
}

// Write appends p if there is room for it.
func (m *metered) Write(p []byte) (int, error) {
	if err := m.req.room.take(m.req.r.Context(), int64(len(p))); err != nil {
		return 0, err
	}
	return m.up.Write(p)
}

func (req *request) uploadCancel() error {
	if err := req.discard(); err != nil {
		return unknown(err)
	}
	req.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (req *request) discard() error {
	up, err := req.store.OpenUpload(context.WithoutCancel(req.r.Context()), req.repo, req.arg)
	if err != nil {
		return err
	}
	return up.Discard()
}
