package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/registry"
)

// FuzzRequest sends any method, path, query, range and body: the response is
// never an internal error, every error is a document, the store stays sound,
// and nothing appears outside it.
func FuzzRequest(f *testing.F) {
	digest := "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for _, seed := range [][4]string{
		{"GET", "/v2/", "", ""},
		{"GET", "/v2/a/tags/list?n=1&last=x", "", ""},
		{"POST", "/v2/a/blobs/uploads/?digest=" + digest, "", ""},
		{"POST", "/v2/a/blobs/uploads/?mount=" + digest + "&from=b", "", ""},
		{"PATCH", "/v2/a/blobs/uploads/XYZ", "0-3", "body"},
		{"PUT", "/v2/a/manifests/v1?tag=x", "", `{"schemaVersion":2,"config":{}}`},
		{"GET", "/v2/a/b/blobs/" + digest, "", ""},
		{"GET", "/v2/a/blobs/uploads/../../index.json", "", ""},
		{"DELETE", "/v2/a/manifests/" + digest, "", ""},
		{"GET", "/v2/a/referrers/" + digest + "?artifactType=x", "", ""},
		{"GET", "/v2/_catalog", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	top := f.TempDir()
	store, err := registry.Open(filepath.Join(top, "store"), registry.Options{})
	if err != nil {
		f.Fatal(err)
	}
	h, err := New(store, Options{})
	if err != nil {
		f.Fatal(err)
	}
	n := 0
	f.Fuzz(func(t *testing.T, method, target, chunk, body string) {
		u, err := url.Parse(target)
		if err != nil {
			return
		}
		req, err := http.NewRequest(method, "http://host/", strings.NewReader(body))
		if err != nil {
			return
		}
		req.URL.Path, req.URL.RawQuery = u.Path, u.RawQuery
		req.Header.Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		req.Header.Set("Content-Range", chunk)
		req.Header.Set("Range", chunk)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code >= 500 {
			t.Fatalf("%s %q: %d %s", method, target, w.Code, w.Body)
		}
		if w.Code >= 400 && w.Code != 416 && method != "HEAD" && !strings.HasPrefix(w.Body.String(), `{"errors":[{"code":`) {
			t.Fatalf("%s %q: %d %s", method, target, w.Code, w.Body)
		}
		if n++; n%50 == 0 {
			if report, err := store.Fsck(context.Background(), registry.FsckOptions{Quick: true}); err != nil || len(report.Problems)+len(report.Notes) > 0 {
				t.Fatalf("%+v, %v", report, err)
			}
			if list, _ := os.ReadDir(top); len(list) != 1 {
				t.Fatalf("outside the store: %v", list)
			}
		}
	})
}
