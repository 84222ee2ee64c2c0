package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/registrytest"
	"mm-abi.org/mm/registry/server"
	"mm-abi.org/mm/registry/sign"
)

// hang attaches a manifest to subject in a store: junk, by artifactType or
// bytes.
func hang(t *testing.T, s *registry.Store, subject ocispec.Descriptor, artifactType string, bundle []byte, notes map[string]string) {
	t.Helper()
	ctx := context.Background()
	layer, err := s.AddBytes(ctx, sign.BundleMediaType, bundle)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddBytes(ctx, ocispec.MediaTypeEmptyJSON, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: artifactType,
		Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{layer}, Annotations: notes,
		Subject: &ocispec.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size}}
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	desc := ocispec.Descriptor{MediaType: m.MediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	if err := s.Push(ctx, desc, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
}

// TestJunkReferrersStayOut pulls a signed artifact with junk referrers.
func TestJunkReferrersStayOut(t *testing.T) {
	ctx := context.Background()
	there, dst := openStore(t), openStore(t)
	a := newAssembly(t, there)
	for i := range 40 {
		hang(t, there, a.index, sign.BundleMediaType, fmt.Appendf(nil, "junk %d", i), map[string]string{"dev.sigstore.bundle.predicateType": sign.ReleaseType})
	}
	hang(t, there, a.index, sign.BundleMediaType, noise(3, maxBundle+1), nil)
	hang(t, there, a.index, sign.BundleMediaType, []byte("x"), map[string]string{"pad": strings.Repeat("x", maxReferrer)})
	if err := there.Tag(ctx, a.index, "x:1"); err != nil {
		t.Fatal(err)
	}
	h, err := server.New(there, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, report, err := newClient(t, Options{}).Pull(ctx, serve(t, h)+"/x:1", dst, PullOptions{Verifier: a.verifier(t)})
	if err != nil {
		t.Fatal(err)
	}
	if report.Referrers != 3 {
		t.Errorf("%d referrers came along, want the 3 signatures", report.Referrers)
	}
	kept, err := dst.Referrers(ctx, a.index, "")
	if err != nil || len(kept) != 1 {
		t.Errorf("%d referrers of the index in the store, %v", len(kept), err)
	}

	// Without a voucher only a few are kept.
	dst = openStore(t)
	_, report, err = newClient(t, Options{}).Pull(ctx, serve(t, h)+"/x:1", dst, PullOptions{})
	if err != nil || report.Referrers > maxKeptUnvouched+2 {
		t.Errorf("%d referrers unverified, %v", report.Referrers, err)
	}
	// And whom the caller chooses.
	dst = openStore(t)
	_, report, err = newClient(t, Options{}).Pull(ctx, serve(t, h)+"/x:1", dst, PullOptions{Keep: func(context.Context, content.Fetcher, ocispec.Descriptor, ocispec.Descriptor) (bool, error) {
		return false, nil
	}})
	if err != nil || report.Referrers != 0 {
		t.Errorf("%d referrers , want fewer, %v", report.Referrers, err)
	}
}

// TestHostileManifestsCostNoLayers: faults of manifests are reported before
// any layer is requested.
func TestHostileManifestsCostNoLayers(t *testing.T) {
	for name, change := range map[string]func(m *ocispec.Manifest){
		"path": func(m *ocispec.Manifest) {
			m.Layers[0].Annotations[abi.AnnotationFilepath] = "../../x"
			m.Layers[0].Annotations[ocispec.AnnotationTitle] = "../../x"
		},
		"git": func(m *ocispec.Manifest) {
			m.Layers[0].Annotations[abi.AnnotationFilepath] = ".git/hooks/x"
			m.Layers[0].Annotations[ocispec.AnnotationTitle] = ".git/hooks/x"
		},
		"tar":     func(m *ocispec.Manifest) { m.Layers[0].MediaType = "application/vnd.cncf.model.weight.v1.tar" },
		"modelfs": func(m *ocispec.Manifest) { m.Layers = append(m.Layers, m.Layers[0]) },
		"abi":     func(m *ocispec.Manifest) { m.Annotations[abi.AnnotationABI] = "mm-abi-9.0" },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			src := openStore(t)
			desc := pack(t, src, "p-lite", layer(t, src, "core.gguf", "core", noise(1, 1<<20)))
			data, err := content.FetchAll(ctx, src, desc)
			if err != nil {
				t.Fatal(err)
			}
			var m ocispec.Manifest
			if err := json.Unmarshal(data, &m); err != nil {
				t.Fatal(err)
			}
			s := registrytest.New()
			for _, d := range append([]ocispec.Descriptor{m.Config}, m.Layers...) {
				blob, err := content.FetchAll(ctx, src, d)
				if err != nil {
					t.Fatal(err)
				}
				s.Add("", blob)
			}
			change(&m)
			s.Tags["p-lite:1"] = s.AddJSON(m.MediaType, m).Digest
			var asked atomic.Int64
			s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
				if digestOf(r) == m.Layers[0].Digest {
					asked.Add(1)
				}
				return false
			}
			dst := openStore(t)
			_, _, err = newClient(t, Options{}).Pull(ctx, serve(t, s)+"/p-lite:1", dst, PullOptions{})
			want := artifact.ErrManifest
			if name == "abi" {
				want = artifact.ErrABI
			}
			if !errors.Is(err, want) || asked.Load() != 0 {
				t.Errorf("%v, want %v; %d requests for the layer", err, want, asked.Load())
			}
			if r, err := dst.Fsck(ctx, registry.FsckOptions{}); err != nil || r.Blobs+r.Temp != 0 {
				t.Errorf("left behind: %+v, %v", r, err)
			}
		})
	}
	t.Run("hook", func(t *testing.T) {
		s := registrytest.New()
		layer, _ := oneBlob(t, s, 1<<20)
		s.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
			if digestOf(r) == layer.Digest {
				t.Error("the layer was asked for")
			}
			return false
		}
		no := errors.New("no")
		_, _, err := newClient(t, Options{}).Pull(context.Background(), serve(t, s)+"/x:1", openStore(t), PullOptions{
			Admit: func(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor) error {
				if _, err := content.FetchAll(ctx, src, desc); err != nil {
					t.Error(err)
				}
				return no
			}})
		if !errors.Is(err, no) {
			t.Error(err)
		}
	})
}

// TestPushResumesInAnotherProcess breaks a push off, and pushes again with
// another client and another handle on the store.
func TestPushResumesInAnotherProcess(t *testing.T) {
	s := registrytest.New()
	dir := t.TempDir()
	src, err := registry.Open(dir, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const size = 4 << 20
	desc := pack(t, src, "p-lite", layer(t, src, "core.gguf", "core", noise(2, size)))
	host := serve(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	var patches atomic.Int64
	s.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && patches.Add(1) == 9 {
			cancel()
			panic(http.ErrAbortHandler)
		}
		return false
	}
	opt := Options{Chunk: 256 << 10, Parallel: 1}
	if _, err := newClient(t, opt).Push(ctx, src, desc, host+"/x:1", PushOptions{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	src.Close()
	before := s.Received
	if src, err = registry.Open(dir, registry.Options{}); err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	s.Fault = nil
	if _, err := newClient(t, opt).Push(context.Background(), src, desc, host+"/x:1", PushOptions{}); err != nil {
		t.Fatal(err)
	}
	if again := s.Received - before; before < 2<<20 || again > size-before+(300<<10) {
		t.Errorf("%d bytes, then %d of %d", before, again, size)
	}
	if len(s.Sessions) != 0 {
		t.Errorf("%d sessions left at the registry", len(s.Sessions))
	}
	left, err := filepath.Glob(filepath.Join(dir, ".mm/upload-out/*"))
	if err != nil || len(left) != 0 {
		t.Errorf("remembered for nothing: %v, %v", left, err)
	}
}

// TestForgottenSession: the registry has meanwhile dropped the session.
func TestForgottenSession(t *testing.T) {
	s := registrytest.New()
	src := openStore(t)
	desc := pack(t, src, "p-lite", layer(t, src, "core.gguf", "core", noise(2, 1<<20)))
	host := serve(t, s)
	a, err := artifact.Read(context.Background(), src, desc)
	if err != nil {
		t.Fatal(err)
	}
	d := a.Layers[0].Descriptor.Digest
	for _, at := range []string{"http://" + host + "/v2/x/blobs/uploads/gone", "file:///etc/passwd", "://", "http://" + host + "/v2/x/blobs/uploads/gone2"} {
		o, err := src.Outgoing(context.Background(), host+"/x", d)
		if err == nil {
			err = errors.Join(o.Save(host+"/x", d, at), o.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Mu.Lock()
		delete(s.Blobs, d)
		s.Mu.Unlock()
		if _, err := newClient(t, Options{Chunk: 256 << 10}).Push(context.Background(), src, desc, host+"/x:1", PushOptions{}); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// TestPushLooksBelowTheRoot: a registry that has the manifest but lost a blob
// gets the blob.
func TestPushLooksBelowTheRoot(t *testing.T) {
	s := registrytest.New()
	src := openStore(t)
	desc := pack(t, src, "p-lite", layer(t, src, "core.gguf", "core", noise(2, 1000)))
	host := serve(t, s)
	for range 2 {
		if _, err := newClient(t, Options{}).Push(context.Background(), src, desc, host+"/x:1", PushOptions{}); err != nil {
			t.Fatal(err)
		}
		a, err := artifact.Read(context.Background(), src, desc)
		if err != nil {
			t.Fatal(err)
		}
		d := a.Layers[0].Descriptor.Digest
		s.Mu.Lock()
		if len(s.Blobs[d]) != 1000 {
			t.Errorf("the registry has %d bytes of the layer", len(s.Blobs[d]))
		}
		delete(s.Blobs, d)
		s.Mu.Unlock()
	}
}

// TestAcknowledgingLittle: a registry that accepts one byte of each chunk
// makes the push fail, before the blob was sent many times.
func TestAcknowledgingLittle(t *testing.T) {
	t.Parallel()
	var have, received atomic.Int64
	host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		received.Add(n)
		w.Header().Set("Location", "/v2/x/blobs/uploads/1")
		switch r.Method {
		case http.MethodHead:
			w.WriteHeader(http.StatusNotFound)
		case http.MethodPatch:
			w.Header().Set("Range", fmt.Sprintf("0-%d", have.Add(1)))
			w.WriteHeader(http.StatusAccepted)
		case http.MethodGet:
			w.Header().Set("Range", fmt.Sprintf("0-%d", have.Load()))
			w.WriteHeader(http.StatusNoContent)
		case http.MethodPut:
			w.WriteHeader(http.StatusCreated)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	src := openStore(t)
	desc := pack(t, src, "p-lite", layer(t, src, "core.gguf", "core", noise(2, 2<<20)))
	c := newClient(t, Options{Chunk: 256 << 10, Retries: 2})
	if _, err := c.Push(context.Background(), src, desc, host+"/x:1", PushOptions{}); !errors.Is(err, errSession) {
		t.Errorf("%v", err)
	}
	if received.Load() > 4<<20 {
		t.Errorf("%d bytes sent for a blob of 2 MiB", received.Load())
	}
}

// TestTricklingAnswers: an endless response is given up, after a notice to the
// user.
func TestTricklingAnswers(t *testing.T) {
	t.Parallel()
	trickle := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		for r.Context().Err() == nil {
			w.Write([]byte{'x'})
			w.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond)
		}
	}
	s := registrytest.New()
	blob, pull := oneBlob(t, s, 1<<20)
	for what, match := range map[string]func(r *http.Request) bool{
		"blob":     func(r *http.Request) bool { return digestOf(r) == blob.Digest },
		"manifest": func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/manifests/") },
	} {
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if match(r) {
				if what == "manifest" {
					w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
					w.Header().Set("Content-Length", "4000000")
				}
				trickle(w, r)
				return true
			}
			return false
		}
		begin := time.Now()
		_, _, err := pull(Options{Stall: 150 * time.Millisecond, Retries: 1})
		if err == nil || time.Since(begin) > 10*time.Second {
			t.Errorf("%s: %v after %s", what, err, time.Since(begin))
		}
		begin = time.Now()
		_, _, err = pull(Options{Timeout: 200 * time.Millisecond, MinRate: -1})
		if !errors.Is(err, ErrTimeout) || time.Since(begin) > 5*time.Second {
			t.Errorf("%s: %v after %s, want %v", what, err, time.Since(begin), ErrTimeout)
		}
	}
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Retry-After", "50")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	for timeout := 300 * time.Millisecond; ; timeout *= 4 { // a machine may be busy until it is over
		var mu sync.Mutex
		var told []string
		begin := time.Now()
		_, _, err := pull(Options{Timeout: timeout, Progress: func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == Waiting {
				told = append(told, e.Err.Error())
			}
		}})
		took := time.Since(begin)
		mu.Lock()
		heard := told
		mu.Unlock()
		if len(heard) == 0 && timeout < 10*time.Second {
			continue
		}
		if !errors.Is(err, ErrTimeout) || took > timeout+5*time.Second || len(heard) == 0 || !strings.Contains(heard[0], "429") {
			t.Errorf("%v after %s, told %q", err, took, heard)
		}
		return
	}
}

// TestLocalFaultsAreNotTriedAgain: no registry mends a full disk.
func TestLocalFaultsAreNotTriedAgain(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EROFS, syscall.EACCES, syscall.EIO, syscall.EMFILE} {
		for _, err := range []error{
			&fs.PathError{Op: "write", Path: "x", Err: errno}, fmt.Errorf("take in: %w", errno), os.NewSyscallError("write", errno),
			&net.OpError{Op: "dial", Err: os.NewSyscallError("socket", errno)},
		} {
			if temporary(err) {
				t.Errorf("%v passes for a fault of the network", err)
			}
		}
	}
	for _, err := range []error{
		&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, io.ErrUnexpectedEOF, ErrStalled,
		&net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}, &net.DNSError{IsTimeout: true},
	} {
		if !temporary(err) {
			t.Errorf("%v is not tried again", err)
		}
	}
}

// TestInterruptedWait: Ctrl-C in the pause before another try is an interruption.
func TestInterruptedWait(t *testing.T) {
	s := registrytest.New()
	blob, _ := oneBlob(t, s, 1<<20)
	ctx, cancel := context.WithCancel(context.Background())
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if digestOf(r) != blob.Digest {
			return false
		}
		time.AfterFunc(50*time.Millisecond, cancel)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	c := newClient(t, Options{})
	c.backoff.base = time.Minute
	_, _, err := c.Pull(ctx, serve(t, s)+"/x:1", openStore(t), PullOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

// TestForeignWordsAreClean: a registry's text cannot control the terminal.
func TestForeignWordsAreClean(t *testing.T) {
	host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"errors":[{"code":"DENIED","message":"\u001b[2J\u0007\r\nmm: ok \u202e"}]}`)
	}))
	c := newClient(t, Options{})
	_, err := c.Resolve(context.Background(), host+"/x:1")
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\x07\r\n\u202e") || !strings.Contains(err.Error(), `\x1b[2J\x07\r\nmm: ok \u202e`) {
		t.Errorf("%q", err)
	}
	if status(err) != http.StatusForbidden {
		t.Errorf("status %d", status(err))
	}
}

// TestCAFile uses TLS with a local registry whose certificate is from a
// private authority.
func TestCAFile(t *testing.T) {
	srv := httptest.NewTLSServer(own(t))
	defer srv.Close()
	host := strings.TrimPrefix(srv.URL, "https://")
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pemOf(srv.Certificate().Raw), 0o644); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, host, Options{TLSLoopback: true, CAFile: file})
	if err := os.WriteFile(file, append([]byte("\ufeff"), pemOf(srv.Certificate().Raw)...), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := newClient(t, Options{TLSLoopback: true, CAFile: file}).Tags(t.Context(), host+"/none"); err != nil {
		t.Errorf("certificates after a byte order mark: %v", err)
	}
	if err := os.WriteFile(file, []byte("none"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{CAFile: file}); err == nil {
		t.Error("a file without certificates taken")
	}
}

func pemOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
