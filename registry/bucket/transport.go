package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"mm-abi.org/mm/internal/httpx"
)

// stall is the time without progress after which a request is abandoned.
const stall = 60 * time.Second

const (
	maxText  = 8 << 20     // bytes of an answer that is not an object
	maxPages = 10_000      // of a listing
	maxError = 64 << 10    // bytes of an error of the server
	maxTries = 5           // of a request
	maxWait  = time.Minute // before the next try, whatever the server asks for
)

// NewTransport returns the transport of the drivers: no request waits longer
// than a minute for progress.
func NewTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: stall / 2, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy: httpx.Proxy,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &conn{c}, nil
		},
		TLSHandshakeTimeout:   stall / 2,
		ResponseHeaderTimeout: 2 * stall, // a store joins the parts of a large object
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       stall / 2,
		DisableCompression:    true, // lengths and ranges count stored bytes
	}
}

// conn abandons reads and writes without progress.
type conn struct{ net.Conn }

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(2 * stall)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(stall)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// NewClient returns a client that follows no redirects: they would carry
// credentials and contents to another host.
func NewClient(t http.RoundTripper) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// StatusError is an error answer of a server.
type StatusError struct {
	Status  int
	Code    string // of the store, such as NoSuchKey
	Message string
	after   time.Duration // Retry-After
}

// Error implements error.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("status %d", e.Status)
	if e.Code != "" {
		text += " " + e.Code
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Unwrap maps the status to an error of this package.
func (e *StatusError) Unwrap() error {
	switch {
	case e.Code == "NoSuchBucket" || e.Code == "ContainerNotFound":
		return ErrNoPlace
	case e.Status == http.StatusNotFound:
		return ErrMissing
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return ErrDenied
	case e.Status >= 300 && e.Status < 400:
		return ErrAnswer
	}
	return nil
}

// ReadStatus reads the error of resp; parse finds the store's code and message in
// its body.
func ReadStatus(resp *http.Response, parse func([]byte) (code, message string)) *StatusError {
	e := &StatusError{Status: resp.StatusCode}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if parse != nil {
		e.Code, e.Message = parse(body)
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 && e.Message == "" {
		e.Message = fmt.Sprintf("redirect refused: %q", resp.Header.Get("Location"))
	}
	if wait, ok := httpx.RetryAfter(resp.Header, time.Now()); ok {
		e.after = min(wait, maxWait)
	}
	return e
}

// ReadText reads an answer that is not an object.
func ReadText(resp *http.Response) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxText+1))
	if err == nil && len(data) > maxText {
		err = fmt.Errorf("%w: more than %d bytes", ErrAnswer, maxText)
	}
	return data, err
}

// Retry calls f until it succeeds, fails for good, or has failed five times.
func Retry(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if err == nil || try == maxTries || ctx.Err() != nil || !passing(err) {
			return err
		}
		wait := time.Duration(1<<try) * 100 * time.Millisecond
		wait = wait/2 + rand.N(wait/2+1)
		if e := (*StatusError)(nil); errors.As(err, &e) {
			wait = max(wait, e.after)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// passing reports whether the failure may pass.
func passing(err error) bool {
	if e := (*StatusError)(nil); errors.As(err, &e) {
		return e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout || e.Status >= 500
	}
	for _, final := range []error{ErrAnswer, ErrChanged, ErrExists, ErrMissing, ErrDigest, context.Canceled} {
		if errors.Is(err, final) {
			return false
		}
	}
	var network net.Error
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.As(err, &network)
}
