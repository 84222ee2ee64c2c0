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
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/bcrypt"

	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
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

// TestManifests: Pushing and Pulling Manifests.
func TestManifests(t *testing.T) {
	s := start(t, Options{})
	data, d := s.image("a", nil, "one", "two")
	a := s.want("201", "PUT", "/v2/a/manifests/v1", data, asImage)
	if a.header.Get("Location") != "/v2/a/manifests/"+d.String() || a.header.Get("Docker-Content-Digest") != d.String() || a.header.Get("OCI-Subject") != "" {
		t.Errorf("%v", a.header)
	}
	s.want("201", "PUT", "/v2/a/manifests/"+d.String(), data, asImage)
	for _, ref := range []string{"v1", d.String()} {
		for _, method := range []string{"GET", "HEAD"} {
			a := s.want("200", method, "/v2/a/manifests/"+ref, nil)
			if a.header.Get("Content-Type") != ocispec.MediaTypeImageManifest || a.header.Get("Docker-Content-Digest") != d.String() ||
				a.header.Get("Content-Length") != fmt.Sprint(len(data)) || method == "GET" && !bytes.Equal(a.body, data) {
				t.Errorf("%s %s: %v", method, ref, a.header)
			}
		}
	}
	s.want("404 MANIFEST_UNKNOWN", "GET", "/v2/a/manifests/v2", nil)
	s.want("404 MANIFEST_UNKNOWN", "GET", "/v2/b/manifests/v1", nil)
	s.want("404 MANIFEST_UNKNOWN", "GET", "/v2/b/manifests/"+d.String(), nil)
	s.want("404 MANIFEST_UNKNOWN", "GET", "/v2/a/manifests/"+digest.FromString("two").String(), nil)
	s.want("400 DIGEST_INVALID", "GET", "/v2/a/manifests/sha256:baddigeststring", nil)
	s.want("400 DIGEST_INVALID", "PUT", "/v2/a/manifests/sha256:baddigeststring", data, asImage)
	s.want("400 DIGEST_INVALID", "PUT", "/v2/a/manifests/"+d.String(), append(data, ' '), asImage)
	s.want("404 MANIFEST_BLOB_UNKNOWN", "PUT", "/v2/b/manifests/v1", data, asImage)
	s.want("415 MANIFEST_INVALID", "PUT", "/v2/a/manifests/v1", data, "Content-Type: text/plain")
	s.want("415 MANIFEST_INVALID", "PUT", "/v2/a/manifests/v1", data)
	s.want("400 MANIFEST_INVALID", "PUT", "/v2/a/manifests/v1", data, asIndex)
	s.want("400 MANIFEST_INVALID", "PUT", "/v2/a/manifests/v1", []byte("{"), asImage)
	s.want("400 MANIFEST_INVALID", "PUT", "/v2/a/manifests/v1", []byte(`{"schemaVersion":2}`), asImage)
	s.want("400 MANIFEST_INVALID", "PUT", "/v2/a/manifests/-x", data, asImage)
	s.want("413 MANIFEST_INVALID", "PUT", "/v2/a/manifests/v1", bytes.Repeat([]byte(" "), maxManifest+1), asImage)

	// Tags with the digest, sha512, empty and nested indexes, no layers,
	// unknown fields, embedded data, layers that lie elsewhere, 4 MiB.
	d512 := digest.SHA512.FromBytes(data)
	a = s.want("201", "PUT", "/v2/a/manifests/"+d512.String()+"?tag=x&tag=y", data, asImage)
	if diff := cmp.Diff([]string{"x", "y"}, a.header.Values("OCI-Tag")); diff != "" {
		t.Error(diff)
	}
	if got := s.want("200", "GET", "/v2/a/manifests/y", nil); got.header.Get("Docker-Content-Digest") != d512.String() {
		t.Errorf("%v", got.header)
	}
	index := func(children ...ocispec.Descriptor) ([]byte, ocispec.Descriptor) {
		data, err := json.Marshal(ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: append([]ocispec.Descriptor{}, children...)})
		if err != nil {
			t.Fatal(err)
		}
		return data, blobDesc(ocispec.MediaTypeImageIndex, data)
	}
	empty, emptyDesc := index()
	s.want("201", "PUT", "/v2/a/manifests/empty", empty, asIndex)
	inner, innerDesc := index(blobDesc(ocispec.MediaTypeImageManifest, data))
	s.want("201", "PUT", "/v2/a/manifests/inner", inner, asIndex)
	outer, _ := index(innerDesc, emptyDesc)
	s.want("201", "PUT", "/v2/a/manifests/outer", outer, asIndex)
	none, _ := index(blobDesc(ocispec.MediaTypeImageManifest, []byte("none")))
	s.want("404 MANIFEST_BLOB_UNKNOWN", "PUT", "/v2/a/manifests/none", none, asIndex)
	for name, edit := range map[string]func(*ocispec.Manifest){
		"bare": nil,
		"data": func(m *ocispec.Manifest) { m.Config.Data = []byte("{}") },
		"elsewhere": func(m *ocispec.Manifest) {
			far := blobDesc("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", []byte("far"))
			far.URLs = []string{"http://127.0.0.1:1/far"}
			m.Layers = append(m.Layers, far)
		},
		"large": func(m *ocispec.Manifest) {
			m.Annotations = map[string]string{}
			for i := range 390 {
				m.Annotations[fmt.Sprint("note-", i)] = strings.Repeat("A", 10000)
			}
		},
	} {
		data, _ := s.image("a", edit)
		s.want("201", "PUT", "/v2/a/manifests/"+name, data, asImage)
		s.want("200", "GET", "/v2/a/manifests/"+name, nil)
	}
	extra := bytes.Replace(data, []byte("{"), []byte(`{"org.example.extra":{"x":[1]},`), 1)
	s.want("201", "PUT", "/v2/a/manifests/extra", extra, asImage)
	s.sound()
}

// TestTags: Listing Tags.
func TestTags(t *testing.T) {
	s := start(t, Options{})
	s.want("404 NAME_UNKNOWN", "GET", "/v2/a/tags/list", nil)
	data, d := s.image("a", nil)
	s.want("201", "PUT", "/v2/a/manifests/"+d.String(), data, asImage)
	list := func(query string) ([]string, string) {
		t.Helper()
		a := s.want("200", "GET", "/v2/a/tags/list"+query, nil)
		var doc struct {
			Name string
			Tags []string
		}
		if err := json.Unmarshal(a.body, &doc); err != nil || doc.Name != "a" || doc.Tags == nil {
			t.Fatalf("%s: %v", a.body, err)
		}
		return doc.Tags, a.header.Get("Link")
	}
	if tags, _ := list(""); len(tags) != 0 {
		t.Errorf("without tags: %v", tags)
	}
	for _, tag := range []string{"b", "a", "_x", "c.1", "B", strings.Repeat("z", 128)} {
		s.want("201", "PUT", "/v2/a/manifests/"+tag, data, asImage)
	}
	all := []string{"B", "_x", "a", "b", "c.1", strings.Repeat("z", 128)}
	tags, link := list("")
	if diff := cmp.Diff(all, tags); diff != "" || link != "" {
		t.Error(diff, link)
	}
	var paged []string
	for query := "?n=4"; query != ""; {
		tags, link := list(query)
		paged = append(paged, tags...)
		_, query, _ = strings.Cut(strings.TrimSuffix(link, `>; rel="next"`), "/list")
	}
	if diff := cmp.Diff(all, paged); diff != "" {
		t.Error(diff)
	}
	if tags, _ := list("?last=_x"); !slices.Equal(tags, all[2:]) {
		t.Errorf("after _x: %v", tags)
	}
	if tags, _ := list("?last=aa"); !slices.Equal(tags, all[3:]) {
		t.Errorf("after a missing tag: %v", tags)
	}
	if tags, link := list("?n=0"); len(tags) != 0 || link != "" {
		t.Errorf("n=0: %v %q", tags, link)
	}
	s.want("400 UNSUPPORTED", "GET", "/v2/a/tags/list?n=x", nil)
	s.want("400 UNSUPPORTED", "GET", "/v2/a/tags/list?n=-1", nil)
	if a := s.want("200", "GET", "/v2/_catalog", nil); string(a.body) != `{"repositories":["a"]}` {
		t.Errorf("catalog: %s", a.body)
	}
}

// TestReferrers: Listing Referrers.
func TestReferrers(t *testing.T) {
	s := start(t, Options{})
	list := func(repo string, d digest.Digest, query string) []ocispec.Descriptor {
		t.Helper()
		a := s.want("200", "GET", "/v2/"+repo+"/referrers/"+d.String()+query, nil)
		var idx ocispec.Index
		if err := json.Unmarshal(a.body, &idx); err != nil || idx.SchemaVersion != 2 || idx.MediaType != ocispec.MediaTypeImageIndex || idx.Manifests == nil || a.header.Get("Content-Type") != idx.MediaType {
			t.Errorf("%s: %v", a.body, err)
		}
		if applied := a.header.Get("OCI-Filters-Applied"); (query != "") != (applied == "artifactType") {
			t.Errorf("filters applied: %q", applied)
		}
		return idx.Manifests
	}
	data, subject := s.image("a", nil, "subject")
	if got := list("a", subject, ""); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
	var made []digest.Digest
	for i, artifactType := range []string{"x/one", "x/two", ""} {
		ref, d := s.image("a", func(m *ocispec.Manifest) {
			m.ArtifactType = artifactType
			m.Annotations = map[string]string{"n": fmt.Sprint(i)}
			m.Subject = &ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: subject, Size: int64(len(data))}
		})
		// The subject is pushed after the first of its referrers.
		a := s.want("201", "PUT", "/v2/a/manifests/"+d.String(), ref, asImage)
		if a.header.Get("OCI-Subject") != subject.String() {
			t.Errorf("OCI-Subject %q", a.header.Get("OCI-Subject"))
		}
		made = append(made, d)
		if i == 0 {
			s.want("201", "PUT", "/v2/a/manifests/v1", data, asImage)
		}
	}
	got := list("a", subject, "")
	if len(got) != 3 {
		t.Fatalf("%d referrers", len(got))
	}
	for _, desc := range got {
		i := slices.Index(made, desc.Digest)
		want := []string{"x/one", "x/two", "application/vnd.oci.empty.v1+json"}[i]
		if desc.ArtifactType != want || desc.Annotations["n"] != fmt.Sprint(i) || desc.MediaType != ocispec.MediaTypeImageManifest {
			t.Errorf("%+v", desc)
		}
	}
	if got := list("a", subject, "?artifactType=x/two"); len(got) != 1 || got[0].Digest != made[1] {
		t.Errorf("filtered: %v", got)
	}
	if got := list("other", subject, ""); len(got) != 0 {
		t.Errorf("in another repository: %v", got)
	}
	s.want("202", "DELETE", "/v2/a/manifests/"+made[0].String(), nil)
	if got := list("a", subject, ""); len(got) != 2 {
		t.Errorf("after deletion: %d", len(got))
	}
	s.want("400 DIGEST_INVALID", "GET", "/v2/a/referrers/x", nil)
	s.sound()
}

// TestReferrersStay: a referrer that a client pushed to one repository is not shown
// by another repository with the same subject, unless it was pushed there too; one
// that was attached to the store is shown wherever its subject is.
func TestReferrersStay(t *testing.T) {
	ctx := context.Background()
	s := start(t, Options{})
	data, subject := s.image("a", nil, "subject")
	s.image("b", nil, "subject")
	about := &ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: subject, Size: int64(len(data))}
	attached := func(m *ocispec.Manifest) { m.ArtifactType, m.Subject = "x/sig", about }
	early, first := s.image("a", attached, "first") // before its subject
	s.want("201", "PUT", "/v2/a/manifests/"+first.String(), early, asImage)
	for _, repo := range []string{"a", "b"} {
		s.want("201", "PUT", "/v2/"+repo+"/manifests/v1", data, asImage)
	}
	late, second := s.image("a", attached, "second")
	s.want("201", "PUT", "/v2/a/manifests/"+second.String(), late, asImage)
	nested, third := s.image("a", func(m *ocispec.Manifest) {
		m.Subject = &ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: second, Size: int64(len(late))}
	}, "third")
	s.want("201", "PUT", "/v2/a/manifests/"+third.String(), nested, asImage)
	want := func(repo string, n int, shown string) {
		t.Helper()
		var idx ocispec.Index
		a := s.want("200", "GET", "/v2/"+repo+"/referrers/"+subject.String(), nil)
		if err := json.Unmarshal(a.body, &idx); err != nil || len(idx.Manifests) != n {
			t.Errorf("%s lists %d referrers, want %d (%v)", repo, len(idx.Manifests), n, err)
		}
		for _, d := range []digest.Digest{first, second, third} {
			s.want(shown, "GET", "/v2/"+repo+"/manifests/"+d.String(), nil)
		}
	}
	want("a", 2, "200")
	want("b", 0, "404")
	layer := digest.FromString("second").String()
	s.want("200", "GET", "/v2/a/blobs/"+layer, nil)
	s.want("404", "GET", "/v2/b/blobs/"+layer, nil)
	s.want("202", "POST", "/v2/b/blobs/uploads/?mount="+layer+"&from=b", nil)
	local, err := s.store.AddBytes(ctx, ocispec.MediaTypeImageManifest, slices.Concat(late, []byte(" ")))
	if err != nil {
		t.Fatal(err)
	}
	want("a", 3, "200")
	want("b", 1, "404")
	s.want("200", "GET", "/v2/b/manifests/"+local.Digest.String(), nil)
	s.image("b", attached, "second")
	s.want("201", "PUT", "/v2/b/manifests/"+second.String(), late, asImage)
	var idx ocispec.Index
	if a := s.want("200", "GET", "/v2/b/referrers/"+subject.String(), nil); json.Unmarshal(a.body, &idx) != nil || len(idx.Manifests) != 2 {
		t.Errorf("pushed to b as well: %s", a.body)
	}
	// Without tags nothing holds the referrers, and their records go with them.
	for _, repo := range []string{"a", "b"} {
		s.want("202", "DELETE", "/v2/"+repo+"/manifests/"+subject.String(), nil)
	}
	if _, err := s.store.GC(ctx, registry.GCOptions{Grace: -1}); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(s.store.Dir(), ".mm", "repo", "_confined", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("records after gc: %v, %v", left, err)
	}
	s.sound()
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

// TestLocalTags: local tags of the store are served, with their referrers; a
// deletion through the API hides an artifact until it is tagged again.
func TestLocalTags(t *testing.T) {
	ctx := context.Background()
	s := start(t, Options{})
	layer, err := s.store.AddBytes(ctx, "application/vnd.cncf.model.weight.v1.raw", []byte("weights"))
	if err != nil {
		t.Fatal(err)
	}
	desc, err := artifact.Pack(ctx, s.store, artifact.Artifact{Name: "p-lite", Version: "0.1.0", Layers: []artifact.Layer{{Path: "core.gguf", Descriptor: layer}}})
	if err == nil {
		err = s.store.Tag(ctx, desc, "mm/p-lite:0.1.0")
	}
	if err != nil {
		t.Fatal(err)
	}
	sig := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: "x/sig",
		Config: blobDesc("application/vnd.oci.empty.v1+json", []byte("{}")), Layers: []ocispec.Descriptor{}, Subject: &desc}
	if _, err := s.store.AddBytes(ctx, sig.Config.MediaType, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(sig)
	if err != nil {
		t.Fatal(err)
	}
	sigDesc, err := s.store.AddBytes(ctx, sig.MediaType, data)
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"manifests/0.1.0", "manifests/" + desc.Digest.String(), "blobs/" + layer.Digest.String(), "manifests/" + sigDesc.Digest.String()}
	for _, path := range paths {
		s.want("200", "GET", "/v2/mm/p-lite/"+path, nil)
		s.want("404", "HEAD", "/v2/mm/other/"+path, nil)
	}
	if a := s.want("200", "GET", "/v2/mm/p-lite/referrers/"+desc.Digest.String(), nil); !strings.Contains(string(a.body), sigDesc.Digest.String()) {
		t.Errorf("referrers: %s", a.body)
	}
	s.want("202", "DELETE", "/v2/mm/p-lite/blobs/"+layer.Digest.String(), nil)
	s.want("404", "HEAD", "/v2/mm/p-lite/blobs/"+layer.Digest.String(), nil)
	if err := s.store.Tag(ctx, desc, "mm/p-lite:0.1.1"); err != nil {
		t.Fatal(err)
	}
	s.want("200", "HEAD", "/v2/mm/p-lite/blobs/"+layer.Digest.String(), nil)
	ro := serve(t, s.store, Options{ReadOnly: true})
	ro.want("200", "GET", "/v2/mm/p-lite/manifests/0.1.0", nil)
	ro.want("405 UNSUPPORTED", "POST", "/v2/mm/p-lite/blobs/uploads/", nil)
	ro.want("405 UNSUPPORTED", "PUT", "/v2/mm/p-lite/manifests/x", data, asImage)
	ro.want("405 UNSUPPORTED", "DELETE", "/v2/mm/p-lite/manifests/0.1.0", nil)
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
