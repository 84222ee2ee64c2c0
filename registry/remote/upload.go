package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"mm-abi.org/mm/registry/cas"
)

// minChunk is the smallest chunk that is tried when larger request bodies are
// refused on the way.
const minChunk = 256 << 10

// restartAfter is how often a registry may report another offset before the
// upload starts again: one still busy with the bytes of a dropped request does
// so for a while.
const restartAfter = 3

// errSession reports that the registry lost an upload, or has another offset
// than we do. Asking for the offset or a restart fixes it.
var errSession = errors.New("the registry is out of step")

// errDigest reports that the registry computed another digest.
var errDigest = errors.New("digest mismatch at the registry")

// upload brings one blob into a repository (distribution-spec, Pushing blobs).
type upload struct {
	r     *repository
	desc  ocispec.Descriptor
	open  func() (*os.File, error)
	event func(Event)
	sent  func(n int64)

	memory *cas.Outgoing // of the session, for the next process; nil: none
	to     string        // host/repository, for the memory

	location *url.URL // of the session; nil: none yet
	off      int64    // bytes at the registry
	best     int64    // highest off so far; less is not progress
	chunk    int64
	dropped  bool // off must be queried
	careful  bool // the registry may refuse the next request
	fresh    bool // the session is new, and empty
	guessed  bool // off is not certain: the digest decides
	refusals int  // of a PATCH in a row
}

// mount asks the registry to take the blob from one of the repositories. If it
// cannot, the session that it opened is kept.
func (u *upload) mount(ctx context.Context, from []string) (bool, error) {
	for _, repo := range from {
		ctx := auth.AppendScopesForHost(ctx, u.r.Reference.Host(), auth.ScopeRepository(repo, auth.ActionPull))
		err := u.start(ctx, url.Values{"mount": {u.desc.Digest.String()}, "from": {repo}})
		if err == nil && u.location == nil {
			return true, nil
		}
		if err == nil {
			return false, nil
		}
		if code := status(err); code == 0 || busy(code) {
			return false, err
		}
	}
	return false, nil
}

// recall resumes the session of an earlier process, if its URL is one that the
// registry could have sent.
func (u *upload) recall() {
	at := u.memory.Location()
	own, err := url.Parse(u.r.url(""))
	if at == "" || err != nil {
		return
	}
	if u.move(&http.Response{Request: &http.Request{URL: own}, Header: http.Header{"Location": {at}}}) == nil {
		u.dropped, u.guessed = true, true
	}
}

// remember records the session for the next process. A failure costs time
// there, and nothing here.
func (u *upload) remember() {
	if u.location != nil {
		_ = u.memory.Save(u.to, u.desc.Digest, u.location.String())
	}
}

// abandon tells the registry to drop the session's bytes.
func (u *upload) abandon(ctx context.Context) {
	if u.location == nil {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, u.location.String(), nil)
	if err == nil {
		if resp, err := u.by().Do(req); err == nil {
			resp.Body.Close()
		}
	}
	u.location, u.off = nil, 0
}

// run sends the blob, going on after faults until [Options.Retries] of them
// came without progress.
func (u *upload) run(ctx context.Context) error {
	for tries := 0; ; tries++ {
		err := u.attempt(ctx)
		if err == nil {
			return u.memory.Done()
		}
		if u.adapt(ctx, err) || refused(err) && u.inward() {
			tries = -1 // another way, each at most once
			continue
		}
		if u.off >= u.best+min(worthwhile, u.chunk, u.desc.Size-u.best) && u.off > u.best {
			u.best, tries = u.off, 0
		}
		u.dropped = true
		if errors.Is(err, errSession) && (tries >= restartAfter || status(err) == http.StatusNotFound) {
			if status(err) == http.StatusNotFound {
				u.location, u.off = nil, 0
			} else {
				u.abandon(ctx)
			}
		}
		if err := u.r.c.again(ctx, tries, err); err != nil {
			return err
		}
		u.event(Event{Kind: Retried, Descriptor: u.desc, Offset: u.off, Err: err})
	}
}

// smallChunk is the chunk that is tried where a larger one is refused without a
// reason: some registries take 4 MiB with Content-Range.
const smallChunk = 4 << 20

// mostRefusals is how often a PATCH may be refused in a row before the blob is
// sent in one request.
const mostRefusals = 3

// adapt changes how the blob is sent if the registry refuses the way tried,
// and reports whether it did.
func (u *upload) adapt(ctx context.Context, err error) bool {
	var patch *patchError
	code := status(err)
	switch {
	case errors.Is(err, errDigest) && u.guessed && !u.r.noChunks.Load():
		u.restart(ctx) // the offset was wrong
		return true
	case !errors.As(err, &patch):
		return false
	case code == http.StatusRequestEntityTooLarge && u.chunk > minChunk:
		u.chunk = max(u.chunk/2, minChunk)
		u.dropped = true
		return true
	case !slices.Contains([]int{400, 404, 405, 411, 415, 416, 500, 501}, code):
		return false
	}
	u.refusals++
	switch {
	case code == http.StatusNotFound && (!u.fresh || u.refusals < mostRefusals), code == http.StatusInternalServerError && u.refusals < mostRefusals:
		return false // a lost session, or a passing fault
	// After a cut the same statuses only mean that the registry has more
	// bytes.
	case !u.fresh && u.refusals < mostRefusals:
		return false
	case u.chunk > smallChunk && slices.Contains([]int{400, 416}, code):
		u.chunk, u.refusals = smallChunk, 0
		u.abandon(ctx)
	default:
		u.restart(ctx)
	}
	return true
}

// restart makes the blob start again, in one request.
func (u *upload) restart(ctx context.Context) {
	u.r.noChunks.Store(true)
	u.abandon(ctx)
}

// patchError is the error of a PATCH.
type patchError struct{ error }

func (e *patchError) Unwrap() error { return e.error }

// attempt continues the upload until it is complete or fails.
func (u *upload) attempt(ctx context.Context) error {
	if u.dropped && u.location != nil {
		if err := u.ask(ctx); err != nil {
			return err
		}
		u.careful = true
	}
	u.dropped = false
	if u.location == nil || u.off > 0 && u.r.noChunks.Load() {
		if err := u.start(ctx, nil); err != nil {
			return err
		}
	}
	if u.off == 0 && (u.desc.Size <= u.chunk || u.r.noChunks.Load()) {
		return u.commit(ctx, 0)
	}
	for u.off < u.desc.Size {
		if err := u.patch(ctx); err != nil {
			return &patchError{err}
		}
		u.remember()
	}
	return u.commit(ctx, u.off)
}

// start opens a session; with a mount in query the registry may do without, and
// location stays nil.
func (u *upload) start(ctx context.Context, query url.Values) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.r.url(uploadsPart), nil)
	if err != nil {
		return err
	}
	req.URL.RawQuery = query.Encode()
	u.location = nil
	want := []int{http.StatusAccepted}
	if query != nil {
		want = append(want, http.StatusCreated)
	}
	resp, err := do(u.r.c.meta, req, want...)
	if err != nil {
		return fmt.Errorf("starting the upload: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusCreated {
		return nil
	}
	if least, err := strconv.ParseInt(resp.Header.Get("OCI-Chunk-Min-Length"), 10, 64); err == nil && least > u.chunk {
		u.chunk = least
	}
	if err := u.move(resp); err != nil {
		return err
	}
	u.off, u.careful, u.fresh, u.guessed = 0, false, true, false
	u.remember()
	return nil
}

// move updates the session's URL.
func (u *upload) move(resp *http.Response) error {
	at, err := resp.Request.URL.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" {
		return odd(resp, "an upload location of %.200q", resp.Header.Get("Location"))
	}
	own, err := url.Parse(u.r.url(""))
	if err != nil {
		return err
	}
	if hostOf(at.Host, at.Scheme) == hostOf(own.Host, own.Scheme) || u.r.inward.Load() && strings.HasPrefix(at.Path, own.Path+uploadsPart) {
		at.Scheme, at.Host = own.Scheme, own.Host // registries behind a proxy often do not know that they use TLS
	}
	if at.Scheme != "https" && (at.Scheme != "http" || own.Scheme != "http") {
		return odd(resp, "an upload location of %s, want HTTPS", withoutQuery(*at))
	}
	u.location = at
	return nil
}

// uploadsPart is the path of uploads within a repository.
const uploadsPart = "blobs/uploads/"

// inward reports whether the session's host, which cannot be reached, is the
// registry's internal name: the path is that of this repository's uploads. From
// then on such locations are used at the registry's own host.
func (u *upload) inward() bool {
	own, err := url.Parse(u.r.url(""))
	if err != nil || u.location == nil || u.location.Host == own.Host || !strings.HasPrefix(u.location.Path, own.Path+uploadsPart) {
		return false
	}
	u.r.inward.Store(true)
	at := *u.location
	at.Scheme, at.Host = own.Scheme, own.Host
	u.location = &at
	return true
}

// by returns the client for requests to the session: credentials are sent only
// to the registry's own host.
func (u *upload) by() doer {
	own, err := url.Parse(u.r.url(""))
	if err == nil && own.Scheme == u.location.Scheme && own.Host == u.location.Host {
		return u.r.c.bulk
	}
	return u.r.c.bare
}

// patch sends the next chunk.
func (u *upload) patch(ctx context.Context) error {
	start, end := u.off, min(u.off+u.chunk, u.desc.Size)
	req, err := u.request(ctx, http.MethodPatch, *u.location, u.off, end)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Range", fmt.Sprintf("%d-%d", u.off, end-1))
	if u.careful {
		req.Header.Set("Expect", "100-continue") // so that a refusal costs no bytes
	}
	resp, err := do(u.by(), req, http.StatusAccepted, http.StatusNoContent, http.StatusCreated)
	if err != nil {
		return lost(fmt.Errorf("sending bytes %d to %d: %w", u.off, end, err))
	}
	resp.Body.Close()
	if resp.Header.Get("Location") != "" { // without one, the session stays where it is
		if err := u.move(resp); err != nil {
			return err
		}
	}
	u.careful, u.fresh, u.refusals = false, false, 0
	return u.advance(ctx, resp.Header, start, end)
}

// advance sets the offset after the bytes from start to end were sent. Only the
// registry's digest of the blob is certain: the Range of an answer is constant
// at some registries, or counts per chunk. Where it does not name the end, it is
// asked for once.
func (u *upload) advance(ctx context.Context, h http.Header, start, end int64) error {
	got, ok := uploaded(h)
	u.off = end
	if !ok || got == end || got == end+1 || u.r.vague.Load() { // end+1: the length in place of the last byte
		u.guessed = u.guessed || got != end
		return nil
	}
	err := u.ask(ctx)
	switch {
	case err != nil && !errors.Is(err, errSession):
		return err
	case err == nil && u.off == end:
		return nil
	case err == nil && u.off == got && got > start && got < end && got != end-start:
		if got-start < (end-start)/16 {
			return fmt.Errorf("%w: of %d bytes sent it took %d", errSession, end-start, got-start)
		}
		return nil // it took a part
	}
	u.off, u.guessed = end, true
	u.r.vague.Store(true)
	return nil
}

// ask finds out how far the registry got.
func (u *upload) ask(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.location.String(), nil)
	if err != nil {
		return err
	}
	resp, err := do(u.by(), req, http.StatusNoContent, http.StatusOK, http.StatusAccepted)
	if err != nil {
		if code := status(err); code >= 400 && code < 500 && !busy(code) {
			return fmt.Errorf("%w: %w", errSession, err)
		}
		return fmt.Errorf("asking how far the upload got: %w", err)
	}
	defer resp.Body.Close()
	got, ok := uploaded(resp.Header)
	if !ok || got > u.desc.Size {
		return fmt.Errorf("%w: it has %d bytes of %d", errSession, got, u.desc.Size)
	}
	u.off, u.fresh = got, false
	u.guessed = u.guessed || u.r.vague.Load()
	if resp.Header.Get("Location") == "" {
		return nil
	}
	return u.move(resp)
}

// commit ends the upload with the bytes from off on.
func (u *upload) commit(ctx context.Context, off int64) error {
	at := *u.location
	query := at.Query()
	query.Set("digest", u.desc.Digest.String())
	at.RawQuery = query.Encode()
	// A registry may read the blob again before it responds.
	ctx = context.WithValue(ctx, patienceKey{}, time.Minute+time.Duration(u.desc.Size/(20<<20))*time.Second)
	req, err := u.request(ctx, http.MethodPut, at, off, u.desc.Size)
	if err != nil {
		return err
	}
	if u.desc.Size-off > u.chunk {
		req.Header.Set("Expect", "100-continue")
	}
	resp, err := do(u.by(), req, http.StatusCreated, http.StatusNoContent, http.StatusOK)
	if err != nil {
		var code errcode.Error
		if errors.As(err, &code) && code.Code == errcode.ErrorCodeDigestInvalid {
			return fmt.Errorf("%w (check the store with mm fsck): %w", errDigest, err)
		}
		if there, headErr := u.r.hasBlob(ctx, u.desc); headErr == nil && there {
			return nil // the answer was lost, not the blob
		}
		return lost(fmt.Errorf("ending the upload: %w", err))
	}
	resp.Body.Close()
	if d := resp.Header.Get("Docker-Content-Digest"); d != "" && digest.Digest(d) != u.desc.Digest {
		return odd(resp, "the blob was stored as %.80q, want %s", d, u.desc.Digest)
	}
	return nil
}

// lost maps failures of the session to errSession.
func lost(err error) error {
	switch status(err) {
	case http.StatusNotFound, http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("%w: %w", errSession, err)
	}
	return err
}

// request returns a request with the blob's bytes from off to end as its body.
func (u *upload) request(ctx context.Context, method string, at url.URL, off, end int64) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, at.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	if end == off {
		return req, nil
	}
	req.ContentLength = end - off
	req.GetBody = func() (io.ReadCloser, error) {
		f, err := u.open()
		if err != nil {
			return nil, err
		}
		return &section{file: f, off: off, end: end, moved: func(n, at int64) {
			u.sent(n)
			u.event(Event{Kind: Moved, Descriptor: u.desc, Offset: at})
		}}, nil
	}
	req.Body, err = req.GetBody()
	return req, err
}

// uploaded parses the size of a session from its Range header, "0-41" for 42.
// Registries send "0-0" for 0 too.
func uploaded(h http.Header) (int64, bool) {
	_, last, ok := strings.Cut(strings.TrimPrefix(h.Get("Range"), "bytes="), "-")
	n, err := strconv.ParseInt(last, 10, 64)
	if !ok || err != nil || n < 0 || n == math.MaxInt64 {
		return 0, false
	}
	if n == 0 {
		return 0, true
	}
	return n + 1, true
}
