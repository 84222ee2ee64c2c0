package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/internal/httpx"
)

// backoff decides whether and when something is tried again. It is the
// retry.Policy of requests that can be repeated as they are.
type backoff struct {
	tries   int
	base    time.Duration // before the first repetition; doubles
	longest time.Duration // the longest Retry-After that is obeyed
	tell    func(Event)   // receives waits. Nil: none
}

// Retry implements retry.Policy: it returns the wait, or -1 to give up.
// attempt counts from 0.
func (b backoff) Retry(attempt int, resp *http.Response, err error) (time.Duration, error) {
	switch {
	case attempt >= b.tries:
		return -1, nil
	case err != nil:
		if !temporary(err) || refused(err) {
			return -1, nil
		}
		return b.report(b.wait(attempt), err), nil
	case !busy(resp.StatusCode):
		return -1, nil
	}
	after, ok := httpx.RetryAfter(resp.Header, time.Now())
	if !ok {
		after = b.wait(attempt)
	}
	if after > b.longest {
		return -1, nil
	}
	return b.report(after, fmt.Errorf("%s answers %s", resp.Request.URL.Host, resp.Status)), nil
}

// report reports the wait and returns it.
func (b backoff) report(wait time.Duration, why error) time.Duration {
	if b.tell != nil {
		b.tell(Event{Kind: Waiting, Err: cleaned{fmt.Errorf("trying again in %s: %w", wait.Round(time.Millisecond), why)}})
	}
	return wait
}

// again decides whether a resumable operation is tried again after err, and
// waits. tries counts the failures without progress.
func (c *Client) again(ctx context.Context, tries int, err error) error {
	if ctx.Err() != nil {
		return ended(ctx, err)
	}
	passing := errors.Is(err, errSession)
	if code := status(err); code != 0 {
		passing = passing || busy(code)
	} else {
		passing = passing || temporary(err)
	}
	if !passing || tries >= c.backoff.tries {
		return err
	}
	wait := c.backoff.wait(tries)
	var f *failure
	if errors.As(err, &f) && f.after >= 0 {
		if wait = f.after; wait > c.backoff.longest {
			return fmt.Errorf("the registry asks to wait for %s: %w", wait.Round(time.Second), err)
		}
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
		return err
	}
	if sleep(ctx, wait) != nil {
		return ended(ctx, err)
	}
	return nil
}

// Limits on waiting for parts of a manifest that the registry does not show yet:
// some are consistent only a moment later.
const (
	maxLateTries = 3  // of one blob or manifest
	maxLateWaits = 24 // of one repository
)

// patient waits if err reports something missing that may appear in a moment.
func (r *repository) patient(ctx context.Context, tries int, err error) bool {
	if !errors.Is(err, errdef.ErrNotFound) || tries >= min(maxLateTries, r.c.backoff.tries) || r.waits.Add(1) > maxLateWaits {
		return false
	}
	return sleep(ctx, r.c.backoff.wait(tries)) == nil
}

// ended joins the end of ctx to the error that it cut short, so that an
// interrupted wait reports both.
func ended(ctx context.Context, err error) error {
	if errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

// wait is the pause before repetition attempt+1, with a tenth of jitter so that
// many clients do not return as one.
func (b backoff) wait(attempt int) time.Duration {
	d := b.base << min(attempt, 6)
	return d + time.Duration(rand.Int64N(int64(d)/10+1))
}

// busy reports whether a status asks for another try.
func busy(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// temporary reports whether an error of the connection may pass.
func temporary(err error) bool {
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var header tls.RecordHeaderError
	switch {
	case errors.Is(err, context.Canceled), local(err), errors.Is(err, errRedirect), errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &header):
		return false
	case errors.Is(err, ErrStalled), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	}
	var n net.Error
	return errors.As(err, &n)
}

// local reports whether the error is of this machine: of a file, or of its limits.
// It does not pass by waiting for a registry, and syscall.Errno calls itself a
// net.Error.
func local(err error) bool {
	var file *fs.PathError
	var link *os.LinkError
	if errors.As(err, &file) || errors.As(err, &link) {
		return true
	}
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EFBIG} {
		if errors.Is(err, errno) {
			return true
		}
	}
	var errno syscall.Errno
	var op *net.OpError
	return errors.As(err, &errno) && !errors.As(err, &op) // EDQUOT and others that are not of a connection
}

// refused reports whether there was no connection at all. Before anything
// worked that is more likely a wrong name than a passing fault.
func refused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && !op.Timeout()
}

// sleep waits, unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
