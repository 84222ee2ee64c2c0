package mcp

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxSessions = 64 // clients at a time, over HTTP
	idle        = 30 * time.Minute
	minToken    = 16 // bytes
)

// HTTPOptions say who may speak to a server over HTTP.
type HTTPOptions struct {
	Token   string   // that a client must bear. Empty: none, which is for loopback alone
	Origins []string // of web pages that may speak to it, beside its own: https://ide.example
}

// Loopback reports whether an address to listen on is this machine's alone.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// Handler serves clients over streamable HTTP, at any path. addr is where it
// will listen: whoever can reach it from elsewhere must bear a token.
//
// A request is refused whose token is wrong (401), that comes from a web page
// of another origin, or asks this machine by a name that is not its own (403), whose
// body is too large (413), or that is one client too many (503).
func (s *Server) Handler(addr string, opt HTTPOptions) (http.Handler, error) {
	if !Loopback(addr) && opt.Token == "" {
		return nil, fmt.Errorf("%s can be reached from elsewhere, and there is no token", addr)
	}
	if opt.Token != "" && len(opt.Token) < minToken {
		return nil, fmt.Errorf("the token has %d bytes; it needs %d", len(opt.Token), minToken)
	}
	for _, o := range opt.Origins {
		if u, err := url.Parse(o); err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != o {
			return nil, errors.Join(fmt.Errorf("%q is no origin, such as https://ide.example", o), err)
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

// refuse says why a request is not served; a code of 0 is that it is.
func (s *Server) refuse(r *http.Request, opt HTTPOptions) (code int, why string) {
	if origin := r.Header.Get("Origin"); origin != "" && !own(origin, r.Host) && !slices.Contains(opt.Origins, origin) {
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

// own reports whether a page of this origin was served by the host that is
// asked. That a name of somebody else's leads here is for the check of Host.
func own(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

// bears compares the token that a request bears, in a time that tells nothing
// of it.
func bears(r *http.Request, token string) bool {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, have := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(strings.TrimSpace(given)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(want[:], have[:]) == 1
}
