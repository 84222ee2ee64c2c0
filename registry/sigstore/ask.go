package sigstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"mm-abi.org/mm/internal/httpx"
)

// Limits of an answer.
const (
	maxAnswer   = 4 << 20          // bytes
	maxPatience = 30 * time.Second // from the request to the end of the answer
)

// tries is how often an overloaded service is asked.
const tries = 3

// asker sends requests to services. It follows no redirection.
type asker struct {
	http     http.Client
	patience time.Duration
	pause    time.Duration // after the first failure; it doubles
}

// newAsker returns an asker; a nil transport is the usual one.
func newAsker(transport http.RoundTripper) asker {
	if transport == nil {
		transport = httpx.Transport()
	}
	return asker{http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, maxPatience, time.Second}
}

// question is a request.
type question struct {
	service string // for messages
	url     string
	kind    string // media type of the body; "": none, a GET
	body    []byte
	bearer  string // token
}

// ask returns the answer to a question. Overloaded services are asked again, unless one
// asks to wait for longer than it may take to answer.
func (a *asker) ask(ctx context.Context, q question) (data []byte, err error) {
	pause := a.pause
	for i := range tries {
		var after time.Duration
		if data, after, err = a.once(ctx, q); err == nil || after < 0 || after > a.patience || i == tries-1 {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(max(pause, after)):
		}
		pause *= 2
	}
	return data, err
}

// once asks once, and returns the time that an overloaded service asks to wait, or -1 if
// there is no use in asking again.
func (a *asker) once(ctx context.Context, q question) (data []byte, after time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.patience, fmt.Errorf("no answer within %s", a.patience))
	defer cancel()
	method := http.MethodGet
	if q.kind != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, q.url, bytes.NewReader(q.body))
	if err != nil {
		return nil, -1, fmt.Errorf("%s: %w", q.service, bare(err))
	}
	req.Header.Set("User-Agent", "mm")
	if q.kind != "" {
		req.Header.Set("Content-Type", q.kind)
	}
	if q.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+q.bearer)
	}
	resp, err := a.http.Do(req)
	if err == nil {
		defer resp.Body.Close()
		data, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	}
	where := q.service + " at " + req.URL.Host
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, -1, fmt.Errorf("%s: %w", where, context.Cause(ctx))
	case err != nil:
		return nil, -1, fmt.Errorf("%s: %w", where, bare(err))
	case len(data) > maxAnswer:
		return nil, -1, fmt.Errorf("%s: answer of more than %d bytes", where, maxAnswer)
	case resp.StatusCode/100 == 3:
		return nil, -1, fmt.Errorf("%s: redirection (%s), which is not followed", where, resp.Status)
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated:
		after = -1
		if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode/100 == 5 {
			after, _ = httpx.RetryAfter(resp.Header, time.Now())
		}
		return nil, after, fmt.Errorf("%s: %s: %s", where, resp.Status, printable(data))
	}
	return data, -1, nil
}

// bare removes the address from an error, whose query may hold a secret.
func bare(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// printable shortens an answer for a message.
func printable(data []byte) string {
	if len(data) > 200 {
		data = data[:200]
	}
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(string(data), "?"), func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
}
