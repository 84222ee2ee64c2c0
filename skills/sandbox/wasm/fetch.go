package wasm

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

// maxRedirects is the limit of redirections of one fetch.
const maxRedirects = 5

// HTTPClient is a Fetcher that reads pages of the public internet for a guest.
// A guest never holds a socket. The scheme of a URL must be https and its host
// equal to a listed one, as must those of every redirection. The name is
// resolved once, all of its addresses must be public, and one of these is
// dialed, which defeats DNS rebinding. The zero value is ready.
type HTTPClient struct {
	Roots  *x509.CertPool                                                    // default: the system's
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)      // default: the system's
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error) // default: the system's
}

// Fetch returns the body at address, truncated to limit bytes. Hosts have the
// form "example.org" or, for a port other than 443, "example.org:8443".
func (c *HTTPClient) Fetch(ctx context.Context, hosts []string, address string, limit int64) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("parsing the URL: %w", err)
	}
	if err := checkHost(hosts, u); err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext:            c.dial,
		TLSClientConfig:        &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableKeepAlives:      true,
		DisableCompression:     true, // limit counts bytes on the wire
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirections", maxRedirects)
		}
		return checkHost(hosts, req.URL)
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("parsing the URL: %w", err)
	}
	req.Header.Set("User-Agent", "mm")
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetching: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetching: status %s", res.Status)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, limit))
	if err != nil {
		return nil, fmt.Errorf("fetching: %w", err)
	}
	return body, nil
}

// checkHost refuses a URL unless it is plain https and its host is listed.
func checkHost(hosts []string, u *url.URL) error {
	if u.Scheme != "https" || u.User != nil || u.Opaque != "" {
		return fmt.Errorf("%q is not a plain https URL", u.Redacted())
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
	return fmt.Errorf("host %q is not allowed", u.Host)
}

// dial resolves a name and connects to one of its addresses.
func (c *HTTPClient) dial(ctx context.Context, network, addr string) (net.Conn, error) {
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
	list, err := lookup(ctx, strings.ToLower(host))
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no address", host)
	}
	for _, a := range list {
		if !isPublic(a) {
			return nil, fmt.Errorf("%s resolves to %v, which is not a public address", host, a)
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

// specialRanges holds the address ranges that are not public or that embed other
// addresses (IANA's special-purpose address registries, RFC 6890).
var specialRanges = parsePrefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
	"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/9", "ff00::/8",
)

func parsePrefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// isPublic reports whether a is a public unicast address.
func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsValid() && a.IsGlobalUnicast() && !slices.ContainsFunc(specialRanges, func(p netip.Prefix) bool { return p.Contains(a) })
}
