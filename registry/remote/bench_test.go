//go:build unix

package remote

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
	"mm-abi.org/mm/registry/registrytest"
)

// benchSize is the blob of the benchmarks, in bytes.
const benchSize = 1 << 30

// The benchmarks measure processes: a registry that discards data in one, the
// client in another, so that its processor time and memory are separate.
// BenchmarkPush and BenchmarkPull report processor seconds per GiB, the ratio
// to hashing the same file in the same run, the ratio to the simplest program
// that does the same (for a pull: GET, hash, write; for a push: one PUT), and
// the peak of resident memory.
func BenchmarkPush(b *testing.B) { benchmark(b, "push") }

// BenchmarkPull is the other way.
func BenchmarkPull(b *testing.B) { benchmark(b, "pull") }

func benchmark(b *testing.B, verb string) {
	if testing.Short() {
		b.Skip("skipped: -short")
	}
	dir := b.TempDir()
	file := filepath.Join(dir, "blob")
	f, err := os.Create(file)
	if err != nil {
		b.Fatal(err)
	}
	for i := range benchSize >> 24 {
		f.Write(noise(uint64(i), 1<<24))
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	server := child("serve", file, dir+"/addr")
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		server.Process.Kill()
		server.Wait()
	}()
	addr := ""
	for addr == "" {
		data, _ := os.ReadFile(dir + "/addr")
		addr = string(data)
		runtime.Gosched()
	}
	setup := child("setup", file, dir+"/store", addr)
	if out, err := setup.CombinedOutput(); err != nil {
		b.Fatal(string(out), err)
	}
	b.ResetTimer()
	var cpu, hash, plain float64
	var rss int64
	for n := range b.N {
		hash += run(b, child("hash", file)).cpu
		plain += run(b, child("plain", verb, file, dir+"/plain", addr)).cpu
		store := dir + "/store"
		if verb == "pull" {
			store = fmt.Sprint(dir, "/into", n)
		}
		u := run(b, child(verb, store, addr))
		cpu += u.cpu
		rss = max(rss, u.rss)
		if verb == "pull" {
			os.RemoveAll(store)
		}
	}
	b.ReportMetric(cpu/float64(b.N)/(benchSize>>30), "cpu-s/GiB")
	b.ReportMetric(cpu/hash, "x-sha256")
	b.ReportMetric(cpu/plain, "x-plain")
	b.ReportMetric(float64(rss)/(1<<20), "MiB-rss")
	b.SetBytes(benchSize)
}

// usage holds the resources that a process used.
type usage struct {
	cpu float64 // seconds
	rss int64   // peak, bytes
}

func run(b *testing.B, cmd *exec.Cmd) usage {
	b.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatal(string(out), err)
	}
	u := usage{cpu: (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()}
	fmt.Sscanf(string(out), "VmHWM: %d kB", &u.rss)
	u.rss <<= 10
	return u
}

// tellMemory prints the peak memory of this process as Linux counts it. (wait4
// includes the parent's peak from before exec.)
func tellMemory() {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmHWM:") {
			fmt.Print(line)
		}
	}
}

// child runs this binary as one of the processes.
func child(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestBenchChild$")
	cmd.Env = append(os.Environ(), "MM_BENCH="+strings.Join(args, "\n"))
	return cmd
}

// TestBenchChild runs the child processes of the benchmarks.
func TestBenchChild(t *testing.T) {
	args := strings.Split(os.Getenv("MM_BENCH"), "\n")
	switch args[0] {
	case "serve":
		benchServe(t, args[1], args[2])
	case "setup":
		benchSetup(t, args[1], args[2], args[3])
	case "plain":
		benchPlain(t, args[1], args[2], args[3], args[4])
	case "hash":
		f, err := os.Open(args[1])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := io.CopyBuffer(sha256.New(), struct{ io.Reader }{f}, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	case "push":
		benchMove(t, args[1], func(c *Client, s *registry.Store) error {
			desc, err := s.Resolve(context.Background(), "bench")
			if err != nil {
				return err
			}
			_, err = c.Push(context.Background(), s, desc, args[2]+"/x:1", PushOptions{})
			return err
		})
	case "pull":
		benchMove(t, args[1], func(c *Client, s *registry.Store) error {
			_, _, err := c.Pull(context.Background(), args[2]+"/x:1", s, PullOptions{})
			return err
		})
	default:
		t.Skip("skipped: a part of the benchmarks")
	}
}

func benchMove(t *testing.T, dir string, move func(*Client, *registry.Store) error) {
	s, err := registry.Open(dir, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	chunk, _ := strconv.ParseInt(os.Getenv("MM_BENCH_CHUNK"), 10, 64)
	if err := move(newClient(t, Options{Chunk: chunk}), s); err != nil {
		t.Fatal(err)
	}
	tellMemory()
}

// benchPlain moves the file without a store, a digest or a second thought.
func benchPlain(t *testing.T, verb, file, to, addr string) {
	if verb == "push" {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		req, _ := http.NewRequest(http.MethodPatch, "http://"+addr+"/v2/x/blobs/uploads/plain", struct{ io.ReadCloser }{f})
		req.ContentLength = benchSize
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return
	}
	resp, err := http.Get("http://" + addr + "/v2/x/blobs/sha256:plain")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	f, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(to)
	defer f.Close()
	if _, err := io.Copy(io.MultiWriter(f, sha256.New()), resp.Body); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

func benchSetup(t *testing.T, file, dir, addr string) {
	s, err := registry.Open(dir, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := s.AddFile(context.Background(), file, cas.AddOptions{MediaType: "application/octet-stream", Link: true})
	if err != nil {
		t.Fatal(err)
	}
	desc := pack(t, s, "bench", artifact.Layer{Path: "core-llm.gguf", Descriptor: d})
	if err := s.Tag(context.Background(), desc, "bench"); err != nil {
		t.Fatal(err)
	}
	if _, err := newClient(t, Options{}).Push(context.Background(), s, desc, addr+"/x:1", PushOptions{}); err != nil {
		t.Fatal(err)
	}
}

// benchServe is a registry that throws uploads away, serves one file for every
// large blob, and remembers the manifest.
func benchServe(t *testing.T, file, addrFile string) {
	s := registrytest.New()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		large := strings.Contains(r.URL.Path, "/blobs/sha256:")
		s.Mu.Lock()
		_, small := s.Blobs[digest.Digest(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])]
		s.Mu.Unlock()
		switch {
		case large && !small && r.Method == http.MethodGet:
			http.ServeFile(w, r, file)
		case strings.Contains(r.URL.Path, "/manifests/") && r.Method == http.MethodHead:
			w.WriteHeader(http.StatusNotFound) // everything is always new
		case r.Method == http.MethodPatch:
			n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, make([]byte, 1<<20))
			var first int64
			fmt.Sscanf(r.Header.Get("Content-Range"), "%d-", &first)
			w.Header().Set("Location", r.URL.Path)
			w.Header().Set("Range", fmt.Sprintf("0-%d", first+n-1))
			w.WriteHeader(http.StatusAccepted)
		case r.Method == http.MethodPut && r.ContentLength == 0:
			w.WriteHeader(http.StatusCreated)
		case large && !small:
			w.WriteHeader(http.StatusNotFound)
		default:
			s.ServeHTTP(w, r)
		}
	})
	if err := os.WriteFile(addrFile+".part", []byte(serve(t, h)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(addrFile+".part", addrFile); err != nil {
		t.Fatal(err)
	}
	select {} // until killed
}
