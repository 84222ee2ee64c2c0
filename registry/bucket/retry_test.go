package bucket

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// The second request comes no earlier than the server asks, and no later than it doubles
// the driver's own wait or after a minute.
func TestRetryWaits(t *testing.T) {
	const own = 200 * time.Millisecond // at most, before the second request
	for _, c := range []struct {
		header      string
		least, most time.Duration
	}{
		{"", own / 2, own},
		{"soon", own / 2, own},
		{"0", own / 2, own},
		{"7", 7 * time.Second, 7 * time.Second},
		{"Sat, 01 Jan 2000 00:00:07 GMT", 7 * time.Second, 7 * time.Second}, // the clock of synctest begins in 2000
		{"Fri, 31 Dec 1999 00:00:07 GMT", own / 2, own},
		{"60", maxWait, maxWait},
		{"61", maxWait, maxWait},
		{"Sat, 01 Jan 2000 00:01:01 GMT", maxWait, maxWait},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin, tries := time.Now(), 0
			err := Retry(t.Context(), func() error {
				if tries++; tries > 1 {
					return nil
				}
				return ReadStatus(&http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {c.header}}, Body: http.NoBody}, nil)
			})
			if took := time.Since(begin); err != nil || tries != 2 || took < c.least || took > c.most {
				t.Errorf("%q: got %v after %d tries and %v, want %v to %v", c.header, err, tries, took, c.least, c.most)
			}
		})
	}
}
