package remote

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"sync"
)

// Limits on cookies. Load balancers bind an upload to a server by one.
const (
	maxCookies     = 32   // of one answer
	maxCookie      = 4096 // bytes of a name and value
	maxCookieHosts = 16   // that may set some
)

// cookies is an http.CookieJar that returns a cookie only to the origin, with
// its port, that set it.
type cookies struct {
	mu   sync.Mutex
	jars map[string]*cookiejar.Jar
}

func newCookies() *cookies { return &cookies{jars: map[string]*cookiejar.Jar{}} }

func (c *cookies) jar(u *url.URL, create bool) *cookiejar.Jar {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := u.Scheme + "://" + u.Host
	if c.jars[key] == nil && create && len(c.jars) < maxCookieHosts {
		c.jars[key], _ = cookiejar.New(nil) // never fails
	}
	return c.jars[key]
}

// SetCookies implements http.CookieJar.
func (c *cookies) SetCookies(u *url.URL, set []*http.Cookie) {
	var keep []*http.Cookie
	for _, k := range set[:min(len(set), maxCookies)] {
		if len(k.Name)+len(k.Value) <= maxCookie {
			own := *k
			own.Domain = "" // this host's alone
			keep = append(keep, &own)
		}
	}
	if jar := c.jar(u, len(keep) > 0); jar != nil {
		jar.SetCookies(u, keep)
	}
}

// Cookies implements http.CookieJar.
func (c *cookies) Cookies(u *url.URL) []*http.Cookie {
	if jar := c.jar(u, false); jar != nil {
		return jar.Cookies(u)
	}
	return nil
}
