package s3

import (
	"fmt"
	"io"
	"net/http"

	"mm-abi.org/mm/registry/bucket"
)

const (
	maxText  = 32 << 20 // bytes of an answer that is not an object
	maxPages = 10_000   // of a listing
)

type (
	pagesKey  struct{} // counts the pages of a listing
	statusKey struct{} // receives the status of the last answer
)

// guard limits the answers that the library reads whole, and counts the pages of
// a listing, which an empty page with a token would make endless.
type guard struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if pages, ok := req.Context().Value(pagesKey{}).(*int); ok {
		if *pages++; *pages > maxPages {
			return nil, fmt.Errorf("%w: listing exceeds %d pages", bucket.ErrAnswer, maxPages)
		}
	}
	resp, err := g.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if status, ok := req.Context().Value(statusKey{}).(*int); ok {
		*status = resp.StatusCode
	}
	if object := req.Method == http.MethodGet && req.URL.RawQuery == "" && resp.StatusCode < 300; !object {
		resp.Body = &limited{resp.Body, maxText}
	}
	return resp, nil
}

// limited fails after left bytes.
type limited struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return n, fmt.Errorf("%w: more than %d bytes", bucket.ErrAnswer, maxText)
	}
	return n, err
}
