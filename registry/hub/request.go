package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"mm-abi.org/mm/internal/diag"
)

// maxAnswer limits a JSON answer of the hub.
const maxAnswer = 32 << 20

// call sends JSON to the hub, unless in is nil, and decodes its answer into out.
func (c *Client) call(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return nil, err
		}
	}
	return c.send(ctx, method, c.base.String()+path, "application/json", body, out)
}

// send sends a body to a URL and decodes the answer.
func (c *Client) send(ctx context.Context, method, to, kind string, body []byte, out any) (http.Header, error) {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, to, r)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	req.Header.Set("Accept", kind)
	resp, err := c.do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the answer of %s: %w", req.URL.Host, err)
	case len(data) > maxAnswer:
		return nil, fmt.Errorf("answer of %s to %s %s: larger than %d MiB", req.URL.Host, method, req.URL.Path, maxAnswer>>20)
	case out == nil:
		return resp.Header, nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("answer of %s to %s %s: %w", req.URL.Host, method, req.URL.Path, err)
	}
	return resp.Header, nil
}

// do sends a request. The token goes to the hub's own host and scheme only.
func (c *Client) do(req *http.Request) (*http.Response, error) {
	req.Header.Set("User-Agent", "mm")
	if c.token != "" && req.URL.Host == c.base.Host && req.URL.Scheme == c.base.Scheme && req.Header.Get("Authorization") == "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, withoutQuery(err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.refusal(req, resp)
}

// withoutQuery removes the query of the URL in an error, which may hold a
// signature.
func withoutQuery(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		if i := strings.IndexByte(e.URL, '?'); i >= 0 {
			e.URL = e.URL[:i]
		}
	}
	return err
}

// StatusError is an answer other than success.
type StatusError struct {
	Method, URL string // without the query
	Status      int
	Message     string // of the hub, may be empty
}

// Error implements error.
func (e *StatusError) Error() string {
	s := fmt.Sprintf("%s %s: %d %s", e.Method, e.URL, e.Status, http.StatusText(e.Status))
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// refusal returns the error of an answer.
func (c *Client) refusal(req *http.Request, resp *http.Response) error {
	const longest = 1 << 10
	data, _ := io.ReadAll(io.LimitReader(resp.Body, longest)) // without it, the status remains
	var body struct{ Error, Message string }
	message := resp.Header.Get("X-Error-Message")
	if json.Unmarshal(data, &body) == nil && message == "" {
		message = body.Error + body.Message
	}
	e := &StatusError{Method: req.Method, URL: req.URL.Scheme + "://" + req.URL.Host + req.URL.Path, Status: resp.StatusCode, Message: diag.Printable(message)}
	switch resp.StatusCode {
	case http.StatusNotFound:
		return errors.Join(ErrMissing, e)
	case http.StatusUnauthorized, http.StatusForbidden:
		if c.token == "" {
			return fmt.Errorf("%w (no token: HF_TOKEN, or the file that HF_TOKEN_PATH names)", e)
		}
	}
	return e
}
