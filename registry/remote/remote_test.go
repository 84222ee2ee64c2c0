package remote

import (
	"context"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/server"
	"mm-abi.org/mm/registry/sign"
)

func TestMain(m *testing.M) {
	os.Exit(testfiles.InMemory(m))
}

// openStore creates a store in a folder of the test.
func openStore(t testing.TB) *registry.Store {
	t.Helper()
	s, err := registry.Open(t.TempDir(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// nobody has no credentials.
func nobody(context.Context, string) (auth.Credential, error) { return auth.EmptyCredential, nil }

// newClient returns a client without credentials and with short waits.
func newClient(t testing.TB, opt Options) *Client {
	t.Helper()
	if opt.Credentials == nil {
		opt.Credentials = nobody
	}
	c, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	c.backoff.base = time.Millisecond
	t.Cleanup(c.Close)
	return c
}

// noise is n bytes that do not compress and depend on seed.
func noise(seed uint64, n int) []byte {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	b := make([]byte, n)
	rand.NewChaCha8(key).Read(b)
	return b
}

// pack stores an artifact with these layers.
func pack(t testing.TB, s *registry.Store, name string, layers ...artifact.Layer) ocispec.Descriptor {
	t.Helper()
	desc, err := artifact.Pack(context.Background(), s, artifact.Artifact{Name: name, Version: "1.0.0", Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	return desc
}

// layer stores data as a file of an artifact.
func layer(t testing.TB, s *registry.Store, path, role string, data []byte) artifact.Layer {
	t.Helper()
	desc, err := s.AddBytes(context.Background(), abi.MediaWeight, data)
	if err != nil {
		t.Fatal(err)
	}
	return artifact.Layer{Path: path, Descriptor: desc, Annotations: map[string]string{abi.AnnotationRole: role}}
}

// assembly is a signed index over two targets that share an encoder.
type assembly struct {
	index, laptop, mobile ocispec.Descriptor
	key                   *sign.PrivateKey
	policy                sign.Policy
}

func newAssembly(t testing.TB, s *registry.Store) assembly {
	t.Helper()
	ctx := context.Background()
	encoder := layer(t, s, "vision-enc.onnx", "encoder", noise(1, 300<<10))
	a := assembly{
		laptop: pack(t, s, "laptop", layer(t, s, "core-llm.gguf", "core", noise(2, 2<<20)), encoder),
		mobile: pack(t, s, "mobile", layer(t, s, "core-llm.gguf", "core", noise(3, 1<<20)), encoder),
	}
	var err error
	a.index, err = artifact.PackIndex(ctx, s, []artifact.IndexEntry{
		{Descriptor: a.laptop, Target: "laptop"}, {Descriptor: a.mobile, Target: "mobile"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	private, public, err := sign.Generate(sign.Ed25519, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.key, err = sign.LoadPrivate(private, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := sign.Sign(ctx, s, a.index, a.key, sign.Options{}); err != nil {
		t.Fatal(err)
	}
	a.policy = sign.Policy{
		Rules: []sign.Rule{{Match: "**", Keys: []string{"release"}}},
		Keys:  map[string]sign.TrustedKey{"release": {PEM: public}},
	}
	return a
}

func (a assembly) verifier(t testing.TB) *sign.Verifier {
	t.Helper()
	v, err := sign.NewVerifier(a.policy, sign.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// requests records the requests of a server, as "METHOD path".
type requests struct {
	mu   sync.Mutex
	list []string
}

func (r *requests) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.list = append(r.list, req.Method+" "+req.URL.Path)
		r.mu.Unlock()
		h.ServeHTTP(w, req)
	})
}

// methods counts the requests by method since the last call.
func (r *requests) methods() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[string]int{}
	for _, line := range r.list {
		method, _, _ := strings.Cut(line, " ")
		n[method]++
	}
	r.list = nil
	return n
}

// inMemory is a registry with or without the referrers API.
func inMemory(referrers bool) http.Handler {
	return ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)), ggcr.WithReferrersSupport(referrers))
}

// own returns mm's registry over a new store.
func own(t testing.TB) http.Handler {
	t.Helper()
	h, err := server.New(openStore(t), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// serve runs a handler and returns its host:port.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

// registries are the servers that every test of the main way runs against.
func registries(t *testing.T, test func(t *testing.T, host string, seen *requests)) {
	for name, h := range map[string]func() http.Handler{
		"our own":       func() http.Handler { return own(t) },
		"referrers API": func() http.Handler { return inMemory(true) },
		"referrers tag": func() http.Handler { return inMemory(false) },
	} {
		t.Run(name, func(t *testing.T) {
			seen := &requests{}
			test(t, serve(t, seen.wrap(h())), seen)
		})
	}
}

// whole fails the test unless the store holds all of desc, undamaged.
func whole(t testing.TB, s *registry.Store, desc ocispec.Descriptor) {
	t.Helper()
	if _, err := sign.VerifyTree(context.Background(), s, desc, sign.TreeOptions{}); err != nil {
		t.Error(err)
	}
}

func TestPushThenPull(t *testing.T) {
	registries(t, func(t *testing.T, host string, seen *requests) {
		ctx := context.Background()
		src, dst := openStore(t), openStore(t)
		a := newAssembly(t, src)
		c := newClient(t, Options{Chunk: 256 << 10})
		ref := host + "/team/p-lite:0.1.0"
		also := []registry.Tag{{Ref: "0.1.0-laptop", Descriptor: a.laptop}, {Ref: "0.1.0-mobile", Descriptor: a.mobile}}

		report, err := c.Push(ctx, src, a.index, ref, PushOptions{Also: also})
		if err != nil {
			t.Fatal(err)
		}
		want := Report{Manifests: 3, Referrers: 3, Blobs: 9, Moved: 9, Bytes: report.Bytes, Tags: []string{"0.1.0-laptop", "0.1.0-mobile", "0.1.0"}}
		if diff := cmp.Diff(want, report); diff != "" {
			t.Error(diff)
		}
		seen.methods()

		report, err = c.Push(ctx, src, a.index, ref, PushOptions{Also: also})
		if err != nil || report.Moved != 0 || report.Bytes != 0 {
			t.Errorf("a second push moved %+v, %v", report, err)
		}
		for method, n := range seen.methods() {
			if method != "HEAD" && method != "GET" {
				t.Errorf("a second push made %d %s requests", n, method)
			}
		}

		got, report, err := c.Pull(ctx, ref, dst, PullOptions{Verifier: a.verifier(t)})
		if err != nil {
			t.Fatal(err)
		}
		want = Report{Manifests: 3, Referrers: 3, Blobs: 9, Moved: 9, Bytes: report.Bytes, Tags: []string{ref}, SignedBy: []string{a.key.Public().KeyID()}}
		if diff := cmp.Diff(want, report); diff != "" || got.Digest != a.index.Digest {
			t.Error(got.Digest, diff)
		}
		whole(t, dst, got)
		if tagged, err := dst.Resolve(ctx, ref); err != nil || tagged.Digest != a.index.Digest {
			t.Error(tagged, err)
		}
		for _, d := range []ocispec.Descriptor{a.index, a.laptop, a.mobile} { // signatures came along
			if _, err := a.verifier(t).Verify(ctx, dst, host+"/team/p-lite", d); err != nil {
				t.Error(err)
			}
		}
		_, report, err = c.Pull(ctx, ref, dst, PullOptions{})
		if err != nil || report.Moved != 0 || report.Bytes != 0 {
			t.Errorf("a second pull moved %+v, %v", report, err)
		}

		tags, err := c.Tags(ctx, host+"/team/p-lite")
		if diff := cmp.Diff([]string{"0.1.0", "0.1.0-laptop", "0.1.0-mobile"}, tags); diff != "" || err != nil {
			t.Error(diff, err)
		}
		list, err := c.Referrers(ctx, host+"/team/p-lite", a.laptop, "")
		if err != nil || len(list) != 1 {
			t.Error(list, err)
		}
		d, err := c.Resolve(ctx, host+"/team/p-lite:0.1.0-mobile")
		if err != nil || d.Digest != a.mobile.Digest {
			t.Error(d, err)
		}
	})
}

func TestPullRefusesBeforeAnythingBig(t *testing.T) {
	registries(t, func(t *testing.T, host string, seen *requests) {
		ctx := context.Background()
		src, dst := openStore(t), openStore(t)
		a := newAssembly(t, src)
		c := newClient(t, Options{})
		ref := host + "/team/p-lite:0.1.0"
		if _, err := c.Push(ctx, src, a.index, ref, PushOptions{}); err != nil {
			t.Fatal(err)
		}
		a.policy.Rules[0].Match = "elsewhere/**"
		seen.methods()
		_, report, err := c.Pull(ctx, ref, dst, PullOptions{Verifier: a.verifier(t)})
		if !errors.Is(err, &sign.Refusal{Reason: sign.NoRule}) {
			t.Errorf("%v, want %s", err, sign.NoRule)
		}
		if n := seen.methods(); n["GET"] > 2 || report.Bytes != 0 {
			t.Errorf("%v requests and %d bytes for a refused artifact", n, report.Bytes)
		}
		if r, err := dst.Fsck(ctx, registry.FsckOptions{}); err != nil || r.Blobs != 0 || r.Temp != 0 {
			t.Errorf("left behind: %+v, %v", r, err)
		}
	})
}

func TestPullOnly(t *testing.T) {
	ctx := context.Background()
	host := serve(t, inMemory(true))
	src := openStore(t)
	a := newAssembly(t, src)
	c := newClient(t, Options{})
	ref := host + "/team/p-lite:0.1.0"
	if _, err := c.Push(ctx, src, a.index, ref, PushOptions{}); err != nil {
		t.Fatal(err)
	}
	encoders := func(d ocispec.Descriptor) bool { return d.Annotations[abi.AnnotationRole] == "encoder" }
	for name, tt := range map[string]struct {
		opt         PullOptions
		left, blobs int
		tags        int
	}{
		"role":            {PullOptions{Only: encoders}, 2, 7, 0},
		"target":          {PullOptions{Target: "mobile"}, 2, 8, 0},
		"role and target": {PullOptions{Only: encoders, Target: "laptop"}, 3, 7, 0},
		"unknown target":  {PullOptions{Target: "fridge"}, 4, 6, 0},
		"under a name":    {PullOptions{As: "mine:1"}, 0, 9, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dst := openStore(t)
			got, report, err := c.Pull(ctx, ref, dst, tt.opt)
			if err != nil {
				t.Fatal(err)
			}
			if report.Left != tt.left || report.Blobs != tt.blobs || len(report.Tags) != tt.tags {
				t.Errorf("%+v", report)
			}
			if _, err := a.verifier(t).Verify(ctx, dst, ref, got); err != nil {
				t.Errorf("the signature did not come along: %v", err)
			}
			if r, err := dst.Fsck(ctx, registry.FsckOptions{}); err != nil || r.Temp != 0 {
				t.Errorf("%+v, %v", r, err)
			}
			if tt.left == 0 {
				return
			}
			// The next complete pull fetches only the omitted layers.
			_, again, err := c.Pull(ctx, ref, dst, PullOptions{})
			if err != nil || again.Present != report.Moved {
				t.Errorf("%+v, %v", again, err)
			}
			whole(t, dst, got)
		})
	}
}

func TestPushMounts(t *testing.T) {
	ctx := context.Background()
	seen := &requests{}
	host := serve(t, seen.wrap(mounting(inMemory(true))))
	src := openStore(t)
	core := layer(t, src, "core-llm.gguf", "core", noise(2, 2<<20))
	module := pack(t, src, "core-llm", core)
	whole := pack(t, src, "p-lite", core, layer(t, src, "vision-enc.onnx", "encoder", noise(1, 300<<10)))
	c := newClient(t, Options{})
	if _, err := c.Push(ctx, src, module, host+"/team/core-llm:3.1.0", PushOptions{}); err != nil {
		t.Fatal(err)
	}
	report, err := c.Push(ctx, src, whole, host+"/team/p-lite:0.1.0", PushOptions{MountFrom: []string{"team/core-llm"}})
	if err != nil || report.Mounted != 1 || report.Moved != 2 {
		t.Errorf("named: %+v, %v", report, err)
	}
	// The store's tags show where a blob may be mounted from.
	if err := src.Tag(ctx, module, host+"/team/core-llm:3.1.0"); err != nil {
		t.Fatal(err)
	}
	report, err = c.Push(ctx, src, whole, host+"/team/p-pro:0.1.0", PushOptions{})
	if err != nil || report.Mounted != 1 || report.Moved != 2 {
		t.Errorf("found: %+v, %v", report, err)
	}
	report, err = c.Push(ctx, src, whole, host+"/team/p-max:0.1.0", PushOptions{MountFrom: []string{"team/nowhere"}})
	if err != nil || report.Mounted != 1 {
		t.Errorf("tried elsewhere first: %+v, %v", report, err)
	}
}

// mounting answers mounts from team/core-llm as ggcr's registry, whose blobs
// belong to no repository, cannot.
func mounting(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d := r.URL.Query().Get("mount")
		if r.Method == http.MethodHead && strings.Contains(r.URL.Path, "/blobs/") && !strings.HasPrefix(r.URL.Path, "/v2/team/core-llm/") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if r.Method == http.MethodPost && r.URL.Query().Get("from") == "team/nowhere" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if r.Method == http.MethodPost && r.URL.Query().Get("from") == "team/core-llm" {
			head := httptest.NewRequest(http.MethodHead, "/v2/team/core-llm/blobs/"+d, nil)
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, head)
			if rec.Code == http.StatusOK && d != "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" {
				w.Header().Set("Location", "/v2/team/p/blobs/"+d)
				w.WriteHeader(http.StatusCreated)
				return
			}
		}
		if r.Method == http.MethodPost {
			r.URL.RawQuery = ""
		}
		h.ServeHTTP(w, r)
	})
}

func TestLayouts(t *testing.T) {
	ctx := context.Background()
	for _, link := range []bool{false, true} {
		src, dst := openStore(t), openStore(t)
		a := newAssembly(t, src)
		c := newClient(t, Options{})
		dir := t.TempDir() + "/usb"
		report, err := c.Push(ctx, src, a.index, "oci:"+dir+":p-lite:0.1.0", PushOptions{Link: link})
		if err != nil || report.Moved != 9 {
			t.Fatalf("%+v, %v", report, err)
		}
		if link != (report.Bytes == 0) {
			t.Errorf("link %v: %d bytes copied", link, report.Bytes)
		}
		report, err = c.Push(ctx, src, a.index, "oci:"+dir+":p-lite:0.1.0", PushOptions{})
		if err != nil || report.Moved != 0 {
			t.Errorf("again: %+v, %v", report, err)
		}
		for _, ref := range []string{"oci:" + dir, "oci:" + dir + ":p-lite:0.1.0", "oci:" + dir + "@" + a.index.Digest.String()} {
			got, report, err := c.Pull(ctx, ref, dst, PullOptions{Verifier: a.verifier(t), Link: link})
			if err != nil || got.Digest != a.index.Digest || len(report.SignedBy) != 1 {
				t.Fatalf("%s: %+v, %v", ref, report, err)
			}
			whole(t, dst, got)
		}
		if names, err := c.Tags(ctx, "oci:"+dir); err != nil || !slices.Equal(names, []string{"p-lite:0.1.0"}) {
			t.Error(names, err)
		}
		if _, err := dst.Resolve(ctx, "p-lite:0.1.0"); err != nil {
			t.Error(err)
		}
	}
}

func TestNothingThere(t *testing.T) {
	ctx := context.Background()
	host := serve(t, inMemory(true))
	c := newClient(t, Options{})
	for _, ref := range []string{host + "/team/none:1", host + "/team/none@" + content.NewDescriptorFromBytes("", nil).Digest.String(), "oci:" + t.TempDir() + ":x"} {
		if _, _, err := c.Pull(ctx, ref, openStore(t), PullOptions{}); !errors.Is(err, errdef.ErrNotFound) {
			t.Errorf("pull %s: %v", ref, err)
		}
		if _, err := c.Resolve(ctx, ref); !errors.Is(err, errdef.ErrNotFound) {
			t.Errorf("resolve %s: %v", ref, err)
		}
	}
	if tags, err := c.Tags(ctx, host+"/team/none"); err != nil || tags != nil {
		t.Error(tags, err)
	}
	if _, _, err := c.Pull(ctx, host+"/team/none", openStore(t), PullOptions{}); !errors.Is(err, errdef.ErrMissingReference) {
		t.Error(err)
	}
}

func TestPushChecksItsTags(t *testing.T) {
	ctx := context.Background()
	host := serve(t, inMemory(true))
	src := openStore(t)
	a := newAssembly(t, src)
	other := pack(t, src, "other", layer(t, src, "x.onnx", "encoder", []byte("x")))
	c := newClient(t, Options{})
	_, err := c.Push(ctx, src, a.index, host+"/team/p-lite:1", PushOptions{Also: []registry.Tag{{Ref: "x", Descriptor: other}}})
	if !errors.Is(err, errdef.ErrInvalidReference) {
		t.Error(err)
	}
	_, err = c.Push(ctx, src, a.index, host+"/team/p-lite@"+other.Digest.String(), PushOptions{})
	if !errors.Is(err, errdef.ErrInvalidReference) {
		t.Error(err)
	}
}

func TestParseReference(t *testing.T) {
	d := content.NewDescriptorFromBytes("", []byte("x")).Digest
	for in, want := range map[string]Reference{
		"registry.example/team/p-lite:0.1.0": {Ref: abi.Ref{Host: "registry.example", Path: "team", Name: "p-lite", Tag: "0.1.0"}},
		"localhost:5000/p":                   {Ref: abi.Ref{Host: "localhost:5000", Name: "p"}},
		"[::1]:5000/p:1":                     {Ref: abi.Ref{Host: "[::1]:5000", Name: "p", Tag: "1"}},
		"registry.example/p@" + d.String():   {Ref: abi.Ref{Host: "registry.example", Name: "p", Digest: d.String()}},
		"oci:dist/p-lite":                    {Layout: "dist/p-lite"},
		"oci:dist/p-lite:p-lite:0.1.0":       {Layout: "dist/p-lite", Entry: "p-lite:0.1.0", Ref: abi.Ref{Name: "p-lite", Tag: "0.1.0"}},
		"oci:/abs/dir@" + d.String():         {Layout: "/abs/dir", Ref: abi.Ref{Digest: d.String()}},
		`oci:C:\dist\p-lite:0.1.0`:           {Layout: `C:\dist\p-lite`, Entry: "0.1.0", Ref: abi.Ref{Name: "0.1.0"}},
		"oci:dist:1.0.0+abc":                 {Layout: "dist", Entry: "1.0.0+abc"},
		"oci:.":                              {Layout: "."},
	} {
		got, err := ParseReference(in)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(in, err, diff)
		}
		if got.String() != in {
			t.Errorf("%s is spelt %s", in, got)
		}
	}
	for _, scheme := range []string{"oci://", "docker://", "https://"} {
		if _, err := ParseReference(scheme + "registry.example/p:1"); err == nil || !strings.Contains(err.Error(), "leave out "+scheme) {
			t.Errorf("%s: %v", scheme, err)
		}
	}
	for _, bad := range []string{" registry.example/p:1", "registry.example/p:1 ", "", "p", "p:1", "Registry/UPPER:1", "registry.example/p:", "registry.example/p@sha256:x", "oci:", "oci::x", "oci:dir:", "oci:dir@sha256:x", "registry.example/p@^1", "registry/p:1", d.String(), "registry.example/p@" + strings.ToUpper(d.String()), "registry.example/../x:1"} {
		if got, err := ParseReference(bad); !errors.Is(err, errdef.ErrInvalidReference) {
			t.Errorf("%q is read as %+v, %v", bad, got, err)
		}
	}
}

// versioned is the schema version of every manifest.
var versioned = specs.Versioned{SchemaVersion: 2}
