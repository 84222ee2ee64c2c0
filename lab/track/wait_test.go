package track

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// asked answers requests from a function.
type asked func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f asked) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An overloaded server is asked again when it asks to be, unless that is after a minute.
func TestServerWaits(t *testing.T) {
	for _, c := range []struct {
		header string
		times  int
		took   time.Duration
	}{
		{"", attempts, 15 * time.Second / 4}, // 0.25, 0.5, 1 and 2 seconds
		{"1", attempts, 5 * time.Second},
		{"Sat, 01 Jan 2000 00:00:09 GMT", attempts, 9*time.Second + 7*time.Second/2},
		{strconv.Itoa(int(maxWait.Seconds())), attempts, 4 * maxWait},
		{strconv.Itoa(int(maxWait.Seconds()) + 1), 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			times, begin := 0, time.Now()
			s := &Server{base: "http://mlflow.example", pause: time.Second / 4, client: &http.Client{Transport: asked(func(*http.Request) (*http.Response, error) {
				times++
				return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {c.header}}, Body: io.NopCloser(strings.NewReader("busy"))}, nil
			})}}
			err := s.again(t.Context(), func() error {
				_, err := s.do(t.Context(), http.MethodGet, s.base, "", nil)
				return err
			})
			if took := time.Since(begin); err == nil || times != c.times || took != c.took {
				t.Errorf("%q: got %v after %d requests and %v, want %d and %v", c.header, err, times, took, c.times, c.took)
			}
		})
	}
}
