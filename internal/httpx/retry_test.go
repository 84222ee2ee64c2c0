package httpx_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/internal/httpx"
)

func TestRetryAfter(t *testing.T) {
	const none = time.Duration(-1)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	most := httpx.MaxRetryAfter
	for _, c := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", "0", 0},
		{"Retry-After", "007", 7 * time.Second},
		{"Retry-After", "1.5", 1500 * time.Millisecond},
		{"Retry-After", "31535999", most - time.Second},
		{"Retry-After", "31535999.999", most - time.Millisecond},
		{"Retry-After", "31536000", most},
		{"Retry-After", "31536001", most},
		{"Retry-After", "99999999999", most},
		{"Retry-After", strings.Repeat("9", 400), most},
		{"Retry-After", "Thu, 01 Jan 2026 00:00:09 GMT", 9 * time.Second},
		{"Retry-After", "Thursday, 01-Jan-26 00:00:09 GMT", 9 * time.Second},
		{"Retry-After", "Thu Jan  1 00:00:09 2026", 9 * time.Second},
		{"Retry-After", "Thu, 01 Jan 2026 00:00:00 GMT", 0},
		{"Retry-After", "Wed, 31 Dec 2025 23:59:59 GMT", 0},
		{"Retry-After", "Thu, 31 Dec 2026 23:59:59 GMT", most - time.Second},
		{"Retry-After", "Sat, 01 Jan 2028 00:00:00 GMT", most},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
		{"Retry-After-Ms", "0.5", 500 * time.Microsecond},
		{"Retry-After-Ms", "250ms", none},
		{"Retry-After-Ms", "Thu, 01 Jan 2026 00:00:09 GMT", none},
		{"Retry-After", "", none}, {"Retry-After", "-3", none}, {"Retry-After", "+3", none}, {"Retry-After", "soon", none},
		{"Retry-After", ".", none}, {"Retry-After", ".5", none}, {"Retry-After", "5.", none}, {"Retry-After", "1.2.3", none},
		{"Retry-After", "1e3", none}, {"Retry-After", "0x10", none}, {"Retry-After", "1_000", none}, {"Retry-After", "Inf", none}, {"Retry-After", "NaN", none},
		{"Retry-After", "2026-01-01T00:00:09Z", none},
	} {
		h := http.Header{}
		h.Set(c.name, c.value)
		got, ok := httpx.RetryAfter(h, now)
		if ok != (c.want != none) || ok && got != c.want {
			t.Errorf("%s %.40q: got %v, %v, want %v", c.name, c.value, got, ok, c.want)
		}
	}
	if got, ok := httpx.RetryAfter(http.Header{"Retry-After": {"9"}, "Retry-After-Ms": {"8500"}}, now); got != 8500*time.Millisecond || !ok {
		t.Errorf("both headers: got %v, %v", got, ok)
	}
	if got, ok := httpx.RetryAfter(http.Header{"Retry-After": {"9"}, "Retry-After-Ms": {"soon"}}, now); got != 9*time.Second || !ok {
		t.Errorf("a malformed and a valid header: got %v, %v", got, ok)
	}
}

// FuzzRetryAfter checks that no header leads out of bounds.
func FuzzRetryAfter(f *testing.F) {
	f.Add("120", "1.5")
	f.Add("Mon, 02 Jan 2006 15:04:05 GMT", "")
	f.Add("-1", "99999999999999999999")
	f.Fuzz(func(t *testing.T, after, ms string) {
		wait, ok := httpx.RetryAfter(http.Header{"Retry-After": {after}, "Retry-After-Ms": {ms}}, time.Unix(0, 0))
		if wait < 0 || wait > httpx.MaxRetryAfter || !ok && wait != 0 {
			t.Fatalf("%q, %q: %s, %v", after, ms, wait, ok)
		}
	})
}
