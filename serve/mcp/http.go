package mcp

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mm-abi.org/mm/internal/httpx"
)

const (
	maxSessions = 64 // concurrent clients over HTTP
	idle        = 30 * time.Minute
	minToken    = 16 // bytes
)

// HTTPOptions restricts the clients of a server over HTTP.
type HTTPOptions struct {
	Token   string   // required bearer token; empty: none, on loopback only
	Origins []string // further allowed origins of web pages: https://ide.example
}

// Handler serves clients over streamable HTTP, at any path. addr is the address to listen
// on; unless it is loopback, a token is required.
//
// It refuses requests with a wrong token (401), from a web page of another origin or with a
// Host that is not this machine's (403), with a body that is too large (413), and beyond
// the number of clients (503).
func (s *Server) Handler(addr string, opt HTTPOptions) (http.Handler, error) {
	if !httpx.IsLoopback(addr) && opt.Token == "" {
		return nil, fmt.Errorf("%s is not loopback: a token is required", addr)
	}
	if opt.Token != "" && len(opt.Token) < minToken {
		return nil, fmt.Errorf("token has %d bytes, want at least %d", len(opt.Token), minToken)
	}
	for _, o := range opt.Origins {
		if u, err := url.Parse(o); err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != o {
			return nil, errors.Join(fmt.Errorf("bad origin %q: want a form such as https://ide.example", o), err)
		}
	}
	next := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.sdk }, &sdk.StreamableHTTPOptions{
		SessionTimeout: idle, MaxRequestBodyBytes: maxMessage, PropagateRequestCancellation: true,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code, why := s.refuse(r, opt); code != 0 {
			if code == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			http.Error(w, why, code)
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}

// refuse returns why a request is refused; a code of 0 accepts it.
func (s *Server) refuse(r *http.Request, opt HTTPOptions) (code int, why string) {
	if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(origin, r.Host) && !slices.Contains(opt.Origins, origin) {
		return http.StatusForbidden, "this origin may not speak to it"
	}
	if opt.Token != "" && !bears(r, opt.Token) {
		return http.StatusUnauthorized, "a bearer token is needed"
	}
	if r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == "" {
		n := 0
		for range s.sdk.Sessions() {
			n++
		}
		if n >= maxSessions {
			return http.StatusServiceUnavailable, "there are too many clients"
		}
	}
	return 0, ""
}

// sameOrigin reports whether a page of this origin was served by the requested host. The
// check of Host covers foreign names that resolve to this machine.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

// bears compares the bearer token of a request in constant time.
func bears(r *http.Request, token string) bool {
	scheme, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, have := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(strings.TrimSpace(bearer)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(want[:], have[:]) == 1
}
