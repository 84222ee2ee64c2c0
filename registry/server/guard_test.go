package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/registry"
)

// TestHosts: a page whose name points to this machine is refused, whatever its
// headers.
func TestHosts(t *testing.T) {
	for _, c := range []struct {
		opt  Options
		host string
		want int
	}{
		{Options{}, "evil.example:5000", 421},
		{Options{}, "evil.example", 421},
		{Options{}, "localhost.evil.example:5000", 421},
		{Options{}, "127.0.0.1.evil.example", 421},
		{Options{}, "", 421},
		{Options{}, "localhost:5000", 200},
		{Options{}, "LOCALHOST.:5000", 200},
		{Options{}, "x.localhost", 200},
		{Options{}, "127.0.0.1:5000", 200},
		{Options{}, "[::1]:5000", 200},
		{Options{}, "192.0.2.7", 200},
		{Options{Hosts: []string{"box.lan"}}, "BOX.lan:5000", 200},
		{Options{Hosts: []string{"box.lan"}}, "evil.example", 421},
		{Options{AnyHost: true}, "registry.example", 200},
	} {
		h, err := New(start(t, c.opt).store, c.opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, method := range []string{"GET", "POST"} {
			r := httptest.NewRequest(method, "http://x/v2/", nil)
			r.Host = c.host
			r.Header.Set("Origin", "http://"+c.host)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if refused := w.Code == 421; refused != (c.want == 421) {
				t.Errorf("%s for %q, %+v: %d, want %d", method, c.host, c.opt, w.Code, c.want)
			}
		}
	}
}

// TestRoom: blobs beyond the limit are refused and leave nothing; a removal
// makes room again.
func TestRoom(t *testing.T) {
	s := start(t, Options{MaxStore: 300_000})
	push := func(want string, data []byte) {
		t.Helper()
		a := s.want("202", "POST", "/v2/a/blobs/uploads/", nil)
		s.want(want, "PUT", s.at(a, "digest="+digest.FromBytes(data).String()), data)
	}
	push("201", random(200_000))
	push("507 DENIED", random(150_000))
	push("201", random(90_000))
	// A body without a length.
	loc := s.at(s.want("202", "POST", "/v2/a/blobs/uploads/", nil), "")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PATCH %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", loc, 8_000, string(random(8_000)))
	time.Sleep(100 * time.Millisecond) // these were accepted, the next is not
	fmt.Fprintf(conn, "%x\r\n%s\r\n0\r\n\r\n", 50_000, strings.Repeat("x", 50_000))
	answer := make([]byte, 12)
	if _, err := conn.Read(answer); err != nil || string(answer) != "HTTP/1.1 507" {
		t.Errorf("%q, %v", answer, err)
	}
	if left, err := s.store.Unfinished(context.Background()); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	used, err := s.store.Usage(context.Background())
	if err != nil || used != 290_000 {
		t.Errorf("%d bytes used, %v", used, err)
	}
	push("201", random(9_000)) // the refused bytes are returned to the budget
}

// TestSlowBodies: a trickling body is given up, and its upload can be resumed.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	store, err := registry.Open(t.TempDir(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	h, err := New(store, Options{MinRate: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	h.window = 100 * time.Millisecond
	srv := httptest.NewServer(h)
	defer srv.Close()
	s := &site{t, store, srv.URL}
	for _, every := range []time.Duration{20 * time.Millisecond, time.Hour} { // drops, silence
		loc := s.at(s.want("202", "POST", "/v2/a/blobs/uploads/", nil), "")
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "PATCH %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nx", loc)
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				case <-time.After(every):
				}
				if _, err := conn.Write([]byte("x")); err != nil {
					return
				}
			}
		}()
		conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		answer := make([]byte, 12)
		if _, err := conn.Read(answer); err != nil || string(answer) != "HTTP/1.1 408" {
			t.Errorf("%s: %q, %v", every, answer, err)
		}
		close(stop)
		<-done
		conn.Close()
	}
}

// TestSteadyBodies: a body at the required rate may take longer than the
// window.
func TestSteadyBodies(t *testing.T) {
	t.Parallel()
	store, err := registry.Open(t.TempDir(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	h, err := New(store, Options{MinRate: 100})
	if err != nil {
		t.Fatal(err)
	}
	h.window = time.Second // a busy machine holds a client up for part of it
	srv := httptest.NewServer(h)
	defer srv.Close()
	s := &site{t, store, srv.URL}
	data := random(10_000)
	loc := s.at(s.want("202", "POST", "/v2/a/blobs/uploads/", nil), "")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT %s?digest=%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", loc, digest.FromBytes(data), len(data))
	for at := 0; at < len(data); at += 1000 {
		conn.Write(data[at : at+1000])
		time.Sleep(120 * time.Millisecond)
	}
	answer := make([]byte, 12)
	if _, err := conn.Read(answer); err != nil || string(answer) != "HTTP/1.1 201" {
		t.Errorf("a slow but steady body: %q, %v", answer, err)
	}
}

// waitUntil waits for something that a busy machine may be long about.
func waitUntil(t *testing.T, what string, there func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !there(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// TestComingBack: a client that was cut off and comes back does not wait until
// the server has noticed.
func TestComingBack(t *testing.T) {
	s := start(t, Options{})
	data := random(100_000)
	loc := s.at(s.want("202", "POST", "/v2/a/blobs/uploads/", nil), "")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() // it lives on, silent, as one behind a dead link does
	fmt.Fprintf(conn, "PATCH %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", loc, len(data))
	conn.Write(data[:40_000])
	waitUntil(t, "the first bytes are there", func() bool {
		left, err := s.store.Unfinished(context.Background())
		return err == nil && len(left) == 1 && left[0].Bytes > 0
	})
	begin := time.Now()
	a := s.do("PATCH", loc, data[:1], "Content-Range: 0-0")
	if a.status != 416 || time.Since(begin) > rateWindow/2 {
		t.Errorf("%d after %s", a.status, time.Since(begin))
	}
	var last int
	fmt.Sscanf(a.header.Get("Range"), "0-%d", &last)
	s.want("201", "PUT", loc+"?digest="+digest.FromBytes(data).String(), data[last+1:])
}

// TestTend drops abandoned uploads, and completes index.json.
func TestTend(t *testing.T) {
	dir := t.TempDir()
	store, err := registry.Open(dir, registry.Options{Journal: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := serve(t, store, Options{})
	loc := s.at(s.want("202", "POST", "/v2/a/blobs/uploads/", nil), "")
	s.want("202", "PATCH", loc, random(1000))
	left, err := store.Unfinished(context.Background())
	if err != nil || len(left) != 1 || left[0].Bytes != 1000 {
		t.Fatal(left, err)
	}
	if report, err := store.Fsck(context.Background(), registry.FsckOptions{}); err != nil || report.Temp != 1 || len(report.Left) != 1 {
		t.Errorf("fsck: %+v, %v", report, err)
	}
	old := time.Now().Add(-7 * time.Hour)
	for _, suffix := range []string{"", ".state", ".lock"} {
		os.Chtimes(dir+"/"+left[0].Path+suffix, old, old)
	}
	h, err := New(store, Options{})
	if err != nil {
		t.Fatal(err)
	}
	signed(t, store, "a:1")
	h.edited.Store(time.Now().Add(-time.Hour).UnixNano())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	tended := make(chan error, 1)
	go func() { tended <- h.Tend(ctx) }()
	waitUntil(t, "index.json has the tag", func() bool {
		data, err := os.ReadFile(dir + "/index.json")
		return err == nil && bytes.Contains(data, []byte(`"a:1"`))
	})
	stop()
	if err := <-tended; err != context.Canceled {
		t.Error(err)
	}
	s.want("404 BLOB_UPLOAD_UNKNOWN", "GET", loc, nil)
}

// TestReferrersAreSmall: manifests with a subject are bounded, and a long list of
// them comes in pages.
func TestReferrersAreSmall(t *testing.T) {
	s := start(t, Options{})
	desc := signed(t, s.store, "a:1")
	blob := func(data []byte) ocispec.Descriptor {
		a := s.want("202", "POST", "/v2/a/blobs/uploads/", nil)
		d := digest.FromBytes(data)
		s.want("201", "PUT", s.at(a, "digest="+d.String()), data)
		return ocispec.Descriptor{MediaType: ocispec.MediaTypeEmptyJSON, Digest: d, Size: int64(len(data))}
	}
	config := blob([]byte("{}"))
	put := func(want, artifactType, pad string) {
		t.Helper()
		data, err := json.Marshal(ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
			ArtifactType: artifactType, Config: config, Layers: []ocispec.Descriptor{config}, Annotations: map[string]string{"pad": pad},
			Subject: &ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size}})
		if err != nil {
			t.Fatal(err)
		}
		s.want(want, "PUT", "/v2/a/manifests/"+digest.FromBytes(data).String(), data, "Content-Type: "+ocispec.MediaTypeImageManifest)
	}
	put("400 MANIFEST_INVALID", "x/"+strings.Repeat("y", 254), "")
	put("413 MANIFEST_INVALID", "x/y", strings.Repeat("p", 70_000))
	const n = 50
	for i := range n {
		put("201", "x/y", fmt.Sprintf("%d %s", i, strings.Repeat("p", 60_000)))
	}
	seen, pages := map[digest.Digest]bool{}, 0
	for at := "/v2/a/referrers/" + desc.Digest.String() + "?artifactType=x%2Fy"; at != ""; pages++ {
		a := s.want("200", "GET", at, nil)
		if len(a.body) > 3<<20 {
			t.Errorf("a page of %d bytes", len(a.body))
		}
		var list ocispec.Index
		if err := json.Unmarshal(a.body, &list); err != nil {
			t.Fatal(err)
		}
		for _, d := range list.Manifests {
			seen[d.Digest] = true
		}
		at, _, _ = strings.Cut(strings.TrimPrefix(a.header.Get("Link"), "<"), ">")
	}
	if len(seen) != n || pages != 2 {
		t.Errorf("%d referrers in %d pages, want %d in 2", len(seen), pages, n)
	}
}
