package remote

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// TestDistribution pushes to and pulls from distribution's registry, and kills
// it in the middle of an upload.
func TestDistribution(t *testing.T) {
	host, stop, start := distribution(t)

	ctx := context.Background()
	src, dst := openStore(t), openStore(t)
	a := newAssembly(t, src)
	c := newClient(t, Options{Chunk: 256 << 10})
	ref := host + "/team/p-lite:0.1.0"
	if _, err := c.Push(ctx, src, a.index, ref, PushOptions{}); err != nil {
		t.Fatal(err)
	}
	report, err := c.Push(ctx, src, a.index, ref, PushOptions{})
	if err != nil || report.Bytes != 0 {
		t.Errorf("again: %+v, %v", report, err)
	}
	got, _, err := c.Pull(ctx, ref, dst, PullOptions{Verifier: a.verifier(t)})
	if err != nil {
		t.Fatal(err)
	}
	whole(t, dst, got)
	if tags, err := c.Tags(ctx, host+"/team/p-lite"); err != nil || strings.Join(tags, " ") != "0.1.0" {
		t.Error(tags, err)
	}
	report, err = c.Push(ctx, src, a.laptop, host+"/team/copy:1", PushOptions{MountFrom: []string{"team/p-lite"}})
	if err != nil || report.Mounted < 3 || report.Bytes > 10_000 {
		t.Errorf("mounting: %+v, %v", report, err)
	}

	// Killed between and within chunks, the upload resumes.
	const size, chunk = 32 << 20, 4 << 20
	big := pack(t, src, "big", layer(t, src, "core-llm.gguf", "core", noise(7, size)))
	var restarts int64
	var mu sync.Mutex
	marks := []int64{5 << 20, 13 << 20, 26 << 20}
	c = newClient(t, Options{Chunk: chunk, Progress: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == Moved && len(marks) > 0 && e.Offset > marks[0] {
			marks = marks[1:]
			restarts++
			stop()
			start()
		}
	}})
	c.backoff.base = 50 * time.Millisecond
	report, err = c.Push(ctx, src, big, host+"/team/big:1", PushOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if restarts != 3 || report.Bytes > size+restarts*(chunk+1<<20)+10_000 {
		t.Errorf("%d restarts, %d bytes sent for %d", restarts, report.Bytes, size)
	}
	t.Logf("%d restarts of the registry, %d KiB sent twice of at most %d", restarts, (report.Bytes-size)>>10, restarts*chunk>>10)
}

// distribution runs distribution's registry, and stops it with the test.
func distribution(t *testing.T) (host string, stop, start func()) {
	t.Helper()
	binary := findDistribution(t)
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host = l.Addr().String()
	l.Close()
	config := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage:\n  filesystem: {rootdirectory: %s/data}\nhttp: {addr: %s}\n", dir, host)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var server *exec.Cmd
	start = func() {
		server = exec.Command(binary, "serve", config)
		server.Stdout, server.Stderr = io.Discard, io.Discard
		if err := server.Start(); err != nil {
			t.Error(err)
			return
		}
		for range 400 {
			if resp, err := http.Get("http://" + host + "/v2/"); err == nil {
				resp.Body.Close()
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Error("the registry does not answer")
	}
	stop = func() {
		server.Process.Kill()
		server.Wait()
	}
	start()
	t.Cleanup(func() { stop() })
	return host, stop, start
}

// findDistribution finds distribution's registry on PATH, under either name.
func findDistribution(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"registry-distribution", "registry"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if out, _ := exec.Command(path, "--version").CombinedOutput(); strings.Contains(string(out), "distribution") {
			return path
		}
	}
	t.Skip("skipped: no registry of distribution v3 on PATH (as registry-distribution)")
	return ""
}

// TestCosignVerifiesWhatWasPushed has cosign, at the other end, verify the
// signatures of an index and of each of its manifests.
func TestCosignVerifiesWhatWasPushed(t *testing.T) {
	out, err := exec.Command("cosign", "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "v3.") {
		t.Skip("skipped: no cosign v3 on PATH")
	}
	check := func(t *testing.T, host string) {
		ctx := context.Background()
		src := openStore(t)
		a := newAssembly(t, src)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "cosign.pub"), a.policy.Keys["release"].PEM, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := newClient(t, Options{}).Push(ctx, src, a.index, host+"/team/p-lite:1", PushOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, d := range []ocispec.Descriptor{a.index, a.laptop, a.mobile} {
			cmd := exec.Command("cosign", "verify", "--key", "cosign.pub", "--insecure-ignore-tlog=true", "--allow-http-registry", host+"/team/p-lite@"+d.Digest.String())
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+dir, "DOCKER_CONFIG="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", d.MediaType, err, out)
			}
		}
	}
	registries(t, func(t *testing.T, host string, _ *requests) { check(t, host) })
	t.Run("distribution", func(t *testing.T) {
		host, _, _ := distribution(t)
		check(t, host)
	})
}
