package bucket

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Exact limits r to n bytes; fewer are an error, not an end.
func Exact(r io.ReadCloser, n int64) io.ReadCloser { return &exact{r, n} }

type exact struct {
	r    io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (e *exact) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	if err == io.EOF && e.left > 0 {
		return n, fmt.Errorf("%d bytes are missing: %w", e.left, io.ErrUnexpectedEOF)
	}
	if err == io.EOF {
		err = nil // the next call reports the end
	}
	return n, err
}

// Close implements io.Closer.
func (e *exact) Close() error { return e.r.Close() }

// Range returns the value of the header Range, or "" for the whole object.
func Range(off, n int64) string {
	switch {
	case n >= 0:
		return fmt.Sprintf("bytes=%d-%d", off, off+n-1)
	case off > 0:
		return fmt.Sprintf("bytes=%d-", off)
	}
	return ""
}

// Span verifies that an answer holds the range that was asked for. It returns
// the bytes that follow and the size of the object.
func Span(h http.Header, status int, off, n int64) (length, total int64, err error) {
	sent, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil || sent < 0 {
		return 0, 0, fmt.Errorf("%w: length %q", ErrAnswer, h.Get("Content-Length"))
	}
	if Range(off, n) == "" {
		if status != http.StatusOK {
			return 0, 0, fmt.Errorf("%w: status %d for the whole object", ErrAnswer, status)
		}
		return sent, sent, nil
	}
	first, last, total, ok := contentRange(h.Get("Content-Range"))
	end := total - 1
	if n >= 0 {
		end = min(end, off+n-1)
	}
	if !ok || status != http.StatusPartialContent || first != off || last != end || sent != last-first+1 {
		return 0, 0, fmt.Errorf("%w: asked for %s, got status %d, range %q, length %d", ErrAnswer, Range(off, n), status, h.Get("Content-Range"), sent)
	}
	return sent, total, nil
}

// contentRange parses "bytes FIRST-LAST/TOTAL".
func contentRange(text string) (first, last, total int64, ok bool) {
	span, size, ok := strings.Cut(strings.TrimPrefix(text, "bytes "), "/")
	from, to, dash := strings.Cut(span, "-")
	var err [3]error
	first, err[0] = strconv.ParseInt(from, 10, 64)
	last, err[1] = strconv.ParseInt(to, 10, 64)
	total, err[2] = strconv.ParseInt(size, 10, 64)
	return first, last, total, ok && dash && err == [3]error{} && first >= 0 && first <= last && last < total
}

// IsDigest reports whether text is a SHA-256 in hexadecimal.
func IsDigest(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == 32 && strings.ToLower(text) == text
}
