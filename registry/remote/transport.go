package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"sync"
	"time"

	"mm-abi.org/mm/internal/httpx"
)

// ErrStalled reports a request without progress for [Options.Stall].
var ErrStalled = errors.New("no progress")

// ErrTimeout reports an operation that took longer than [Options.Timeout].
var ErrTimeout = errors.New("timed out")

// errRedirect reports a refused redirect.
var errRedirect = errors.New("redirect refused")

const (
	userAgent    = "mm"
	maxRedirects = 10
	sendPiece    = 256 << 10 // bytes between two looks at the clock while the kernel sends a file
)

// newTransport returns the HTTP transport. It does not use HTTP/2, since bulk
// data gains nothing from sharing one connection and the kernel can send files
// over HTTP/1.1.
func newTransport(opt Options) http.RoundTripper {
	dialer := &net.Dialer{Timeout: opt.Stall, KeepAlive: 30 * time.Second}
	return &watch{stall: opt.Stall, rate: opt.MinRate, tell: opt.Progress, base: &http.Transport{
		Proxy: httpx.Proxy,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &conn{Conn: c, stall: opt.Stall}, nil
		},
		OnProxyConnectResponse: func(_ context.Context, proxy *url.URL, _ *http.Request, resp *http.Response) error {
			if resp.StatusCode != http.StatusOK {
				return proxyError(proxy, "https", resp.Status)
			}
			return nil
		},
		TLSClientConfig:     opt.TLS,
		TLSHandshakeTimeout: opt.Stall,
		// Requests that expect a refusal wait so long for leave to send.
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   opt.Parallel + 2,
		IdleConnTimeout:       90 * time.Second,
	}}
}

// conn gives up a write without progress, and sends blobs from their files in
// the kernel.
type conn struct {
	net.Conn
	stall time.Duration
}

// Write writes p, within the stall time.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	return n, stalled(err)
}

// ReadFrom sends a request body of known length from net/http: a section of a
// file goes by sendfile(2) if the system has it, piece by piece, each within
// the stall time.
func (c *conn) ReadFrom(r io.Reader) (sent int64, err error) {
	lr, ok := r.(*io.LimitedReader)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	s, ok := lr.R.(*section)
	to, can := c.Conn.(io.ReaderFrom)
	if !ok || !can {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	if _, err := s.file.Seek(s.off, io.SeekStart); err != nil {
		return 0, err
	}
	for left := min(lr.N, s.end-s.off); left > 0; {
		if err := c.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
			return sent, err
		}
		n, err := to.ReadFrom(&io.LimitedReader{R: s.file, N: min(left, sendPiece)})
		s.advance(n)
		sent, left, lr.N = sent+n, left-n, lr.N-n
		if err != nil {
			return sent, stalled(err)
		}
		if n == 0 {
			return sent, io.ErrUnexpectedEOF // the file was cut short
		}
	}
	return sent, nil
}

// stalled maps a passed deadline to ErrStalled.
func stalled(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrStalled, err)
	}
	return err
}

// section is a request body: part of a file, which it closes. Unlike
// io.SectionReader the kernel can send it (see [conn.ReadFrom]). Each request
// opens its own file, since net/http may still be sending one body when the
// next request begins, and the kernel moves the file's position.
type section struct {
	file     *os.File
	off, end int64
	moved    func(n, off int64) // receives the bytes sent and the offset
}

// Read reads the next bytes.
func (s *section) Read(p []byte) (int, error) {
	if s.off >= s.end {
		return 0, io.EOF
	}
	n, err := s.file.ReadAt(p[:min(int64(len(p)), s.end-s.off)], s.off)
	s.advance(int64(n))
	if n > 0 {
		err = nil
	} else if err == io.EOF {
		err = io.ErrUnexpectedEOF // the file was cut short
	}
	return n, err
}

// Close closes the file.
func (s *section) Close() error { return s.file.Close() }

func (s *section) advance(n int64) {
	s.off += n
	s.moved(n, s.off)
}

// watch gives up requests without progress: between writing the request and
// the response, and while the response is read. conn watches the writing.
type watch struct {
	base  http.RoundTripper
	stall time.Duration
	rate  int64 // bytes a second over the stall time
	tell  func(Event)
}

// notice notifies the user after a while of silence from the host.
func (w *watch) notice(host string) *time.Timer {
	return time.AfterFunc(noticeAfter, func() {
		w.tell(Event{Kind: Waiting, Err: fmt.Errorf("nothing from %s for %s; giving up after %s", host, noticeAfter, w.stall)})
	})
}

// patienceKey holds the longer wait that a request may allow for its answer.
type patienceKey struct{}

// CloseIdleConnections closes the connections of the base transport.
func (w *watch) CloseIdleConnections() {
	if t, ok := w.base.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// RoundTrip sends the request.
func (w *watch) RoundTrip(req *http.Request) (*http.Response, error) {
	wait := w.stall
	if d, ok := req.Context().Value(patienceKey{}).(time.Duration); ok {
		wait = max(wait, d)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	giveUp := func() { cancel(ErrStalled) }
	var mu sync.Mutex
	var answer *time.Timer
	answered := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) {
			mu.Lock()
			defer mu.Unlock()
			if answer == nil && !answered {
				answer = time.AfterFunc(wait, giveUp)
			}
		},
	})
	notice := w.notice(req.URL.Host)
	resp, err := w.base.RoundTrip(req.WithContext(ctx))
	notice.Stop()
	mu.Lock()
	answered = true
	if answer != nil {
		answer.Stop()
	}
	mu.Unlock()
	if proxy := w.asked(req); err == nil && resp.StatusCode == http.StatusProxyAuthRequired && proxy != nil {
		resp.Body.Close()
		err = proxyError(proxy, "http", resp.Status)
	}
	if err != nil {
		err = orCause(ctx, err)
		cancel(nil)
		return nil, err
	}
	resp.Body = &watchedBody{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, w: w, host: req.URL.Host, timer: time.AfterFunc(w.stall, giveUp)}
	return resp, nil
}

// asked returns the proxy that a request over plain HTTP goes to; nil: none.
func (w *watch) asked(req *http.Request) *url.URL {
	if t, ok := w.base.(*http.Transport); ok && t.Proxy != nil && req.URL.Scheme == "http" {
		if proxy, err := t.Proxy(req); err == nil {
			return proxy
		}
	}
	return nil
}

// watchedBody is an answer on which something must move, and more than a few
// bytes.
type watchedBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	w      *watch
	host   string
	timer  *time.Timer
	spent  time.Duration // in Read, since bytes were last counted
	got    int64
}

// Read reads from the body, within the stall time. The rate counts the time
// spent here, not the time of the caller.
func (b *watchedBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.w.stall)
	notice := b.w.notice(b.host)
	began := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.spent += time.Since(began)
	b.timer.Stop()
	notice.Stop()
	if b.got += int64(n); b.spent >= b.w.stall {
		if b.w.rate > 0 && err == nil && float64(b.got) < float64(b.w.rate)*b.spent.Seconds() {
			b.cancel(ErrStalled)
			err = fmt.Errorf("%w: %d bytes in %s", ErrStalled, b.got, b.spent.Round(time.Second))
		}
		b.spent, b.got = 0, 0
	}
	if err != nil && err != io.EOF {
		err = orCause(b.ctx, err)
	}
	return n, err
}

// Close closes the body.
func (b *watchedBody) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// orCause returns ErrStalled if that is why ctx ended.
func orCause(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), ErrStalled) {
		return ErrStalled
	}
	return err
}

// checkRedirect keeps redirects few and never leaves HTTPS.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("%w: more than %d", errRedirect, maxRedirects)
	}
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("%w: from HTTPS to %s", errRedirect, withoutQuery(*req.URL))
	}
	return nil
}
