package remote

import (
	"fmt"
	"net/http"

	"mm-abi.org/mm/internal/httpx"
)

// clearGuard is a transport that sends no login in clear: neither to a registry nor
// to the token service that a registry names, unless it is on this machine.
type clearGuard struct{ http.RoundTripper }

func (g clearGuard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme == "http" && !httpx.IsLoopback(req.URL.Host) && carriesLogin(req) {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, fmt.Errorf("login refused: plain HTTP to %s would send it in clear, want HTTPS", req.URL.Host)
	}
	return g.RoundTripper.RoundTrip(req)
}

// carriesLogin reports whether req holds a password or a token: in its header or,
// sent to a token service, in a form.
func carriesLogin(req *http.Request) bool {
	return req.Header.Get("Authorization") != "" || req.Header.Get("Content-Type") == "application/x-www-form-urlencoded"
}
