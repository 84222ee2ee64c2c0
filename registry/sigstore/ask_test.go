package sigstore

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// asked answers requests from a function.
type asked func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f asked) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A service is asked again when it asks to be, unless that is later than its answer may come.
func TestAskWaits(t *testing.T) {
	for _, c := range []struct {
		header string
		times  int
		took   time.Duration
	}{
		{"", tries, 3 * time.Second}, // 1 and 2 seconds
		{"1.5", tries, 3500 * time.Millisecond},
		{"Sat, 01 Jan 2000 00:00:09 GMT", tries, 9*time.Second + 2*time.Second}, // the date has passed at the second answer
		{"30", tries, 60 * time.Second},
		{"31", 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			times, begin := 0, time.Now()
			a := newAsker(asked(func(*http.Request) (*http.Response, error) {
				times++
				return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {c.header}}, Body: http.NoBody}, nil
			}))
			_, err := a.ask(t.Context(), question{service: "Rekor", url: "https://rekor.example/"})
			if took := time.Since(begin); err == nil || times != c.times || took != c.took {
				t.Errorf("%q: got %v after %d requests and %v, want %d and %v", c.header, err, times, took, c.times, c.took)
			}
		})
	}
}
