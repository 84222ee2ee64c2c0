package bucket

import (
	"fmt"
	"io"
	"net/http"
)

const (
	maxS3Text  = 32 << 20 // bytes of an answer that is not an object
	maxS3Pages = 10_000   // of a listing
)

type (
	pagesKey  struct{} // counts the pages of a listing
	statusKey struct{} // receives the status of the last answer
)

// s3Guard limits the answers that the library reads whole, and counts the pages of
// a listing, which an empty page with a token would make endless.
type s3Guard struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g s3Guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if pages, ok := req.Context().Value(pagesKey{}).(*int); ok {
		if *pages++; *pages > maxS3Pages {
			return nil, fmt.Errorf("%w: listing exceeds %d pages", ErrAnswer, maxS3Pages)
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
		resp.Body = &s3Limited{resp.Body, maxS3Text}
	}
	return resp, nil
}

// s3Limited fails after left bytes.
type s3Limited struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (l *s3Limited) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return n, fmt.Errorf("%w: more than %d bytes", ErrAnswer, maxS3Text)
	}
	return n, err
}
