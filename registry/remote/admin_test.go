package remote

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"oras.land/oras-go/v2/errdef"
)

// Catalogs are read page by page; a registry without one names the alternative.
func TestRepositories(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/_catalog", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("last") == "" {
			w.Header().Set("Link", `</v2/_catalog?last=b&n=2>; rel="next"`)
			fmt.Fprint(w, `{"repositories": ["b", "a/x"]}`)
			return
		}
		fmt.Fprint(w, `{"repositories": ["c", "b"]}`)
	})
	host := serveAt(t, mux)
	c := newAt(t)
	got, err := c.Repositories(t.Context(), host)
	if err != nil || !slices.Equal(got, []string{"a/x", "b", "c"}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, code := range []int{401, 403, 404, 405, 501} {
		host := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		_, err := c.Repositories(t.Context(), host)
		if e := (*CatalogError)(nil); !errors.As(err, &e) || !strings.Contains(e.Hint(), "mm registry tags "+host+"/REPOSITORY") {
			t.Errorf("%d: %v", code, err)
		}
	}
	var page http.HandlerFunc = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }
	if e := (*OddError)(nil); !errors.As(second(c.Repositories(t.Context(), serveAt(t, page))), &e) {
		t.Error("a page is read as a catalog")
	}
	for _, bad := range []string{"", "a b", "host/path"} {
		if _, err := c.Repositories(t.Context(), bad); !errors.Is(err, errdef.ErrInvalidReference) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func second(_ []string, err error) error { return err }

// Registries delete tags, digests, both or neither.
func TestDelete(t *testing.T) {
	c := newAt(t)
	digest := "sha256:" + strings.Repeat("ab", 32)
	for _, code := range []int{202, 200, 204, 400, 404, 405, 501, 403} {
		asked := ""
		host := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r.Method + " " + r.URL.Path
			w.WriteHeader(code)
		}))
		for target, hint := range map[string]string{":1.0.0": "by digest alone", "@" + digest: "enable deletion"} {
			err := c.Delete(t.Context(), host+"/team/x"+target)
			if want := "DELETE /v2/team/x/manifests/" + target[1:]; asked != want {
				t.Errorf("asked %s, want %s", asked, want)
			}
			var no *UndeletableError
			switch code {
			case 200, 202, 204:
				if err != nil {
					t.Errorf("%d %s: %v", code, target, err)
				}
			case 404:
				if !errors.Is(err, errdef.ErrNotFound) {
					t.Errorf("%s: %v", target, err)
				}
			case 403:
				if err == nil || errors.As(err, &no) {
					t.Errorf("%s: %v", target, err)
				}
			default:
				if !errors.As(err, &no) || !strings.Contains(no.Hint(), hint) {
					t.Errorf("%d %s: %v", code, target, err)
				}
			}
		}
	}
	for _, bad := range []string{"registry.example/team/x", "oci:dir:x", "x:1.0.0", ""} {
		if err := c.Delete(t.Context(), bad); !errors.Is(err, errdef.ErrInvalidReference) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// serveAt serves a handler and returns its host.
func serveAt(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func newAt(t *testing.T) *Client {
	t.Helper()
	c, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
