package api

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// checkOrigins reports origins of another form than https://ide.example.
func checkOrigins(origins []string) (err error) {
	for _, o := range origins {
		if u, bad := url.Parse(o); bad != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != o {
			err = errors.Join(err, fmt.Errorf("bad origin %q: want a form such as https://ide.example", o))
		}
	}
	return err
}

// admit returns why a request is refused before its route is read, or nil. A foreign name that
// resolves to this machine is not one of its hosts (DNS rebinding); a web page of another
// site sends an origin, or a browser's mark of the site (CSRF).
func (s *Server) admit(r *http.Request) *Error {
	if !s.host(r.Host) {
		return &Error{Status: http.StatusForbidden, Kind: Permission, Code: "host", Message: "Host " + short(r.Host) + " is not allowed (--host allows a name)"}
	}
	origin := r.Header.Get("Origin")
	if origin != "" && !sameOrigin(origin, r.Host) && !slices.Contains(s.opt.Origins, origin) {
		return &Error{Status: http.StatusForbidden, Kind: Permission, Code: "origin", Message: "Origin " + short(origin) + " is not allowed (--origin allows one)"}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); origin == "" && (site == "cross-site" || site == "same-site") {
		return &Error{Status: http.StatusForbidden, Kind: Permission, Code: "origin", Message: "a request of another site is not allowed"}
	}
	return nil
}

// host reports whether requests may name a host: an address, localhost, or one of the options.
func (s *Server) host(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if strings.EqualFold(name, "localhost") || net.ParseIP(name) != nil {
		return true
	}
	return slices.ContainsFunc(s.opt.Hosts, func(h string) bool { return strings.EqualFold(h, name) || strings.EqualFold(h, host) })
}

// sameOrigin reports whether a page of this origin was served by the requested host.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

// share allows a page of an allowed origin to read the answer, and answers its preflight.
func (s *Server) share(w http.ResponseWriter, r *http.Request) (done bool) {
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(s.opt.Origins, origin) {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "Retry-After, X-Request-Id, Request-Id")
	if r.Method != http.MethodOptions {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE")
	// Clients in browsers add headers with each version; the origin is allowed to send any.
	h.Set("Access-Control-Allow-Headers", cmp.Or(r.Header.Get("Access-Control-Request-Headers"), "Authorization, Content-Type, X-Api-Key, Anthropic-Version, Last-Event-Id"))
	h.Add("Vary", "Access-Control-Request-Headers")
	w.WriteHeader(http.StatusNoContent)
	return true
}
