package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/registrytest"
)

// roundTrip pushes an artifact of 2.3 MiB in chunks of 256 KiB, pulls it into
// an empty store and checks it. It returns the two reports.
func roundTrip(t *testing.T, host string, opt Options) (pushed, pulled Report) {
	t.Helper()
	ctx := context.Background()
	src, dst := openStore(t), openStore(t)
	desc := pack(t, src, "p-lite", layer(t, src, "core-llm.gguf", "core", noise(2, 2<<20)), layer(t, src, "vision-enc.onnx", "encoder", noise(1, 300<<10)))
	opt.Chunk = 256 << 10
	c := newClient(t, opt)
	pushed, err := c.Push(ctx, src, desc, host+"/team/p-lite:1", PushOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, pulled, err := c.Pull(ctx, host+"/team/p-lite:1", dst, PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest != desc.Digest {
		t.Errorf("pulled %s, pushed %s", got.Digest, desc.Digest)
	}
	whole(t, dst, got)
	return pushed, pulled
}

// every returns a counter that is true on each nth call.
func every(n int64) func() bool {
	var calls atomic.Int64
	return func() bool { return calls.Add(1)%n == 0 }
}

func TestStatusesThatPass(t *testing.T) {
	t.Parallel()
	for _, code := range []int{408, 429, 500, 502, 503, 504} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			t.Parallel()
			s := registrytest.New()
			fifth := every(5)
			var faults atomic.Int64
			s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
				if !fifth() {
					return false
				}
				faults.Add(1)
				w.WriteHeader(code)
				return true
			}
			roundTrip(t, serve(t, s), Options{Parallel: 1})
			if n := faults.Load(); n < 6 {
				t.Errorf("only %d faults", n)
			}
		})
	}
}

func TestThreeInARowPassSixDoNot(t *testing.T) {
	for _, inARow := range []int{3, 6} {
		s := registrytest.New()
		desc := s.Add("", noise(1, 100))
		desc.MediaType = abi.MediaWeight
		var calls atomic.Int64
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/blobs/") && calls.Add(1) <= int64(inARow) {
				w.WriteHeader(http.StatusInternalServerError)
				return true
			}
			return false
		}
		c := newClient(t, Options{})
		d := &download{r: c.repository(Reference{Ref: abi.Ref{Host: serve(t, s), Name: "x"}}), desc: desc, dst: openStore(t), tally: &tally{}}
		err := d.run(context.Background())
		if inARow == 3 && err != nil || inARow == 6 && status(err) != 500 {
			t.Errorf("%d failures: %v", inARow, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	s := registrytest.New()
	var first atomic.Bool
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if first.Swap(true) {
			return false
		}
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	begin := time.Now()
	roundTrip(t, serve(t, s), Options{Parallel: 1})
	if took := time.Since(begin); took < time.Second {
		t.Errorf("went on after %s", took)
	}

	// Too long a wait is reported immediately.
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Retry-After", "86400")
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	begin = time.Now()
	_, err := newClient(t, Options{}).Resolve(context.Background(), serve(t, s)+"/x:1")
	if status(err) != http.StatusServiceUnavailable || time.Since(begin) > 10*time.Second {
		t.Errorf("%v after %s", err, time.Since(begin))
	}
}

// oneBlob pulls a manifest with one layer of n bytes from a scripted registry.
func oneBlob(t *testing.T, s *registrytest.Registry, n int) (layer ocispec.Descriptor, pull func(opt Options) (*registry.Store, Report, error)) {
	t.Helper()
	layer = s.Add("", noise(9, n))
	layer.MediaType = "application/octet-stream"
	config := s.Add("", []byte(`{}`))
	config.MediaType = ocispec.MediaTypeEmptyJSON
	root := s.AddJSON(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: []ocispec.Descriptor{layer}, Versioned: versioned,
	})
	s.Tags["x:1"] = root.Digest
	return layer, func(opt Options) (*registry.Store, Report, error) {
		dst := openStore(t)
		_, report, err := newClient(t, opt).Pull(context.Background(), serve(t, s)+"/x:1", dst, PullOptions{})
		return dst, report, err
	}
}

// cutBody answers a blob request with a body that ends after n bytes.
func cutBody(s *registrytest.Registry, w http.ResponseWriter, r *http.Request, n int) {
	s.ServeBlob(&limited{ResponseWriter: w, left: n}, r, digestOf(r))
	panic(http.ErrAbortHandler)
}

// limited passes on the first bytes of a body.
type limited struct {
	http.ResponseWriter
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n, err := l.ResponseWriter.Write(p[:min(len(p), l.left)])
	l.left -= n
	if err == nil {
		n = len(p)
	}
	l.ResponseWriter.(http.Flusher).Flush()
	return n, err
}

func TestShortBodiesGoOn(t *testing.T) {
	const size, piece = 1 << 20, 100_000
	for _, noRange := range []bool{false, true} {
		s := registrytest.New()
		s.NoRange = noRange
		layer, pull := oneBlob(t, s, size)
		var cuts atomic.Int64
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet && digestOf(r) == layer.Digest && cuts.Add(1) <= 5 {
				cutBody(s, w, r, piece)
			}
			return false
		}
		dst, report, err := pull(Options{})
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := dst.Exists(context.Background(), layer); !ok || err != nil {
			t.Error(ok, err)
		}
		again := report.Bytes - size - 2 // the config is {}
		if noRange && again != 5*piece || !noRange && again != 0 {
			t.Errorf("no Range %v: %d bytes fetched twice", noRange, again)
		}
	}
}

func TestWrongBytesStayInvisible(t *testing.T) {
	const size = 1 << 20
	for name, answer := range map[string]func(s *registrytest.Registry, w http.ResponseWriter, r *http.Request){
		"other bytes": func(s *registrytest.Registry, w http.ResponseWriter, r *http.Request) { w.Write(noise(8, size)) },
		"longer":      func(s *registrytest.Registry, w http.ResponseWriter, r *http.Request) { w.Write(noise(9, size+1)) },
		"endless": func(s *registrytest.Registry, w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				w.Write(noise(9, size))
			}
		},
		"always short": func(s *registrytest.Registry, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(size))
			panic(http.ErrAbortHandler)
		},
		"too long a length": func(s *registrytest.Registry, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(size+1))
			w.Write(noise(9, 100))
		},
		"another range": func(s *registrytest.Registry, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 5-%d/%d", size-1, size))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(noise(9, size-5))
		},
		"gone": func(s *registrytest.Registry, w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusNotFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := registrytest.New()
			layer, pull := oneBlob(t, s, size)
			var asked atomic.Int64
			var honest atomic.Bool
			s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet || digestOf(r) != layer.Digest || honest.Load() {
					return false
				}
				asked.Add(1)
				answer(s, w, r)
				return true
			}
			dst, _, err := pull(Options{})
			if err == nil {
				t.Fatal("it was pulled")
			}
			t.Log(err)
			if ok, _ := dst.Exists(context.Background(), layer); ok || asked.Load() > 2*(defaultRetries+1) { // net/http repeats a GET by itself
				t.Errorf("in the store %v, %d requests", ok, asked.Load())
			}
			if tags, _ := dst.Tags(context.Background()); len(tags) > 0 {
				t.Errorf("tagged %v", tags)
			}
			honest.Store(true) // the store is not damaged
			if _, _, err := newClient(t, Options{}).Pull(context.Background(), serve(t, s)+"/x:1", dst, PullOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStalls(t *testing.T) {
	t.Parallel()
	const stall = 150 * time.Millisecond
	t.Run("answer", func(t *testing.T) {
		s := registrytest.New()
		layer, pull := oneBlob(t, s, 1<<20)
		var hung atomic.Int64
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || digestOf(r) != layer.Digest {
				return false
			}
			if n := hung.Add(1); n <= 2 {
				if n == 2 { // the first response is empty
					s.ServeBlob(&limited{ResponseWriter: w, left: 1000}, r, layer.Digest)
				}
				<-r.Context().Done()
				return true
			}
			return false
		}
		begin := time.Now()
		if _, _, err := pull(Options{Stall: stall}); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); hung.Load() < 3 || took < 2*stall {
			t.Errorf("%d requests in %s", hung.Load(), took)
		}
	})
	t.Run("for ever", func(t *testing.T) {
		s := registrytest.New()
		layer, pull := oneBlob(t, s, 1<<20)
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if digestOf(r) == layer.Digest {
				<-r.Context().Done()
				return true
			}
			return false
		}
		begin := time.Now()
		if _, _, err := pull(Options{Stall: stall, Retries: 2}); !errors.Is(err, ErrStalled) {
			t.Error(err)
		}
		if took := time.Since(begin); took > 40*stall {
			t.Errorf("gave up after %s", took)
		}
	})
	t.Run("upload", func(t *testing.T) {
		s := registrytest.New()
		var patches atomic.Int64
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPatch && patches.Add(1) <= 2 {
				buf := make([]byte, 1000)
				r.Body.Read(buf) // and not a byte more
				time.Sleep(3 * stall)
				panic(http.ErrAbortHandler)
			}
			return false
		}
		roundTrip(t, serve(t, s), Options{Stall: stall, Parallel: 1})
		if patches.Load() < 3 {
			t.Errorf("%d requests", patches.Load())
		}
	})
}

// TestTagMovesMeanwhile moves the tag to another artifact after the first
// request.
func TestTagMovesMeanwhile(t *testing.T) {
	s := registrytest.New()
	_, pull := oneBlob(t, s, 1000)
	first := s.Tags["x:1"]
	config := s.Add("", []byte(`{}`))
	config.MediaType = ocispec.MediaTypeEmptyJSON
	other := s.AddJSON(ocispec.MediaTypeImageManifest, ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: config, Versioned: versioned, Annotations: map[string]string{"evil": "yes"}})
	var asked atomic.Int64
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/manifests/1") && asked.Add(1) > 1 {
			s.Mu.Lock()
			s.Tags["x:1"] = other.Digest
			s.Mu.Unlock()
		}
		return false
	}
	dst, report, err := pull(Options{})
	if err != nil || asked.Load() != 1 {
		t.Fatalf("%d requests, %v", asked.Load(), err)
	}
	if d, err := dst.Resolve(context.Background(), report.Tags[0]); err != nil || d.Digest != first {
		t.Error(d.Digest, err)
	}
}

func TestCancelled(t *testing.T) {
	s := registrytest.New()
	layer, _ := oneBlob(t, s, 1<<20)
	ctx, cancel := context.WithCancel(context.Background())
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if digestOf(r) == layer.Digest {
			cancel()
			<-r.Context().Done()
			return true
		}
		return false
	}
	begin := time.Now()
	_, _, err := newClient(t, Options{}).Pull(ctx, serve(t, s)+"/x:1", openStore(t), PullOptions{})
	if !errors.Is(err, context.Canceled) || time.Since(begin) > 5*time.Second {
		t.Errorf("%v after %s", err, time.Since(begin))
	}
}

func TestRegistriesThatTakeNoChunks(t *testing.T) {
	s := registrytest.New()
	s.NoPatch = true
	var patches atomic.Int64
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			patches.Add(1)
		}
		return false
	}
	pushed, _ := roundTrip(t, serve(t, s), Options{Parallel: 1})
	if n := patches.Load(); n != 1 {
		t.Errorf("%d PATCH requests to a registry that refused the first", n)
	}
	if extra := pushed.Bytes - s.Received; extra > 1<<20 {
		t.Errorf("%d bytes sent for nothing", extra)
	}
}

func TestProxiesThatTakeNoLargeBodies(t *testing.T) {
	s := registrytest.New()
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.ContentLength > 300<<10 {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return true
		}
		return false
	}
	ctx := context.Background()
	src := openStore(t)
	desc := pack(t, src, "p-lite", layer(t, src, "core-llm.gguf", "core", noise(2, 2<<20)))
	c := newClient(t, Options{Chunk: 1 << 20})
	if _, err := c.Push(ctx, src, desc, serve(t, s)+"/x:1", PushOptions{}); err != nil {
		t.Error(err)
	}
}

func TestSessionsGetLost(t *testing.T) {
	s := registrytest.New()
	var lost atomic.Int64
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && strings.HasPrefix(r.Header.Get("Content-Range"), "524288-") && lost.Add(1) <= 3 {
			s.Mu.Lock()
			clear(s.Sessions)
			s.Sessions["none"], s.Sessions["left"], s.Sessions["over"] = nil, nil, nil
			s.Mu.Unlock()
		}
		return false
	}
	roundTrip(t, serve(t, s), Options{Parallel: 1})
	if lost.Load() != 4 {
		t.Errorf("lost %d sessions", lost.Load()-1)
	}
}

// TestReferrersAtOnce has many clients attach signatures to one manifest of a
// registry that keeps referrers in a tag, where the last writer wins.
func TestReferrersAtOnce(t *testing.T) {
	ctx := context.Background()
	host := serve(t, inMemory(false))
	const clients = 6
	stores := make([]*registry.Store, clients)
	var subject ocispec.Descriptor
	for i := range stores {
		stores[i] = openStore(t)
		subject = pack(t, stores[i], "p-lite", layer(t, stores[i], "core-llm.gguf", "core", noise(2, 1000)))
		if _, err := signWith(t, stores[i], subject); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := newClient(t, Options{}).Push(ctx, stores[0], subject, host+"/x:1", PushOptions{}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	failed := atomic.Int64{}
	for _, s := range stores {
		c := newClient(t, Options{})
		c.backoff.base = 20 * time.Millisecond
		wg.Go(func() {
			if _, err := c.Push(ctx, s, subject, host+"/x:1", PushOptions{}); err != nil {
				t.Log(err)
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	list, err := newClient(t, Options{}).Referrers(ctx, host+"/x", subject, "")
	if err != nil {
		t.Fatal(err)
	}
	// A slower client may overwrite the list after another one succeeded; but
	// most must be listed, and no client succeeds while it is not listed.
	t.Logf("%d of %d listed, %d told so", len(list), clients, failed.Load())
	if len(list) < clients/2 {
		t.Errorf("%d of %d signatures are listed", len(list), clients)
	}
}

// TestPushOfADamagedBlob pushes a blob that is damaged in the store.
func TestPushOfADamagedBlob(t *testing.T) {
	registries(t, func(t *testing.T, host string, seen *requests) {
		ctx := context.Background()
		src := openStore(t)
		core := layer(t, src, "core-llm.gguf", "core", noise(2, 1<<20))
		desc := pack(t, src, "p-lite", core)
		path := src.BlobPath(core.Descriptor)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, noise(3, 1<<20), 0o444); err != nil {
			t.Fatal(err)
		}
		c := newClient(t, Options{Chunk: 256 << 10})
		_, err := c.Push(ctx, src, desc, host+"/x:1", PushOptions{})
		if err == nil {
			t.Fatal("it was pushed")
		}
		t.Log(err)
		if tags, err := c.Tags(ctx, host+"/x"); err != nil || len(tags) > 0 {
			t.Error(tags, err)
		}
	})
}
