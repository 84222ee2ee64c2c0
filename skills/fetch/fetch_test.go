package fetch

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// world is a server that every public address leads to.
func world(t *testing.T, names map[string][]string) (*Client, *[]string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
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
	var dialled []string
	return &Client{
		Roots: roots,
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			var out []netip.Addr
			for _, a := range names[host] {
				out = append(out, netip.MustParseAddr(a))
			}
			return out, nil
		},
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialled = append(dialled, addr)
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		},
	}, &dialled
}

func TestFetch(t *testing.T) {
	c, dialled := world(t, map[string][]string{
		"example.com": {"93.184.215.14"}, "rebound.example.com": {"93.184.215.14", "127.0.0.1"}, "private.example.com": {"10.1.2.3"}, "mapped.example.com": {"::ffff:192.168.1.1"},
		"metadata.example.com": {"169.254.169.254"}, "six.example.com": {"64:ff9b::a00:1"}, "none.example.com": nil, "127.0.0.1": {"127.0.0.1"},
	})
	hosts := []string{"example.com", "Other.example.com:8443", "rebound.example.com", "private.example.com", "mapped.example.com", "metadata.example.com", "six.example.com", "none.example.com", "127.0.0.1"}
	for _, ok := range []string{"https://example.com/", "https://EXAMPLE.com:443/a?b", "https://example.com/?to=/again", "https://example.com/?to=https://example.com/x"} {
		if b, err := c.Fetch(t.Context(), hosts, ok, 10); err != nil || len(b) != 10 {
			t.Errorf("%s: %d bytes, %v", ok, len(b), err)
		}
	}
	if len(*dialled) != 6 || (*dialled)[0] != "93.184.215.14:443" {
		t.Errorf("called %q", *dialled)
	}
	*dialled = nil
	for address, why := range map[string]string{
		"http://example.com/": "no plain https", "https://user@example.com/": "no plain https", "file:///etc/passwd": "no plain https", "https:example.com": "no plain https", "https://exa mple.com": "reading the address",
		"https://example.org/": "none of the allowed", "https://example.com.evil.org/": "none of the allowed", "https://example.com:8443/": "none of the allowed", "https://sub.example.com/": "none of the allowed",
		"https://rebound.example.com/": "public internet", "https://private.example.com/": "public internet", "https://mapped.example.com/": "public internet", "https://metadata.example.com/": "public internet",
		"https://six.example.com/": "public internet", "https://127.0.0.1/": "public internet", "https://none.example.com/": "no address",
	} {
		if _, err := c.Fetch(t.Context(), hosts, address, 10); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, wanted %q", address, err, why)
		}
	}
	if len(*dialled) > 0 {
		t.Errorf("called %q", *dialled)
	}
	for address, why := range map[string]string{
		"https://example.com/?to=https://example.org/": "none of the allowed", "https://example.com/?to=http://example.com/": "no plain https", "https://example.com/?to=https://private.example.com/": "public internet",
		"https://example.com/?to=/?to=/?to=/?to=/?to=/?to=/?to=/": "", "https://example.com/none": "404",
	} {
		if _, err := c.Fetch(t.Context(), hosts, address, 10); (err == nil || !strings.Contains(err.Error(), why)) && why != "" {
			t.Errorf("%s: %v, wanted %q", address, err, why)
		}
	}
}

func TestPublic(t *testing.T) {
	for addr, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "0.0.0.0": false, "10.0.0.1": false, "100.64.0.1": false, "127.0.0.2": false, "172.31.255.255": false, "192.168.0.1": false, "198.19.0.1": false, "255.255.255.255": false, "224.0.0.1": false,
		"::": false, "::1": false, "::ffff:127.0.0.1": false, "::ffff:8.8.8.8": true, "fe80::1%eth0": false, "fec0::1": false, "fd00::1": false, "2002:7f00:1::": false, "2001:0:1::": false, "ff02::1": false,
	} {
		if got := public(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
	if public(netip.Addr{}) {
		t.Error("no address is public")
	}
}
