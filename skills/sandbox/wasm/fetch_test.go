package wasm

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

// testServer returns a client whose public addresses all lead to one server, and
// the addresses that it dialed.
func testServer(t *testing.T, names map[string][]string) (*HTTPClient, *[]string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		if n, _ := strconv.Atoi(r.URL.Query().Get("hops")); n > 0 {
			http.Redirect(w, r, fmt.Sprintf("/?hops=%d", n-1), http.StatusFound)
			return
		}
		if r.URL.Path == "/none" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, strings.Repeat("x", 100))
	}))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	var dialed []string
	return &HTTPClient{
		Roots: roots,
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			var out []netip.Addr
			for _, a := range names[host] {
				out = append(out, netip.MustParseAddr(a))
			}
			return out, nil
		},
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialed = append(dialed, addr)
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		},
	}, &dialed
}

func TestHTTPClient(t *testing.T) {
	c, dialed := testServer(t, map[string][]string{
		"example.com": {"93.184.215.14"}, "rebound.example.com": {"93.184.215.14", "127.0.0.1"}, "private.example.com": {"10.1.2.3"}, "mapped.example.com": {"::ffff:192.168.1.1"},
		"metadata.example.com": {"169.254.169.254"}, "six.example.com": {"64:ff9b::a00:1"}, "none.example.com": nil, "127.0.0.1": {"127.0.0.1"},
	})
	hosts := []string{"example.com", "Other.example.com:8443", "rebound.example.com", "private.example.com", "mapped.example.com", "metadata.example.com", "six.example.com", "none.example.com", "127.0.0.1"}
	for _, ok := range []string{"https://example.com/", "https://EXAMPLE.com:443/a?b", "https://example.com/?to=/again", "https://example.com/?to=https://example.com/x"} {
		if b, err := c.Fetch(t.Context(), hosts, ok, 10); err != nil || len(b) != 10 {
			t.Errorf("%s: %d bytes, %v", ok, len(b), err)
		}
	}
	if len(*dialed) != 6 || (*dialed)[0] != "93.184.215.14:443" {
		t.Errorf("dialed %q", *dialed)
	}
	*dialed = nil
	for address, why := range map[string]string{
		"http://example.com/": "not a plain https", "https://user@example.com/": "not a plain https", "file:///etc/passwd": "not a plain https", "https:example.com": "not a plain https", "https://exa mple.com": "parsing the URL",
		"https://example.org/": "is not allowed", "https://example.com.evil.org/": "is not allowed", "https://example.com:8443/": "is not allowed", "https://sub.example.com/": "is not allowed",
		"https://rebound.example.com/": "not a public address", "https://private.example.com/": "not a public address", "https://mapped.example.com/": "not a public address", "https://metadata.example.com/": "not a public address",
		"https://six.example.com/": "not a public address", "https://127.0.0.1/": "not a public address", "https://none.example.com/": "no address",
	} {
		if _, err := c.Fetch(t.Context(), hosts, address, 10); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %v, want %q", address, err, why)
		}
	}
	if len(*dialed) > 0 {
		t.Errorf("dialed %q", *dialed)
	}
	for address, why := range map[string]string{
		"https://example.com/?to=https://example.org/": "is not allowed", "https://example.com/?to=http://example.com/": "not a plain https", "https://example.com/?to=https://private.example.com/": "not a public address",
		"https://example.com/none": "404",
	} {
		if _, err := c.Fetch(t.Context(), hosts, address, 10); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %v, want %q", address, err, why)
		}
	}
	for _, n := range []int{maxRedirects, maxRedirects + 1} {
		_, err := c.Fetch(t.Context(), hosts, fmt.Sprintf("https://example.com/?hops=%d", n), 10)
		if over := n > maxRedirects; over != (err != nil) || over && !strings.Contains(err.Error(), "redirections") {
			t.Errorf("%d redirections: %v", n, err)
		}
	}
}

func TestIsPublic(t *testing.T) {
	for addr, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "0.0.0.0": false, "10.0.0.1": false, "100.64.0.1": false, "127.0.0.2": false, "172.31.255.255": false, "192.168.0.1": false, "198.19.0.1": false, "255.255.255.255": false, "224.0.0.1": false,
		"::": false, "::1": false, "::ffff:127.0.0.1": false, "::ffff:8.8.8.8": true, "fe80::1%eth0": false, "fec0::1": false, "fd00::1": false, "2002:7f00:1::": false, "2001:0:1::": false, "ff02::1": false,
	} {
		if got := isPublic(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
	if isPublic(netip.Addr{}) {
		t.Error("the zero address is public")
	}
}
