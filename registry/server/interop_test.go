package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
)

// signed packs an index of two targets with a referrer on each manifest.
func signed(t *testing.T, s *registry.Store, ref string) ocispec.Descriptor {
	t.Helper()
	ctx := context.Background()
	var entries []artifact.IndexEntry
	fail := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	attach := func(subject ocispec.Descriptor) {
		layer, err := s.AddBytes(ctx, "text/plain", []byte("signature of "+subject.Digest))
		fail(err)
		_, err = oras.PackManifest(ctx, s, oras.PackManifestVersion1_1, "application/vnd.dev.sigstore.bundle.v0.3+json", oras.PackManifestOptions{
			Subject: &subject, Layers: []ocispec.Descriptor{layer},
			ManifestAnnotations: map[string]string{ocispec.AnnotationCreated: "2020-01-01T00:00:00Z"}})
		fail(err)
	}
	for i, target := range []string{"laptop", "phone"} {
		shared, err := s.AddBytes(ctx, "application/vnd.cncf.model.weight.v1.raw", bytes.Repeat([]byte("shared"), 10_000))
		fail(err)
		own, err := s.AddBytes(ctx, "application/vnd.cncf.model.weight.v1.raw", bytes.Repeat([]byte{byte(i)}, 50_000))
		fail(err)
		desc, err := artifact.Pack(ctx, s, artifact.Artifact{Name: "demo", Version: "1.0.0", Layers: []artifact.Layer{
			{Path: "shared.gguf", Descriptor: shared}, {Path: target + ".onnx", Descriptor: own}}})
		fail(err)
		attach(desc)
		entries = append(entries, artifact.IndexEntry{Descriptor: desc, Target: target, Platform: &ocispec.Platform{OS: "linux", Architecture: []string{"amd64", "arm64"}[i]}})
	}
	idx, err := artifact.PackIndex(ctx, s, entries, nil)
	fail(err)
	attach(idx)
	fail(s.Tag(ctx, idx, ref))
	return idx
}

// TestOras pushes an index with its referrers by oras-go, as `oras cp -r` does,
// and pulls it into another store.
func TestOras(t *testing.T) {
	ctx := context.Background()
	s := start(t, Options{User: "ann", Password: "secret"})
	src, err := registry.Open(t.TempDir(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	idx := signed(t, src, "v1")
	repo, err := remote.NewRepository(strings.TrimPrefix(s.url, "http://") + "/mm/demo")
	if err != nil {
		t.Fatal(err)
	}
	repo.PlainHTTP = true
	repo.Client = basic{"ann", "secret"}
	// From the index, oras finds its referrers but not those of the manifests
	// in it; these are copied separately.
	index, err := artifact.ReadIndex(ctx, src, idx)
	if err != nil {
		t.Fatal(err)
	}
	copyAll := func(src oras.ReadOnlyGraphTarget, dst oras.Target) {
		t.Helper()
		if _, err := oras.ExtendedCopy(ctx, src, "v1", dst, "v1", oras.DefaultExtendedCopyOptions); err != nil {
			t.Fatal(err)
		}
		for _, e := range index.Entries {
			if err := oras.ExtendedCopyGraph(ctx, src, dst, e.Descriptor, oras.DefaultExtendedCopyGraphOptions); err != nil {
				t.Fatal(err)
			}
		}
	}
	copyAll(src, repo)
	dst, err := registry.Open(t.TempDir(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	copyAll(repo, dst)
	got, err := dst.Resolve(ctx, "v1")
	if err != nil || got.Digest != idx.Digest {
		t.Fatalf("%s, %v", got.Digest, err)
	}
	for _, desc := range []ocispec.Descriptor{got, index.Entries[0].Descriptor, index.Entries[1].Descriptor} {
		if refs, err := dst.Referrers(ctx, desc, "application/vnd.dev.sigstore.bundle.v0.3+json"); err != nil || len(refs) != 1 {
			t.Errorf("%s: %d signatures, %v", desc.Digest, len(refs), err)
		}
	}
	s.sound()
	if report, err := dst.Fsck(ctx, registry.FsckOptions{}); err != nil || len(report.Problems) > 0 {
		t.Errorf("%+v, %v", report.Problems, err)
	}
}

// basic is an oras client with a login.
type basic [2]string

func (b basic) Do(req *http.Request) (*http.Response, error) {
	req.SetBasicAuth(b[0], b[1])
	return http.DefaultClient.Do(req)
}

// TestGGCR pulls and pushes by go-containerregistry, as crane does.
func TestGGCR(t *testing.T) {
	s := start(t, Options{})
	signed(t, s.store, "mm/demo:v1")
	host := strings.TrimPrefix(s.url, "http://")
	ref, err := name.ParseReference(host+"/mm/demo:v1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	idx, err := ggcr.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	to, err := name.ParseReference(host+"/copy/demo:v2", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := ggcr.WriteIndex(to, idx); err != nil {
		t.Fatal(err)
	}
	want, err := idx.Digest()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ggcr.Head(to)
	if err != nil || got.Digest != want {
		t.Errorf("%+v, %v", got, err)
	}
	tags, err := ggcr.List(to.Context())
	if err != nil || len(tags) != 1 || tags[0] != "v2" {
		t.Errorf("%v, %v", tags, err)
	}
	d, err := name.NewDigest(host+"/mm/demo@"+want.String(), name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	refs, err := ggcr.Referrers(d)
	if err != nil {
		t.Fatal(err)
	}
	list, err := refs.IndexManifest()
	if err != nil || len(list.Manifests) != 1 {
		t.Errorf("%d referrers, %v", len(list.Manifests), err)
	}
	s.sound()
}

// TestManyClients has 16 clients push 10 tags each, all sharing a layer, while
// two more delete and collect garbage.
func TestManyClients(t *testing.T) {
	s := start(t, Options{})
	var wg sync.WaitGroup
	for c := range 16 {
		wg.Go(func() {
			repo := fmt.Sprintf("r%d", c%4)
			for i := range 10 {
				data, _ := s.image(repo, nil, "shared", fmt.Sprintf("own %d %d", c, i))
				s.want("201", "PUT", fmt.Sprintf("/v2/%s/manifests/t%d-%d", repo, c, i), data, asImage)
			}
		})
	}
	stop := make(chan bool)
	var background sync.WaitGroup
	background.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			data, d := s.image("churn", nil, "shared", fmt.Sprint("churn ", i))
			s.want("201", "PUT", "/v2/churn/manifests/x", data, asImage)
			s.want("202", "DELETE", "/v2/churn/manifests/"+d.String(), nil)
			s.want("202", "DELETE", "/v2/churn/blobs/"+digest.FromString("shared").String(), nil)
		}
	})
	background.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			if _, err := s.store.GC(context.Background(), registry.GCOptions{Grace: time.Minute}); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	close(stop)
	background.Wait()
	tags := 0
	for r := range 4 {
		a := s.want("200", "GET", fmt.Sprintf("/v2/r%d/tags/list", r), nil)
		tags += bytes.Count(a.body, []byte(`"t`)) - bytes.Count(a.body, []byte(`"tags"`))
	}
	if tags != 160 {
		t.Errorf("%d tags of 160", tags)
	}
	s.sound()
}

// TestMain can run a registry in the test binary that can be killed.
func TestMain(m *testing.M) {
	dir := os.Getenv("MM_TEST_SERVE")
	if dir == "" {
		os.Exit(testfiles.InMemory(m))
	}
	if err := serveProcess(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveProcess(dir string) error {
	store, err := registry.Open(dir, registry.Options{Journal: os.Getenv("MM_TEST_JOURNAL") != ""})
	if err != nil {
		return err
	}
	h, err := New(store, Options{})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, h)
}

// process starts a registry process on dir.
func process(t *testing.T, dir string) (*site, func()) {
	t.Helper()
	s, _, kill := processOf(t, dir)
	return s, kill
}

// processOf is process that shows the process.
func processOf(t *testing.T, dir string) (*site, *exec.Cmd, func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MM_TEST_SERVE="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var addr string
	if _, err := fmt.Fscanln(out, &addr); err != nil {
		t.Fatal(err)
	}
	return &site{t: t, url: "http://" + addr}, cmd, sync.OnceFunc(func() { cmd.Process.Kill(); cmd.Wait() })
}

// TestKilled kills the registry between two chunks and in the middle of one;
// the push resumes at the next registry's offset.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	data := random(3_000_000)
	d := digest.FromBytes(data)
	s, kill := process(t, dir)
	a := s.want("202", "POST", "/v2/a/blobs/uploads/", nil)
	loc := s.at(a, "")
	s.want("202", "PATCH", loc, data[:1_000_000], "Content-Range: 0-999999")
	kill()

	s, kill = process(t, dir)
	if got := s.want("204", "GET", loc, nil).header.Get("Range"); got != "0-999999" {
		t.Errorf("after the first kill: %q", got)
	}
	body, half := io.Pipe()
	sent := make(chan error)
	go func() {
		req, err := http.NewRequest("PATCH", s.url+loc, body)
		if err == nil {
			var resp *http.Response
			if resp, err = http.DefaultTransport.RoundTrip(req); err == nil {
				resp.Body.Close()
			}
		}
		body.CloseWithError(errors.New("the registry was killed"))
		sent <- err
	}()
	half.Write(data[1_000_000:1_500_000])
	time.Sleep(50 * time.Millisecond)
	kill()
	half.Close()
	<-sent

	s, kill = process(t, dir)
	defer kill()
	var last int
	if _, err := fmt.Sscanf(s.want("204", "GET", loc, nil).header.Get("Range"), "0-%d", &last); err != nil || last < 999_999 || last >= len(data) {
		t.Fatalf("after the second kill: %d, %v", last, err)
	}
	s.want("202", "PATCH", loc, data[last+1:], fmt.Sprintf("Content-Range: %d-%d", last+1, len(data)-1))
	a = s.want("201", "PUT", loc+"?digest="+d.String(), nil)
	if got := s.want("200", "GET", s.at(a, ""), nil); !bytes.Equal(got.body, data) {
		t.Error("other bytes")
	}
	t.Logf("went on at 1000000 and at %d", last+1)
}

// TestCut: a client that disconnects in the middle of a chunk resumes at the
// registry's offset, and nothing it sent is lost.
func TestCut(t *testing.T) {
	s := start(t, Options{})
	data := random(200_000)
	loc := s.at(s.want("202", "POST", "/v2/a/blobs/uploads/", nil), "")
	for at := 0; at < len(data); {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		end := min(at+30_000, len(data))
		fmt.Fprintf(conn, "PATCH %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nContent-Range: %d-%d\r\n\r\n", loc, len(data)-at, at, len(data)-1)
		conn.Write(data[at:end])
		conn.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, conn)
		conn.Close()
		var last int
		fmt.Sscanf(s.want("204", "GET", loc, nil).header.Get("Range"), "0-%d", &last)
		if last+1 != end {
			t.Fatalf("offset: got %d, want %d", last+1, end)
		}
		at = end
	}
	s.want("201", "PUT", loc+"?digest="+digest.FromBytes(data).String(), nil)
}
