package httpx_test

import (
	"net/http"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/httpx"
)

// An address of a proxy that is not a URL is an error without its password, except for
// this machine.
func TestProxy(t *testing.T) {
	for _, c := range []struct {
		name, address, url string
		ok                 bool
	}{
		{"HTTPS_PROXY", "http://u:50%secret@proxy.example:3128", "https://registry.example/v2/", false},
		{"https_proxy", "u:50%secret@proxy.example:3128", "https://registry.example/v2/", false},
		{"HTTP_PROXY", "http://proxy.example:port", "http://registry.example/v2/", false},
		{"HTTP_PROXY", "http://proxy.example:port", "https://registry.example/v2/", true},
		{"HTTPS_PROXY", "http://u:50%secret@proxy.example:3128", "https://127.0.0.1:5000/v2/", true},
		{"HTTPS_PROXY", "http://u:50%25@proxy.example:3128", "https://registry.example/v2/", true},
		{"HTTPS_PROXY", "proxy.example:3128", "https://registry.example/v2/", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(c.name, c.address)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = httpx.Transport().Proxy(req)
			if (err == nil) != c.ok {
				t.Errorf("%s=%s, %s: got %v", c.name, c.address, c.url, err)
			}
			if err != nil && (strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), c.name)) {
				t.Errorf("got %v, want the variable's name without its value", err)
			}
		})
	}
}
