package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/bcrypt"

	"mm-abi.org/mm/registry"
)

// site is a running registry.
type site struct {
	t     *testing.T
	store *registry.Store
	url   string
}

func start(t *testing.T, opt Options) *site {
	t.Helper()
	store, err := registry.Open(t.TempDir(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return serve(t, store, opt)
}

func serve(t *testing.T, store *registry.Store, opt Options) *site {
	t.Helper()
	h, err := New(store, opt)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return &site{t, store, srv.URL}
}

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request. Headers come as "Key: value".
func (s *site) do(method, path string, body []byte, headers ...string) answer {
	s.t.Helper()
	if !strings.HasPrefix(path, "http") {
		path = s.url + path
	}
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequest(method, path, r)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		key, value, _ := strings.Cut(h, ": ")
		req.Header.Add(key, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, data}
}

// want is do with a status; an error's code may follow it, as "404 BLOB_UNKNOWN".
func (s *site) want(want, method, path string, body []byte, headers ...string) answer {
	s.t.Helper()
	a := s.do(method, path, body, headers...)
	got := fmt.Sprint(a.status)
	if strings.Contains(want, " ") {
		var doc struct {
			Errors []struct{ Code, Message string }
		}
		if err := json.Unmarshal(a.body, &doc); err != nil || len(doc.Errors) != 1 || doc.Errors[0].Message == "" {
			s.t.Errorf("%s %s: not an error document: %s", method, path, a.body)
		} else {
			got += " " + doc.Errors[0].Code
		}
	}
	if got != want {
		s.t.Errorf("%s %s: %s, want %s (%s)", method, path, got, want, a.body)
	}
	return a
}

// at adds a query to the Location of an answer.
func (s *site) at(a answer, query string) string {
	s.t.Helper()
	loc := a.header.Get("Location")
	if loc == "" {
		s.t.Fatal("no Location")
	}
	if query != "" {
		loc += "?" + query
	}
	return loc
}

func (s *site) push(repo string, data []byte, alg digest.Algorithm) digest.Digest {
	s.t.Helper()
	d := alg.FromBytes(data)
	a := s.want("202", "POST", "/v2/"+repo+"/blobs/uploads/", nil)
	s.want("201", "PUT", s.at(a, "digest="+d.String()), data)
	return d
}

func blobDesc(mediaType string, data []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
}

// image pushes an image with these layers and returns its manifest.
func (s *site) image(repo string, edit func(*ocispec.Manifest), layers ...string) ([]byte, digest.Digest) {
	s.t.Helper()
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: blobDesc("application/vnd.oci.empty.v1+json", []byte("{}")), Layers: []ocispec.Descriptor{}}
	s.push(repo, []byte("{}"), digest.SHA256)
	for _, l := range layers {
		m.Layers = append(m.Layers, blobDesc("application/octet-stream", []byte(l)))
		s.push(repo, []byte(l), digest.SHA256)
	}
	if edit != nil {
		edit(&m)
	}
	data, err := json.Marshal(m)
	if err != nil {
		s.t.Fatal(err)
	}
	return data, digest.FromBytes(data)
}

const (
	asImage = "Content-Type: " + ocispec.MediaTypeImageManifest
	asIndex = "Content-Type: " + ocispec.MediaTypeImageIndex
)

func random(n int) []byte {
	data := make([]byte, n)
	rand.Read(data)
	return data
}

// sound fails the test unless the store is sound.
func (s *site) sound() {
	s.t.Helper()
	report, err := s.store.Fsck(context.Background(), registry.FsckOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range slices.Concat(report.Problems, report.Notes) {
		s.t.Errorf("fsck: %s", p)
	}
}

// TestSupport: Determining Support.
func TestSupport(t *testing.T) {
	s := start(t, Options{})
	s.want("200", "GET", "/v2/", nil)
	s.want("200", "HEAD", "/v2/", nil)
	s.want("405 UNSUPPORTED", "POST", "/v2/", nil)
	s.want("404 UNSUPPORTED", "GET", "/", nil)
	s.want("404 UNSUPPORTED", "GET", "/v1/x", nil)
	s.want("404 UNSUPPORTED", "GET", "/v2/x", nil)
	for _, name := range []string{"A", "a/../b", "a//b", "-a", "a_", strings.Repeat("a", 256), "%2e%2e/x", "a%2F..%2Fb", "_links", "a/_links"} {
		s.want("400 NAME_INVALID", "GET", "/v2/"+name+"/tags/list", nil)
		s.want("400 NAME_INVALID", "POST", "/v2/"+name+"/blobs/uploads/", nil)
	}
}

// TestPushBlob: Pushing blobs, in every way, with both algorithms.
func TestPushBlob(t *testing.T) {
	for _, alg := range []digest.Algorithm{digest.SHA256, digest.SHA512} {
		t.Run(alg.String(), func(t *testing.T) {
			s := start(t, Options{})
			const start = "/v2/a/b/blobs/uploads/"
			ways := map[string]func(data []byte, query string) answer{
				"post": func(data []byte, query string) answer { return s.do("POST", start+"?"+query, data) },
				"post and put": func(data []byte, query string) answer {
					return s.do("PUT", s.at(s.want("202", "POST", start, nil), query), data)
				},
				"stream": func(data []byte, query string) answer {
					a := s.want("202", "PATCH", s.at(s.want("202", "POST", start, nil), ""), data)
					return s.do("PUT", s.at(a, query), nil)
				},
				"chunks": func(data []byte, query string) answer {
					a := s.want("202", "POST", start, nil)
					for at := 0; at < len(data); at += 1000 {
						end := min(at+1000, len(data))
						a = s.want("202", "PATCH", s.at(a, ""), data[at:end], fmt.Sprintf("Content-Range: %d-%d", at, end-1))
						if got := a.header.Get("Range"); got != fmt.Sprintf("0-%d", end-1) {
							t.Errorf("Range %q", got)
						}
					}
					return s.do("PUT", s.at(a, query), nil)
				},
				"last chunk in put": func(data []byte, query string) answer {
					a := s.want("202", "PATCH", s.at(s.want("202", "POST", start, nil), ""), data[:1000], "Content-Range: 0-999")
					return s.do("PUT", s.at(a, query), data[1000:], fmt.Sprintf("Content-Range: 1000-%d", len(data)-1))
				},
			}
			for name, way := range ways {
				data := random(2500)
				d := alg.FromBytes(data)
				a := way(data, "digest="+d.String())
				if a.status != 201 || a.header.Get("Docker-Content-Digest") != d.String() {
					t.Fatalf("%s: %d %s", name, a.status, a.body)
				}
				if got := s.want("200", "GET", s.at(a, ""), nil); !bytes.Equal(got.body, data) {
					t.Errorf("%s: %d bytes came back", name, len(got.body))
				}
				// Again with bytes that are not those of the digest.
				a = way(random(2500), "digest="+alg.FromBytes([]byte(name)).String())
				if a.status != 400 || !strings.Contains(string(a.body), "DIGEST_INVALID") {
					t.Errorf("%s, wrong bytes: %d %s", name, a.status, a.body)
				}
				s.want("404 BLOB_UNKNOWN", "GET", "/v2/a/b/blobs/"+alg.FromBytes([]byte(name)).String(), nil)
			}
			s.push("a/b", []byte{}, alg)
			s.push("a/b", []byte("{}"), alg)
			s.sound()
		})
	}
}

// TestUploadSession: the edges of chunked uploads.
func TestUploadSession(t *testing.T) {
	s := start(t, Options{})
	data := random(3000)
	d := digest.FromBytes(data)
	a := s.want("202", "POST", "/v2/a/blobs/uploads/", nil)
	loc := s.at(a, "")
	status := func(want string) {
		t.Helper()
		got := s.want("204", "GET", loc, nil)
		if got.header.Get("Range") != want || got.header.Get("Location") == "" {
			t.Errorf("Range %q, want %q", got.header.Get("Range"), want)
		}
	}
	status("0-0")
	s.want("202", "PATCH", loc, data[:1000], "Content-Range: 0-999")
	status("0-999")
	for _, bad := range []string{"0-999", "2000-2999", "1001-2000", "999-1998", "1999-1000", "x", "1000", "-5-5", "99999999999999999999-5"} {
		got := s.want("416 BLOB_UPLOAD_INVALID", "PATCH", loc, data[1000:2000], "Content-Range: "+bad)
		_ = got
		s.want("416 BLOB_UPLOAD_INVALID", "PUT", loc+"?digest="+d.String(), data[1000:2000], "Content-Range: "+bad)
		status("0-999")
	}
	s.want("400 SIZE_INVALID", "PATCH", loc, data[1000:1500], "Content-Range: 1000-1999")
	status("0-999")
	s.want("202", "PATCH", loc, data[1000:], "Content-Range: 1000-2999")
	s.want("400 DIGEST_INVALID", "PUT", loc, nil)
	s.want("400 DIGEST_INVALID", "PUT", loc+"?digest=sha256:abc", nil)
	s.want("404 BLOB_UPLOAD_UNKNOWN", "PUT", strings.Replace(loc, "/v2/a/", "/v2/b/", 1)+"?digest="+d.String(), nil)
	s.want("201", "PUT", loc+"?digest="+d.String(), nil)
	s.want("404 BLOB_UPLOAD_UNKNOWN", "GET", loc, nil)
	s.want("404 BLOB_UPLOAD_UNKNOWN", "PATCH", loc, data)

	loc = s.at(s.want("202", "POST", "/v2/a/blobs/uploads/", nil), "")
	s.want("202", "PATCH", loc, data)
	s.want("204", "DELETE", loc, nil)
	s.want("404 BLOB_UPLOAD_UNKNOWN", "DELETE", loc, nil)
	s.want("404 BLOB_UPLOAD_UNKNOWN", "GET", loc, nil)
	for _, id := range []string{"x", "..", "../../index.json", "%2e%2e%2findex.json", strings.Repeat("a", 300)} {
		if got := s.do("PATCH", "/v2/a/blobs/uploads/"+id, data); got.status/100 != 4 {
			t.Errorf("session %q: %d", id, got.status)
		}
	}
	s.sound()
}

// TestMount: Mounting a blob from another repository.
func TestMount(t *testing.T) {
	s := start(t, Options{})
	data := random(500)
	d := s.push("from", data, digest.SHA256)
	a := s.want("201", "POST", "/v2/to/blobs/uploads/?mount="+d.String()+"&from=from", nil)
	if got := s.want("200", "GET", s.at(a, ""), nil); !bytes.Equal(got.body, data) {
		t.Error("other bytes")
	}
	s.want("201", "POST", "/v2/anon/blobs/uploads/?mount="+d.String(), nil)
	missing := digest.FromString("missing").String()
	for _, query := range []string{"mount=" + missing + "&from=from", "mount=" + missing, "mount=" + d.String() + "&from=other", "mount=" + d.String() + "&from=BAD"} {
		a = s.want("202", "POST", "/v2/to2/blobs/uploads/?"+query, nil)
		s.want("404", "HEAD", "/v2/to2/blobs/"+d.String(), nil)
	}
	s.want("201", "PUT", s.at(a, "digest="+d.String()), data)
	// Deleting is immediate here and leaves the others alone.
	s.want("202", "DELETE", "/v2/from/blobs/"+d.String(), nil)
	s.want("404", "HEAD", "/v2/from/blobs/"+d.String(), nil)
	s.want("404 BLOB_UNKNOWN", "GET", "/v2/from/blobs/"+d.String(), nil)
	s.want("404 BLOB_UNKNOWN", "DELETE", "/v2/from/blobs/"+d.String(), nil)
	for _, repo := range []string{"to", "to2", "anon"} {
		s.want("200", "GET", "/v2/"+repo+"/blobs/"+d.String(), nil)
	}
	s.want("202", "POST", "/v2/to3/blobs/uploads/?mount="+d.String()+"&from=from", nil)
	s.push("from", data, digest.SHA256)
	s.want("200", "GET", "/v2/from/blobs/"+d.String(), nil)
}

// TestPullBlob: Pulling blobs, completely and in ranges.
func TestPullBlob(t *testing.T) {
	s := start(t, Options{})
	data := random(2048)
	d := s.push("a", data, digest.SHA256)
	path := "/v2/a/blobs/" + d.String()
	a := s.want("200", "HEAD", path, nil)
	if a.header.Get("Content-Length") != "2048" || a.header.Get("Docker-Content-Digest") != d.String() || len(a.body) != 0 {
		t.Errorf("head: %v", a.header)
	}
	for _, tc := range []struct {
		ask, want, span string
		from, to        int
	}{
		{"bytes=500-1499", "206", "bytes 500-1499/2048", 500, 1500},
		{"bytes=500-", "206", "bytes 500-2047/2048", 500, 2048},
		{"bytes=-500", "206", "bytes 1548-2047/2048", 1548, 2048},
		{"bytes=2000-5000", "206", "bytes 2000-2047/2048", 2000, 2048},
		{"bytes=0-0", "206", "bytes 0-0/2048", 0, 1},
		{"bytes=500-0", "416", "", 0, 0},
		{"bytes=5000-10000", "416", "", 0, 0},
	} {
		a := s.want(tc.want, "GET", path, nil, "Range: "+tc.ask)
		if tc.want == "206" && (!bytes.Equal(a.body, data[tc.from:tc.to]) || a.header.Get("Content-Range") != tc.span) {
			t.Errorf("%s: %d bytes, %q", tc.ask, len(a.body), a.header.Get("Content-Range"))
		}
	}
	s.want("404 BLOB_UNKNOWN", "GET", "/v2/a/blobs/"+digest.FromString("x").String(), nil)
	s.want("404", "HEAD", "/v2/other/blobs/"+d.String(), nil)
	for _, bad := range []string{"sha256:abc", "x", "md5:d41d8cd98f00b204e9800998ecf8427e", "sha256:" + strings.ToUpper(d.Encoded())} {
		s.want("400 DIGEST_INVALID", "GET", "/v2/a/blobs/"+bad, nil)
	}
}

// TestDelete: Content Management. A deletion is immediate, in this repository
// only; the content can be pushed again.
func TestDelete(t *testing.T) {
	s := start(t, Options{})
	data, d := s.image("a", nil, "layer")
	for _, tag := range []string{"v1", "v2"} {
		s.want("201", "PUT", "/v2/a/manifests/"+tag, data, asImage)
	}
	other, _ := s.image("b", nil, "layer")
	s.want("201", "PUT", "/v2/b/manifests/v1", other, asImage)
	s.want("202", "DELETE", "/v2/a/manifests/v1", nil)
	s.want("404 MANIFEST_UNKNOWN", "GET", "/v2/a/manifests/v1", nil)
	s.want("404 MANIFEST_UNKNOWN", "DELETE", "/v2/a/manifests/v1", nil)
	s.want("200", "GET", "/v2/a/manifests/v2", nil)
	s.want("202", "DELETE", "/v2/a/manifests/"+d.String(), nil)
	for _, ref := range []string{"v2", d.String()} {
		s.want("404", "HEAD", "/v2/a/manifests/"+ref, nil)
	}
	layer := digest.FromString("layer").String()
	s.want("202", "DELETE", "/v2/a/blobs/"+layer, nil)
	s.want("404", "HEAD", "/v2/a/blobs/"+layer, nil)
	s.want("200", "GET", "/v2/b/blobs/"+layer, nil)
	s.want("200", "GET", "/v2/b/manifests/v1", nil)
	if _, err := s.store.GC(context.Background(), registry.GCOptions{Grace: -1}); err != nil {
		t.Fatal(err)
	}
	s.want("200", "GET", "/v2/b/blobs/"+layer, nil)
	again, _ := s.image("a", nil, "layer")
	s.want("201", "PUT", "/v2/a/manifests/v3", again, asImage)
	s.want("200", "GET", "/v2/a/blobs/"+layer, nil)
	s.sound()
}

func TestLogin(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	file := []byte("# users\n\nann:" + string(hash) + "\n")
	for name, opt := range map[string]Options{
		"htpasswd": {Htpasswd: file},
		"single":   {User: "ann", Password: "secret"},
		"both":     {User: "bob", Password: "x", Htpasswd: file},
	} {
		s := start(t, opt)
		login := func(user, password string) int {
			req, _ := http.NewRequest("GET", s.url+"/v2/", nil)
			if user != "" {
				req.SetBasicAuth(user, password)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode == 401 && !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("%s: %v", name, resp.Header)
			}
			return resp.StatusCode
		}
		for range 2 {
			for _, bad := range [][2]string{{"", ""}, {"ann", ""}, {"ann", "Secret"}, {"eve", "secret"}, {"", "secret"}, {"ann", "secret "}} {
				if got := login(bad[0], bad[1]); got != 401 {
					t.Errorf("%s: %v got %d", name, bad, got)
				}
			}
			if got := login("ann", "secret"); got != 200 {
				t.Errorf("%s: ann got %d", name, got)
			}
		}
		s.want("401 UNAUTHORIZED", "POST", "/v2/a/blobs/uploads/", nil)
	}
	for name, opt := range map[string]Options{
		"plain text":  {Htpasswd: []byte("ann:secret\n")},
		"md5":         {Htpasswd: []byte("ann:$apr1$x$y\n")},
		"nobody":      {Htpasswd: []byte("# none\n")},
		"no password": {User: "ann"},
		"no user":     {Password: "x"},
		"colon":       {User: "a:b", Password: "x"},
	} {
		if _, err := New(nil, opt); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestWebPage: a page in the browser can read public content, and change
// nothing.
func TestWebPage(t *testing.T) {
	s := start(t, Options{})
	s.want("403 DENIED", "POST", "/v2/a/blobs/uploads/", nil, "Origin: http://evil.example")
	s.want("403 DENIED", "POST", "/v2/a/blobs/uploads/", nil, "Sec-Fetch-Site: cross-site")
	s.want("202", "POST", "/v2/a/blobs/uploads/", nil)
}

func TestMaxBlob(t *testing.T) {
	s := start(t, Options{MaxBlob: 1000})
	loc := s.at(s.want("202", "POST", "/v2/a/blobs/uploads/", nil), "")
	s.want("202", "PATCH", loc, random(600))
	s.want("413 SIZE_INVALID", "PATCH", loc, random(600))
	req, _ := http.NewRequest("PATCH", s.url+loc, struct{ io.Reader }{bytes.NewReader(random(600))})
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("unannounced: %d", resp.StatusCode)
	}
	s.push("a", random(1000), digest.SHA256)
	s.sound()
}
