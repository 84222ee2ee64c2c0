package remote

import (
	"net/http"
	"strings"
	"testing"

	"oras.land/oras-go/v2/registry/remote/auth"
)

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// No login is sent in clear off this machine, in a header or in a form.
func TestLoginNeedsTLS(t *testing.T) {
	for _, c := range []struct {
		url, header, value string
		sent               bool
	}{
		{"http://registry.example/v2/", "Authorization", "Basic dTpw", false},
		{"http://registry.example:5000/v2/", "Authorization", "Bearer t", false},
		{"http://auth.example/token", "Content-Type", "application/x-www-form-urlencoded", false},
		{"http://registry.example/v2/", "Content-Type", "application/octet-stream", true},
		{"https://registry.example/v2/", "Authorization", "Basic dTpw", true},
		{"http://127.0.0.1:5000/v2/", "Authorization", "Basic dTpw", true},
		{"http://localhost:5000/v2/", "Authorization", "Basic dTpw", true},
		{"http://127.0.0.1.example/v2/", "Authorization", "Basic dTpw", false},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(c.header, c.value)
		sent := false
		_, err = clearGuard{tripper(func(*http.Request) (*http.Response, error) { sent = true; return nil, nil })}.RoundTrip(req)
		if sent != c.sent || (err == nil) != c.sent {
			t.Errorf("%s with %s: sent %v, %v", c.url, c.header, sent, err)
		}
	}
	client, err := New(Options{Credentials: auth.StaticCredential("h", auth.EmptyCredential)})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*http.Client{"bulk": client.bulk.Client, "meta": client.meta.Client} {
		if _, ok := c.Transport.(clearGuard); !ok {
			t.Errorf("%s is not guarded: %T", name, c.Transport)
		}
	}
}
