package dashboard

import (
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/serve/api"
	"mm-abi.org/mm/workspace"
)

// shown returns a server that shows the pages of an input.
func shown(t *testing.T, in Input, keys string) (*api.Server, *Pages, []File) {
	t.Helper()
	opt := api.Options{}
	if keys != "" {
		var err error
		if opt.Keys, err = api.ParseKeys("keys", keys); err != nil {
			t.Fatal(err)
		}
	}
	s, err := api.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	files, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	p := &Pages{}
	p.Set(files)
	p.Mount(s)
	return s, p, files
}

// get asks for a path; with a password, as a browser does that asked for it.
func get(s *api.Server, path, password string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
	if password != "" {
		r.SetBasicAuth("me", password)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// The server shows the bytes of mm dashboard build, under the same policy, and every link
// and file of a page leads to another one.
func TestPages(t *testing.T) {
	s, pages, files := shown(t, Input{Versions: versionsOf("1.0.0", "2.0.0")}, "")
	link := regexp.MustCompile(`(?:src|href)="([^"#]+)`)
	for _, f := range files {
		w := get(s, "/dashboard/"+f.Path, "")
		h := w.Header()
		if w.Code != 200 || w.Body.String() != string(f.Data) || !strings.HasPrefix(h.Get("Content-Security-Policy"), policy) || !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") ||
			h.Get("Content-Type") == "" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: got %d, %v", f.Path, w.Code, h)
		}
		if !strings.HasSuffix(f.Path, ".html") {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(string(f.Data), -1) {
			if !slices.ContainsFunc(files, func(o File) bool { return o.Path == m[1] }) {
				t.Errorf("%s: link to %s, which is not served", f.Path, m[1])
			}
		}
	}
	if w := get(s, "/dashboard", ""); w.Code != 302 || w.Header().Get("Location") != "/dashboard/index.html" {
		t.Errorf("/dashboard: got %d to %q", w.Code, w.Header().Get("Location"))
	}
	for _, path := range []string{"/dashboard/", "/dashboard/none.html", "/dashboard/../page", "/dashboard/%2e%2e/index.html", "/dashboard/media"} {
		if w := get(s, path, ""); w.Code != 404 {
			t.Errorf("%s: got %d, want 404", path, w.Code)
		}
	}
	old := files[slices.IndexFunc(files, func(f File) bool { return strings.Contains(f.Path, "2-0-0") })].Path
	pages.Set(files[:1])
	if w := get(s, "/dashboard/"+old, ""); w.Code != 404 {
		t.Errorf("%s after a change: got %d", old, w.Code)
	}
}

// With keys, a browser asks for one, and no other password opens a page.
func TestPagesNeedKey(t *testing.T) {
	const key = "0123456789abcdef"
	s, _, _ := shown(t, Input{Versions: versionsOf("1.0.0")}, "me "+key)
	for password, want := range map[string]int{"": 401, "wrong-password-1": 401, key: 200} {
		w := get(s, "/dashboard/index.html", password)
		if asks := strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic "); w.Code != want || asks != (want == 401) {
			t.Errorf("password %q: got %d, %v", password, w.Code, w.Header())
		}
		if w.Code == 401 && strings.Contains(w.Body.String(), "1.0.0") {
			t.Error("a page without a key")
		}
	}
	if w := get(s, "/metrics", key); w.Code != 401 {
		t.Errorf("a password elsewhere: got %d", w.Code)
	}
}

// versionsOf returns overviews of versions.
func versionsOf(versions ...string) (in []workspace.Overview) {
	for _, v := range versions {
		in = append(in, overview(v, "laptop", "p-lite"))
	}
	return in
}
