package bucket

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Put implements [bucket.Bucket]: a resumable upload, whose checksum the store
// compares before the object appears.
func (b *GS) Put(ctx context.Context, key string, r io.ReaderAt, size int64, opt PutOptions) (Info, error) {
	if err := CheckKey(key); err != nil {
		return Info{}, err
	}
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if n, err := io.Copy(sum, io.NewSectionReader(r, 0, size)); err != nil || n != size {
		return Info{}, fmt.Errorf("reading %s: got %d bytes, want %d: %w", key, n, size, errors.Join(err, io.ErrUnexpectedEOF))
	}
	o := gsObject{Name: key, CRC32C: base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum.Sum32()))}
	if opt.SHA256 != "" {
		o.Metadata = map[string]string{DigestKey: opt.SHA256}
	}
	u := gsUpload{GS: b, r: r, size: size, opt: opt, object: o}
	if err := u.run(ctx); err != nil {
		return Info{}, err
	}
	return b.Stat(ctx, key)
}

// gsUpload is a resumable upload.
type gsUpload struct {
	*GS
	r       io.ReaderAt
	size    int64
	opt     PutOptions
	object  gsObject
	session string // URL
	sent    int64
	done    bool
}

func (u *gsUpload) run(ctx context.Context) error {
	if err := u.begin(ctx); err != nil {
		return err
	}
	for !u.done {
		before := u.sent
		err := Retry(ctx, func() error { return u.next(ctx) })
		if err == nil && !u.done && u.sent <= before {
			err = fmt.Errorf("%w: the upload stays at byte %d", ErrAnswer, u.sent)
		}
		if err != nil {
			return u.fail(ctx, err)
		}
	}
	if u.opt.Session != nil {
		return u.opt.Session.Save("")
	}
	return nil
}

// fail cancels the upload, unless another process may continue it.
func (u *gsUpload) fail(ctx context.Context, err error) error {
	if u.opt.Session != nil && !errors.Is(err, ErrExists) {
		return err
	}
	resp, closed := u.do(context.WithoutCancel(ctx), gsRequest{method: http.MethodDelete, url: u.session})
	if closed == nil {
		resp.Body.Close()
	}
	if u.opt.Session != nil {
		err = errors.Join(err, u.opt.Session.Save(""))
	}
	return err
}

// begin continues the upload of the session, or begins one.
func (u *gsUpload) begin(ctx context.Context) error {
	if u.opt.Session != nil {
		if u.session = u.opt.Session.Load(); u.session != "" && u.own(u.session) {
			err := Retry(ctx, func() error { return u.status(ctx) })
			var e *StatusError
			if err == nil || !errors.As(err, &e) || e.Status != http.StatusNotFound && e.Status != http.StatusGone {
				return err
			}
		}
	}
	u.sent, u.done = 0, false
	query := url.Values{"uploadType": {"resumable"}, "name": {u.object.Name}}
	if u.opt.IfAbsent {
		query.Set("ifGenerationMatch", "0")
	}
	body, err := json.Marshal(u.object)
	if err != nil {
		return err
	}
	err = Retry(ctx, func() error {
		resp, err := u.do(ctx, gsRequest{
			method: http.MethodPost, url: u.url("/upload", "", query), unmet: ErrExists,
			header: map[string]string{"Content-Type": "application/json", "X-Upload-Content-Length": strconv.FormatInt(u.size, 10)},
			body:   func() io.Reader { return strings.NewReader(string(body)) }, length: int64(len(body)),
		})
		if err != nil {
			return err
		}
		u.session = resp.Header.Get("Location")
		return resp.Body.Close()
	})
	if err != nil {
		return err
	}
	if !u.own(u.session) {
		return fmt.Errorf("%w: location of the upload %q is not at %s", ErrAnswer, u.session, u.base.Host)
	}
	if u.opt.Session != nil {
		return u.opt.Session.Save(u.session)
	}
	return nil
}

// own reports whether a location is at the server itself.
func (u *gsUpload) own(location string) bool {
	at, err := url.Parse(location)
	return err == nil && at.Scheme == u.base.Scheme && at.Host == u.base.Host
}

// next sends the next part; after a failure the server is asked how far it got.
func (u *gsUpload) next(ctx context.Context) error {
	n := min(u.GS.opt.PartSize, u.size-u.sent)
	span := fmt.Sprintf("bytes %d-%d/%d", u.sent, u.sent+n-1, u.size)
	if u.size == 0 {
		span = "bytes */0"
	}
	err := u.put(ctx, span, u.sent, n)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrExists) {
		if asked := u.status(ctx); asked == nil {
			return nil
		}
	}
	return err
}

// status asks how many bytes the server holds.
func (u *gsUpload) status(ctx context.Context) error {
	return u.put(ctx, fmt.Sprintf("bytes */%d", u.size), 0, 0)
}

// put sends bytes, or none, and reads how far the upload got.
func (u *gsUpload) put(ctx context.Context, span string, off, n int64) error {
	resp, err := u.do(ctx, gsRequest{
		method: http.MethodPut, url: u.session, header: map[string]string{"Content-Range": span}, more: true, unmet: ErrExists,
		body: func() io.Reader { return io.NewSectionReader(u.r, off, n) }, length: n,
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := ReadText(resp); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusPermanentRedirect {
		u.done = true
		return nil
	}
	last := int64(-1)
	if text := resp.Header.Get("Range"); text != "" {
		last, err = strconv.ParseInt(strings.TrimPrefix(strings.TrimPrefix(text, "bytes="), "0-"), 10, 64)
		if err != nil || last < 0 || last >= u.size {
			return fmt.Errorf("%w: range %q of %d bytes", ErrAnswer, text, u.size)
		}
	}
	u.sent = last + 1
	return nil
}
