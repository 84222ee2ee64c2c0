package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// copyBuffer is how many bytes of a blob are read before they are hashed and
// written: with the other data they fit into a core's second-level cache,
// which measures a third cheaper than 512 KiB.
const copyBuffer = 128 << 10

// worthwhile is how many bytes a try must bring to count as progress, so that
// a registry that sends a few at a time cannot hold us forever.
const worthwhile = 64 << 10

// download brings one blob into the store (distribution-spec, Pulling blobs).
type download struct {
	r     *repository
	src   *Source // may hold the blob
	desc  ocispec.Descriptor
	dst   *registry.Store
	tally *tally
	begun bool // Started was reported
}

// run fetches the blob. If bytes from several responses do not match the
// digest, the blob is fetched once more from the start.
func (d *download) run(ctx context.Context) error {
	pieced, err := d.fetch(ctx)
	if pieced && errors.Is(err, artifact.ErrCorrupt) {
		d.r.c.opt.Progress(Event{Kind: Retried, Descriptor: d.desc, Err: err})
		_, err = d.fetch(ctx)
	}
	if errors.Is(err, artifact.ErrCorrupt) && !errors.Is(err, ErrReceived) {
		err = fmt.Errorf("%w: %w", ErrReceived, err)
	}
	return err
}

// fetch continues the blob from the store's offset. pieced reports that the
// bytes come from more than one response.
func (d *download) fetch(ctx context.Context) (pieced bool, err error) {
	tell := d.r.c.opt.Progress
	p, err := d.dst.Partial(ctx, d.desc)
	if errors.Is(err, errdef.ErrAlreadyExists) {
		d.tally.count(Present)
		tell(Event{Kind: Present, Descriptor: d.desc, Offset: d.desc.Size})
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer p.Close()
	pieced = p.Offset() > 0
	if !d.begun {
		tell(Event{Kind: Started, Descriptor: d.desc, Offset: p.Offset()})
		d.begun = true
	}
	buf := make([]byte, min(copyBuffer, d.desc.Size+1))
	for tries, best := 0, p.Offset(); p.Offset() < d.desc.Size; tries++ {
		err := d.read(ctx, p, buf)
		if err == nil {
			continue
		}
		if p.Offset() >= best+worthwhile {
			best, tries = p.Offset(), 0
		}
		if d.r.patient(ctx, tries, err) {
			continue
		}
		if err := d.r.c.again(ctx, tries, err); err != nil {
			return pieced, err
		}
		pieced = true
		tell(Event{Kind: Retried, Descriptor: d.desc, Offset: p.Offset(), Err: err})
	}
	if err := p.Commit(); err != nil {
		return pieced, err
	}
	d.tally.count(Done)
	tell(Event{Kind: Done, Descriptor: d.desc, Offset: d.desc.Size})
	return pieced, nil
}

// read requests the bytes from the partial's end on and stores them.
func (d *download) read(ctx context.Context, p *cas.Partial, buf []byte) error {
	if data, ok := d.src.lookup(d.desc.Digest); ok && p.Offset() == 0 {
		return d.take(p, bytes.NewReader(data), buf)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.r.url("blobs/"+d.desc.Digest.String()), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept-Encoding", "identity") // the bytes themselves, or offsets mean nothing
	if p.Offset() > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.Offset()))
	}
	resp, err := do(d.r.c.bulk, req, http.StatusOK, http.StatusPartialContent)
	if status(err) == http.StatusRequestedRangeNotSatisfiable {
		return errors.Join(errSession, err, p.Reset())
	}
	if status(err) == http.StatusNotFound {
		return fmt.Errorf("%w: %w", errdef.ErrNotFound, err)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK && p.Offset() > 0 || resp.StatusCode == http.StatusPartialContent && !d.follows(resp, p.Offset()) {
		asked := p.Offset()
		if err := p.Reset(); err != nil {
			return err
		}
		if resp.StatusCode == http.StatusPartialContent {
			return fmt.Errorf("%w: Content-Range: got %.80q, want bytes from %d", errSession, resp.Header.Get("Content-Range"), asked)
		}
	}
	if err := wrongSize(resp, d.desc.Size-p.Offset()); err != nil {
		return err
	}
	if left := d.desc.Size - p.Offset(); resp.ContentLength > left {
		return fmt.Errorf("%w: got %d bytes, want %d: %w", ErrReceived, resp.ContentLength, left, artifact.ErrCorrupt)
	}
	return d.take(p, resp.Body, buf)
}

// follows reports whether a partial answer begins at off ("bytes 5-41/42").
func (d *download) follows(resp *http.Response, off int64) bool {
	span, ok := strings.CutPrefix(resp.Header.Get("Content-Range"), "bytes ")
	first, rest, dash := strings.Cut(span, "-")
	_, total, slash := strings.Cut(rest, "/")
	n, err := strconv.ParseInt(first, 10, 64)
	return ok && dash && slash && err == nil && n == off && (total == "*" || total == strconv.FormatInt(d.desc.Size, 10))
}

// take copies the body to the partial, a buffer at a time.
func (d *download) take(p *cas.Partial, body io.Reader, buf []byte) error {
	for {
		n, err := io.ReadFull(body, buf[:min(int64(len(buf)), d.desc.Size-p.Offset()+1)])
		d.tally.bytes.Add(int64(n))
		if int64(n) > d.desc.Size-p.Offset() {
			return fmt.Errorf("%w: got more than %d bytes: %w", ErrReceived, d.desc.Size, artifact.ErrCorrupt)
		}
		if n > 0 {
			if _, err := p.Write(buf[:n]); err != nil {
				return err
			}
			d.r.c.opt.Progress(Event{Kind: Moved, Descriptor: d.desc, Offset: p.Offset()})
		}
		switch {
		case err == nil:
		case p.Offset() == d.desc.Size:
			return nil // whatever ended the answer, nothing is missing
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		default:
			return err
		}
	}
}
