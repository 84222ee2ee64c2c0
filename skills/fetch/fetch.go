// Package fetch gets a page for a skill that is allowed the host, and reaches
// nothing else by it.
//
// A guest never holds a socket. Of its URL the scheme must be https and the host
// one of the list, letter by letter; so must that of every redirection. The
// name is looked up once, every address it has must be one of the public
// internet, and it is one of these that is called: a name that answers
// otherwise the second time changes nothing.
package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxRedirects is how often a server may send elsewhere.
const maxRedirects = 5

// Client fetches pages. Its zero value is ready.
type Client struct {
	Roots  *x509.CertPool                                                    // nil: the system's
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)      // nil: the system's
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error) // nil: the system's
}

// Fetch gives the body that the URL names, cut at limit bytes. The hosts are
// "example.org" or, for another port than 443, "example.org:8443".
func (c *Client) Fetch(ctx context.Context, hosts []string, address string, limit int64) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("reading the address: %w", err)
	}
	if err := allowed(hosts, u); err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext:            c.dial,
		TLSClientConfig:        &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableKeepAlives:      true,
		DisableCompression:     true, // what is counted is what comes
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("too many redirections")
		}
		return allowed(hosts, req.URL)
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("reading the address: %w", err)
	}
	req.Header.Set("User-Agent", "mm")
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetching: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetching: the server says %s", res.Status)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, limit))
	if err != nil {
		return nil, fmt.Errorf("fetching: %w", err)
	}
	return body, nil
}

// allowed refuses an address whose host is not listed.
func allowed(hosts []string, u *url.URL) error {
	if u.Scheme != "https" || u.User != nil || u.Opaque != "" {
		return fmt.Errorf("%q is no plain https address", u.Redacted())
	}
	host := strings.ToLower(u.Host)
	if u.Port() == "443" {
		host = strings.ToLower(u.Hostname())
	}
	for _, h := range hosts {
		if strings.ToLower(h) == host {
			return nil
		}
	}
	return fmt.Errorf("%q is none of the allowed hosts", u.Host)
}

// dial looks a name up and calls one of its addresses.
func (c *Client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	lookup, dial := c.Lookup, c.Dial
	if lookup == nil {
		lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if dial == nil {
		dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	list, err := lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no address", host)
	}
	for _, a := range list {
		if !public(a) {
			return nil, fmt.Errorf("%s leads to %v, which is not of the public internet", host, a)
		}
	}
	var failed error
	for _, a := range list {
		conn, err := dial(ctx, network, net.JoinHostPort(a.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// special are the ranges that are not of the public internet, or that hold
// others (IANA's registries of special-purpose addresses, RFC 6890).
var special = parse(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
	"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/9", "ff00::/8",
)

func parse(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// public reports whether an address is one of the internet that everybody
// reaches.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsValid() && a.IsGlobalUnicast() && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}
