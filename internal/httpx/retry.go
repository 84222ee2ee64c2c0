package httpx

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is the longest wait that RetryAfter returns.
const MaxRetryAfter = 365 * 24 * time.Hour

// RetryAfter returns the time that a server asks to wait before the next request: the header
// Retry-After, which holds seconds or a date (RFC 9110 §10.2.3), or Retry-After-Ms, which
// some servers of language models send beside it. Seconds may have a fraction. Values over
// [MaxRetryAfter] are that; a date that has passed is 0. If a header is missing or malformed,
// ok is false.
func RetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	if wait, ok = decimal(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return wait, true
	}
	text := h.Get("Retry-After")
	if wait, ok = decimal(text, time.Second); ok {
		return wait, true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter), true
}

// decimal parses digits, which may have a fraction, as a count of units.
func decimal(text string, unit time.Duration) (time.Duration, bool) {
	whole, part, has := strings.Cut(text, ".")
	if whole == "" || has && part == "" || strings.Trim(whole+part, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64) // an error is a value out of range, +Inf
	if err != nil || n*float64(unit) >= float64(MaxRetryAfter) {
		return MaxRetryAfter, true
	}
	return time.Duration(n * float64(unit)), true
}
