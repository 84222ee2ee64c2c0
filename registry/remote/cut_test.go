package remote

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/registrytest"
)

// cutter is a TCP proxy that cuts connections after so many bytes in one
// direction.
type cutter struct {
	net.Listener
	to         string
	up         bool // count sent bytes, not received ones
	budget     atomic.Int64
	cuts, left atomic.Int64 // so far; remaining
	next       func() int64 // bytes until the next cut
	wg         sync.WaitGroup
	conns      sync.Map
}

// cut starts a proxy to the server at host that cuts n connections.
func cut(t *testing.T, host string, up bool, n int64, next func() int64) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l, to: host, up: up, next: next}
	c.left.Store(n)
	c.budget.Store(next())
	c.wg.Go(c.accept)
	t.Cleanup(func() {
		l.Close()
		c.conns.Range(func(conn, _ any) bool { return conn.(net.Conn).Close() == nil || true })
		c.wg.Wait()
	})
	return c
}

func (c *cutter) accept() {
	for {
		client, err := c.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.to)
		if err != nil {
			client.Close()
			continue
		}
		c.conns.Store(client, nil)
		c.conns.Store(server, nil)
		c.wg.Go(func() { c.pipe(server, client, c.up) })
		c.wg.Go(func() { c.pipe(client, server, !c.up) })
	}
}

// pipe copies until one side closes or the budget is spent.
func (c *cutter) pipe(dst, src net.Conn, counted bool) {
	defer dst.Close()
	defer src.Close()
	buf := make([]byte, 8<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
		if counted && c.left.Load() > 0 && c.budget.Add(-int64(n)) <= 0 {
			c.left.Add(-1)
			c.cuts.Add(1)
			c.budget.Store(c.next())
			dst.(*net.TCPConn).SetLinger(0) // a reset, not an orderly end
			src.(*net.TCPConn).SetLinger(0)
			return
		}
	}
}

// TestCuts drops the connection at many points of a push and of a pull, and
// counts the bytes sent twice.
func TestCuts(t *testing.T) {
	scripted, served := int64(80), int64(30)
	if testing.Short() {
		scripted, served = 20, 8
	}
	t.Run("scripted", func(t *testing.T) {
		t.Parallel()
		cuts(t, serve(t, registrytest.New()), scripted, scripted*320<<10)
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		cuts(t, serve(t, own(t)), served, served*320<<10)
	})
}

func cuts(t *testing.T, host string, cuts, size int64) {
	const chunk = 1 << 20
	ctx := context.Background()
	src := openStore(t)
	desc := pack(t, src, "p-lite", layer(t, src, "core-llm.gguf", "core", noise(2, int(size))))
	r := rand.New(rand.NewPCG(1, 1))
	var mu sync.Mutex
	next := func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return 50<<10 + r.Int64N(500<<10)
	}

	up := cut(t, host, true, cuts, next)
	pusher := newClient(t, Options{Chunk: chunk})
	pusher.backoff.base = 5 * time.Millisecond
	pushed, err := pusher.Push(ctx, src, desc, up.Addr().String()+"/x:1", PushOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Bytes counts the bytes written to the connection, lost or not.
	if n, twice := up.cuts.Load(), pushed.Bytes-size; n < cuts/2 || twice > n*chunk {
		t.Errorf("push: %d cuts, %d bytes sent twice", n, twice)
	} else {
		t.Logf("push: %d cuts, %d KiB a cut sent twice", n, twice/n>>10)
	}

	dst := openStore(t)
	down := cut(t, host, false, cuts, next)
	puller := newClient(t, Options{})
	puller.backoff.base = 5 * time.Millisecond
	got, pulled, err := puller.Pull(ctx, down.Addr().String()+"/x:1", dst, PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	whole(t, dst, got)
	if n := down.cuts.Load(); n < cuts/2 || pulled.Bytes > size+2000 {
		t.Errorf("pull: %d cuts, %d bytes", n, pulled.Bytes)
	} else {
		t.Logf("pull: %d cuts, %d bytes received twice", n, pulled.Bytes-size-pulledConfig(t, dst, got))
	}
}

// pulledConfig returns the size of the config of an artifact with one layer.
func pulledConfig(t *testing.T, s *registry.Store, desc ocispec.Descriptor) int64 {
	t.Helper()
	p, err := newPlan(context.Background(), s, desc, filter{})
	if err != nil {
		t.Fatal(err)
	}
	return p.blobs[0].Size
}

// killSize is the blob of TestKilledPull; the store saves the progress of one
// every 64 MiB.
const killSize, killKeep = 160 << 20, 64 << 20

// TestKilledPull kills the pulling process, and counts the bytes that the next
// one fetches again.
func TestKilledPull(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("MM_TEST_PULL_INTO"); dir != "" {
		pullInto(t, dir, os.Getenv("MM_TEST_PULL_FROM"))
		return
	}
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	if runtime.GOOS == "windows" {
		t.Skip("skipped: no signal tells a kill here")
	}
	s := registrytest.New()
	layer, _ := oneBlob(t, s, killSize)
	var served atomic.Int64
	var kill atomic.Pointer[os.Process]
	marks := []int64{30 << 20, 70 << 20, 130 << 20, 150 << 20} // where the process dies
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || digestOf(r) != layer.Digest {
			return false
		}
		s.ServeBlob(&counting{ResponseWriter: w, n: &served, at: func(n int64) {
			if p := kill.Load(); p != nil && len(marks) > 0 && n >= marks[0] {
				marks = marks[1:]
				p.Kill()
			}
		}}, r, layer.Digest)
		return true
	}
	ref := serve(t, s) + "/x:1"
	dir := t.TempDir()
	kills := 0
	for range 20 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledPull$")
		cmd.Env = append(os.Environ(), "MM_TEST_PULL_INTO="+dir, "MM_TEST_PULL_FROM="+ref)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill.Store(cmd.Process)
		err := cmd.Wait()
		if err == nil {
			break
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatal(err)
		}
		kills++
	}
	dst, err := registry.Open(dir, registry.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	if err := dst.Verify(context.Background(), layer); err != nil {
		t.Error(err)
	}
	if kills != 4 || served.Load() > killSize+int64(kills)*killKeep {
		t.Errorf("%d kills, %d MiB served for %d", kills, served.Load()>>20, killSize>>20)
	}
	t.Logf("%d kills, %d MiB served twice of at most %d", kills, (served.Load()-killSize)>>20, kills*killKeep>>20)
}

// pullInto is the process that is killed.
func pullInto(t *testing.T, dir, ref string) {
	dst, err := registry.Open(dir, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	if _, _, err := newClient(t, Options{}).Pull(context.Background(), ref, dst, PullOptions{}); err != nil {
		t.Fatal(err)
	}
}

// counting forwards a body in pieces and counts the bytes sent.
type counting struct {
	http.ResponseWriter
	n  *atomic.Int64
	at func(n int64)
}

func (c *counting) Write(p []byte) (int, error) {
	sent := 0
	for len(p) > 0 {
		n, err := c.ResponseWriter.Write(p[:min(len(p), 256<<10)])
		sent, p = sent+n, p[n:]
		c.at(c.n.Add(int64(n)))
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}
